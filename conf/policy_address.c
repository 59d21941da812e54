/* The dialer's question: may this address be dialled for that destination? */
#include "conf/policy.h"
#include "conf/policy_rule.h"

struct placing {
	const struct image *im;
	const struct dest *dest;
	const struct policy_place *place;
	struct addr bare; /* unwrapped: what a v4-in-v6 form really reaches */
	enum addr_class class;
	uint32_t deny, allow, stopped;
	enum status why; /* the first allow rule's objection, or ST_OK: none heard */
};

/* The address is looked at for a DNS question, which has no port. */
static bool
is_any_port(const struct placing *p)
{
	return p->dest->port == 0;
}

static bool
port_fits(const struct placing *p, const struct image_rule *r)
{
	return policy_port_fits(p->im, r, p->dest->port);
}

/* What the policy says of the name alone. */
static void
judge_name(const struct placing *p, uint32_t policy, struct policy_answer *ret_a)
{
	struct policy_question q = { .may = mandate_of(policy),
				     .dest = p->dest,
				     .way = WAY_ANY };

	if (is_any_port(p))
		policy_judge_name(p->im, q.may, p->dest, ret_a);
	else
		policy_judge(p->im, &q, ret_a);
}

static bool
lists_place(const struct placing *p, const struct image_rule *r)
{
	bool is_country = r->countries_n == 0 ||
			  policy_country_is_listed(p->im, r, p->place->country);
	bool is_asn = r->asns_n == 0 || policy_asn_is_listed(p->im, r, p->place->asn);

	return is_country && is_asn;
}

static bool
place_is_unknown(const struct placing *p, const struct image_rule *r)
{
	return (r->countries_n > 0 && p->place->country[0] == '\0') ||
	       (r->asns_n > 0 && p->place->asn == 0);
}

static void
hear_deny(struct placing *p, uint32_t index, const struct image_rule *r)
{
	if (policy_rule_reads(r))
		return;
	/* A DNS question is refused only by what refuses every port. */
	if (is_any_port(p) ? r->ports_n > 0 : !port_fits(p, r))
		return;
	/* A private address has no country; of a public one not knowing means denying.
	 */
	if (policy_rule_places(r) && (p->class != ADDR_PUBLIC ||
				      (!place_is_unknown(p, r) && !lists_place(p, r))))
		return;
	p->deny = index;
}

/* Not public: only where the rule says so on purpose. */
static enum status
judge_private(const struct placing *p, const struct image_rule *r)
{
	if (policy_cidrs_have(p->im, r->addresses, r->addresses_n, &p->bare, true))
		return ST_OK;
	if (!dest_is_name(p->dest) &&
	    policy_cidrs_have(p->im, r->cidrs, r->cidrs_n, &p->bare, true))
		return ST_OK;
	return ST_ADDRESS_PRIVATE;
}

static void
hear(void *ctx, uint32_t index, const struct image_rule *r)
{
	struct placing *p = ctx;
	enum status st = ST_OK;

	if (r->is_deny) {
		hear_deny(p, index, r);
		return;
	}
	if (r->connector != CONNECTOR_NONE || (!is_any_port(p) && !port_fits(p, r)))
		return;
	if (p->class != ADDR_PUBLIC)
		st = judge_private(p, r);
	else if (!lists_place(p, r))
		st = ST_DENIED_COUNTRY;
	if (st == ST_OK && p->allow == RULE_NONE)
		p->allow = index;
	if (st != ST_OK && p->why == ST_OK) {
		p->why = st;
		p->stopped = index;
	}
}

/* No allow rule names it, or all that do object. */
static enum status
refusal(const struct placing *p, uint32_t policy)
{
	struct policy_answer a;

	if (p->why != ST_OK)
		return p->why;
	judge_name(p, policy, &a);
	if (a.action == ACTION_DENY)
		return a.reason;
	/* observe: nothing names it, so nothing says that it may be private */
	return p->class == ADDR_PUBLIC ? ST_OK : ST_ADDRESS_PRIVATE;
}

static enum status
denied(const struct placing *p, uint32_t policy)
{
	size_t n;
	const struct image_policy *all = image_policies(p->im, &n);
	struct policy_answer a;

	/* observe lets pass what a deny rule says of the name, not of the address */
	judge_name(p, policy, &a);
	if (all[policy].is_observe && a.observed && a.rule == p->deny)
		return refusal(p, policy);
	return ST_DENIED_RULE;
}

static enum status
judge(const struct image *im, uint32_t policy, const struct dest *d,
      const struct policy_place *place, uint32_t *ret_rule)
{
	size_t n;
	struct placing p = { .im = im,
			     .dest = d,
			     .place = place,
			     .bare = addr_unwrap(place->addr),
			     .class = addr_classify(place->addr),
			     .deny = RULE_NONE,
			     .allow = RULE_NONE,
			     .stopped = RULE_NONE,
			     .why = ST_OK };

	*ret_rule = RULE_NONE;
	(void)image_policies(im, &n);
	if (policy >= n)
		return ST_NO_POLICY;
	if (p.class == ADDR_METADATA)
		return ST_ADDRESS_METADATA;
	policy_each_rule(im, policy, d, &p.bare, hear, &p);
	enum status st = ST_OK;
	if (p.deny != RULE_NONE)
		st = denied(&p, policy);
	else if (p.allow == RULE_NONE)
		st = refusal(&p, policy);
	*ret_rule = p.stopped;
	if (st == ST_OK)
		*ret_rule = p.allow;
	else if (st == ST_DENIED_RULE)
		*ret_rule = p.deny;
	return st;
}

enum status
policy_address(const struct image *im, struct mandate may, const struct dest *d,
	       const struct policy_place *place, uint32_t *ret_rule)
{
	enum status st = judge(im, may.policy, d, place, ret_rule);

	if (st != ST_OK)
		return st;
	st = narrow_judge_address(may.narrow, d, place->addr);
	if (st != ST_OK)
		*ret_rule = RULE_NONE;
	return st;
}

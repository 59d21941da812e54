#include "conf/policy_rule.h"

#include <string.h>

#include "conf/policy.h"

/* A range as wide as this was not written with private addresses in mind. */
enum { NARROW_4 = 8, NARROW_6 = 7 };

bool
policy_rule_reads(const struct image_rule *r)
{
	return r->methods_n > 0 || r->paths_n > 0 || r->query_n > 0;
}

bool
policy_rule_places(const struct image_rule *r)
{
	return r->countries_n > 0 || r->asns_n > 0;
}

bool
policy_port_fits(const struct image *im, const struct image_rule *r, uint16_t port)
{
	size_t n;
	const struct image_ports *p = image_table(im, IMAGE_PORTS, &n);

	for (uint32_t i = 0; i < r->ports_n; i++)
		if (port >= p[r->ports + i].low && port <= p[r->ports + i].high)
			return true;
	return r->ports_n == 0;
}

/* HEAD is GET without the body (RFC 9110 section 9.3.2): one rule speaks for both.  Some
 * servers take a method in any case: a deny rule does, too. */
static bool
is_method(const struct image_rule *r, struct str have, struct str m)
{
	if (r->is_deny ? str_ieq(have, m) : str_eq(have, m))
		return true;
	return str_eq(m, STR("HEAD")) && str_eq(have, STR("GET"));
}

bool
policy_method_fits(const struct image *im, const struct image_rule *r, struct str m)
{
	size_t n;
	const struct image_ref *w = image_table(im, IMAGE_WORDS, &n);

	for (uint32_t i = 0; i < r->methods_n; i++)
		if (is_method(r, image_str(im, w[r->methods + i]), m))
			return true;
	return r->methods_n == 0;
}

bool
policy_path_fits(const struct image *im, const struct image_rule *r, struct str path)
{
	size_t n;
	const struct image_ref *w = image_table(im, IMAGE_WORDS, &n);

	for (uint32_t i = 0; i < r->paths_n; i++) {
		struct str pattern = image_str(im, w[r->paths + i]);
		if (r->is_deny ? policy_path_may_mean(pattern, path)
			       : policy_path_matches(pattern, path))
			return true;
	}
	return r->paths_n == 0;
}

uint32_t
policy_rule_rank(const struct image *im, const struct image_rule *r, struct str path)
{
	size_t n;
	const struct image_ref *w = image_table(im, IMAGE_WORDS, &n);
	uint32_t best = 0;

	for (uint32_t i = 0; i < r->paths_n; i++) {
		struct str pattern = image_str(im, w[r->paths + i]);
		if (policy_path_matches(pattern, path) &&
		    policy_path_rank(pattern) > best)
			best = policy_path_rank(pattern);
	}
	return best;
}

/* is_narrow: ranges that are so wide that they only mean "anywhere" don't count. */
bool
policy_cidrs_have(const struct image *im, uint32_t first, uint32_t n,
		  const struct addr *a, bool is_narrow)
{
	size_t all;
	const struct cidr *c = image_table(im, IMAGE_CIDRS, &all);

	for (uint32_t i = first; i < first + n; i++) {
		uint8_t least = c[i].net.family == 4 ? NARROW_4 : NARROW_6;
		if (is_narrow && c[i].bits < least)
			continue;
		if (cidr_has(&c[i], a))
			return true;
	}
	return false;
}

bool
policy_country_is_listed(const struct image *im, const struct image_rule *r,
			 const char country[3])
{
	size_t n;
	const struct image_country *c = image_table(im, IMAGE_COUNTRIES, &n);

	for (uint32_t i = 0; i < r->countries_n; i++)
		if (memcmp(c[r->countries + i].code, country, 2) == 0)
			return true;
	return false;
}

bool
policy_asn_is_listed(const struct image *im, const struct image_rule *r, uint32_t asn)
{
	size_t n;
	const uint32_t *a = image_table(im, IMAGE_ASNS, &n);

	for (uint32_t i = 0; i < r->asns_n; i++)
		if (a[r->asns + i] == asn)
			return true;
	return false;
}

struct look {
	const struct image *im;
	uint32_t policy;
	policy_rule_fn fn;
	void *ctx;
};

static void
visit_slot(const struct look *l, uint64_t hash, struct str name, uint8_t state)
{
	size_t n;
	const struct image_rule *rules = image_rules(l->im, &n);
	const uint32_t *postings = image_table(l->im, IMAGE_POSTINGS, &n);
	const struct image_slot *s = image_find_slot(l->im, image_hash_end(hash, state),
						     l->policy, name, state);

	for (uint32_t i = 0; s != NULL && i < s->n; i++) {
		uint32_t rule = postings[s->first + i];
		l->fn(l->ctx, rule, &rules[rule]);
	}
}

/* From the right: at each dot the parents' pattern, at the end the name's own. */
static void
visit_name(const struct look *l, struct str name)
{
	uint64_t h = image_hash_start(l->policy);

	for (size_t i = name.n; i > 0; i--) {
		if (name.p[i - 1] == '.')
			visit_slot(l, h, str_skip(name, i), SLOT_WILD);
		h = image_hash_feed(h, name.p[i - 1]);
	}
	visit_slot(l, h, name, SLOT_EXACT);
}

static bool
loose_covers(const struct image *im, const struct image_rule *r, const struct dest *d,
	     const struct addr *addr)
{
	/* A rule for every host.  Raw bytes need a name that says where they go. */
	if (r->hosts_n == 0 && r->cidrs_n == 0)
		return r->is_deny ||
		       (r->is_any_host && (!r->is_tcp || dest_is_name(d)));
	if (!dest_is_name(d) &&
	    policy_cidrs_have(im, r->cidrs, r->cidrs_n, &d->addr, false))
		return true;
	return addr != NULL && r->is_deny &&
	       policy_cidrs_have(im, r->cidrs, r->cidrs_n, addr, false);
}

void
policy_each_rule(const struct image *im, uint32_t policy, const struct dest *d,
		 const struct addr *addr, policy_rule_fn fn, void *ctx)
{
	size_t policies_n, rules_n;
	const struct image_policy *p = image_policies(im, &policies_n);
	const struct image_rule *rules = image_rules(im, &rules_n);
	struct look look = { im, policy, fn, ctx };

	if (policy >= policies_n)
		return;
	p += policy;
	for (uint32_t i = p->rules; i < p->rules + p->loose_n; i++)
		if (loose_covers(im, &rules[i], d, addr))
			fn(ctx, i, &rules[i]);
	if (dest_is_name(d))
		visit_name(&look, dest_name(d));
}

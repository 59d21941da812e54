#include "conf/policy.h"

#include "conf/policy_rule.h"

/* How far the question came with the best allow rule; the refusal says where it ended.
 */
enum progress {
	CAME_NOWHERE,
	CAME_TO_PORT,
	CAME_TO_PROTOCOL,
	CAME_TO_METHOD,
	CAME_TO_PATH,
	CAME_TO_QUERY,
	CAME_THROUGH,
};

static const enum status refusals[] = {
	[CAME_NOWHERE] = ST_DENIED,
	[CAME_TO_PORT] = ST_DENIED_PORT,
	[CAME_TO_PROTOCOL] = ST_DENIED_PROTOCOL,
	[CAME_TO_METHOD] = ST_DENIED_METHOD,
	[CAME_TO_PATH] = ST_DENIED_PATH,
	[CAME_TO_QUERY] = ST_DENIED_QUERY,
	[CAME_THROUGH] = ST_OK,
};

struct best { /* of allow rules, or of connectors' rules */
	enum progress progress;
	enum policy_action action;
	uint32_t rule, rank;
};

struct verdict {
	const struct image *im;
	const struct policy_question *q;
	bool any_port;   /* a DNS question */
	bool is_watched; /* a deny rule looks at requests: TLS must be ended */
	uint32_t deny;   /* the rule that refuses, or RULE_NONE */
	struct best allow, connector;
};

/* Which of two allowed actions fits the way better; the higher wins. */
static uint32_t
rank(enum policy_way way, enum policy_action a)
{
	static const uint8_t ranks[][ACTION_INTERCEPT + 1] = {
		/* deny, tunnel, http, tcp, intercept */
		[WAY_ANY] = { 0, 2, 1, 3, 0 },
		[WAY_TLS] = { 0, 3, 0, 2, 1 },
		[WAY_HTTP] = { 0, 1, 3, 2, 0 },
		[WAY_TCP] = { 0, 1, 1, 3, 0 },
	};

	return ranks[way][a];
}

static bool
request_fits(const struct verdict *v, const struct image_rule *r)
{
	return policy_method_fits(v->im, r, v->q->method) &&
	       policy_path_fits(v->im, r, v->q->path) &&
	       policy_query_meets(v->im, r, v->q->query);
}

static void
hear_deny(struct verdict *v, uint32_t index, const struct image_rule *r)
{
	/* What it needs to know is known only when an address is dialled. */
	if (policy_rule_places(r))
		return;
	if (v->any_port ? r->ports_n > 0
			: !policy_port_fits(v->im, r, v->q->dest->port))
		return;
	if (!policy_rule_reads(r)) {
		v->deny = v->deny == RULE_NONE ? index : v->deny;
		return;
	}
	v->is_watched = true;
	if (v->q->way == WAY_HTTP && request_fits(v, r) && v->deny == RULE_NONE)
		v->deny = index;
}

/* How far a request comes with a rule that names its host and port. */
static enum progress
try_request(const struct verdict *v, const struct image_rule *r)
{
	if (!policy_method_fits(v->im, r, v->q->method))
		return CAME_TO_METHOD;
	if (!policy_path_fits(v->im, r, v->q->path))
		return CAME_TO_PATH;
	if (!policy_query_fits(v->im, r, v->q->query))
		return CAME_TO_QUERY;
	return CAME_THROUGH;
}

/* Where an allow rule that names host and port stops, or CAME_THROUGH and the action.
 */
static enum progress
try_http(const struct verdict *v, const struct image_rule *r, enum policy_action *ret_a)
{
	/* On a shared suffix only the Host inside says whose site it is. */
	bool is_read = policy_rule_reads(r) || r->is_shared_suffix || v->q->needs_bytes;

	switch (v->q->way) {
	case WAY_TCP:
		return CAME_TO_PROTOCOL;
	case WAY_TLS:
		*ret_a = is_read ? ACTION_INTERCEPT : ACTION_TUNNEL;
		return CAME_THROUGH;
	case WAY_HTTP:
		*ret_a = ACTION_HTTP;
		return try_request(v, r);
	case WAY_ANY:
		break;
	}
	*ret_a = policy_rule_reads(r) ? ACTION_HTTP : ACTION_TUNNEL;
	return CAME_THROUGH;
}

static void
take_better(struct best *best, const struct best *other)
{
	if (other->progress < best->progress ||
	    (other->progress == best->progress &&
	     (other->progress != CAME_THROUGH || other->rank <= best->rank)))
		return;
	*best = *other;
}

static void
hear_allow(struct verdict *v, uint32_t index, const struct image_rule *r)
{
	struct best one = { .progress = CAME_THROUGH, .rule = index };

	if (!v->any_port && !policy_port_fits(v->im, r, v->q->dest->port))
		one.progress = CAME_TO_PORT;
	else if (r->is_tcp)
		one.action = ACTION_TCP;
	else
		one.progress = try_http(v, r, &one.action);
	/* Of rules that fit alike, one that asks nobody. */
	one.rank = 2 * rank(v->q->way, one.action) + (r->approval == APPROVAL_NEVER);
	take_better(&v->allow, &one);
}

/* Among connectors the most specific path wins; that there is one, conf made sure. */
static void
hear_connector(struct verdict *v, uint32_t index, const struct image_rule *r)
{
	struct best one = { .progress = CAME_TO_PROTOCOL, .rule = index };

	if (!v->any_port && !policy_port_fits(v->im, r, v->q->dest->port)) {
		one.progress = CAME_TO_PORT;
		take_better(&v->allow, &one);
		return;
	}
	if (v->q->way == WAY_HTTP && v->q->is_tls) {
		one.progress = try_request(v, r);
		one.rank = 1 + policy_rule_rank(v->im, r, v->q->path);
	}
	take_better(&v->connector, &one);
}

static void
hear(void *ctx, uint32_t index, const struct image_rule *r)
{
	struct verdict *v = ctx;

	if (r->is_deny)
		hear_deny(v, index, r);
	else if (r->connector == CONNECTOR_NONE)
		hear_allow(v, index, r);
	else
		hear_connector(v, index, r);
}

static struct policy_answer
answer(enum policy_action action, enum status reason, uint32_t rule)
{
	return (struct policy_answer){ action, reason, rule, false, CONNECTOR_NONE };
}

static struct policy_answer
refuse(enum status reason, uint32_t rule)
{
	return answer(ACTION_DENY, reason, rule);
}

static struct policy_answer
conclude_connector(const struct verdict *v)
{
	const struct best *c = &v->connector;

	if (v->q->way == WAY_ANY || v->q->way == WAY_TLS)
		return answer(ACTION_INTERCEPT, ST_OK, c->rule);
	/* Between sandbox and gateway others may listen, and what comes back was got with
	 * a credential. */
	if (v->q->way == WAY_TCP || !v->q->is_tls)
		return refuse(ST_NEEDS_TLS, c->rule);
	if (c->progress != CAME_THROUGH)
		return refuse(refusals[c->progress], c->rule);
	return answer(ACTION_CONNECTOR, ST_OK, c->rule);
}

static struct policy_answer
conclude_allow(const struct verdict *v)
{
	const struct best *b = &v->allow;

	if (b->progress != CAME_THROUGH) {
		bool is_literal =
			b->progress == CAME_NOWHERE && !dest_is_name(v->q->dest);
		return refuse(is_literal ? ST_IP_LITERAL : refusals[b->progress],
			      b->rule);
	}
	struct policy_answer a = answer(b->action, ST_OK, b->rule);
	/* Carried unread, a request that a deny rule names would slip by. */
	if (v->is_watched && v->q->way == WAY_ANY && a.action == ACTION_TCP)
		a.action = ACTION_TUNNEL;
	if (v->is_watched && v->q->way == WAY_TLS)
		a.action = ACTION_INTERCEPT;
	return a;
}

static struct policy_answer
conclude(const struct verdict *v)
{
	size_t n;
	const struct image_rule *rules = image_rules(v->im, &n);
	bool is_covered = v->connector.rule != RULE_NONE;
	struct policy_answer a;

	if (v->deny != RULE_NONE)
		a = refuse(ST_DENIED_RULE, v->deny);
	else if (is_covered)
		a = conclude_connector(v);
	else
		a = conclude_allow(v);
	if (is_covered)
		a.connector = rules[v->connector.rule].connector;
	return a;
}

/* Raw bytes and connectors' hosts are not a matter of name, port, method or path. */
static void
observe(const struct verdict *v, struct policy_answer *a)
{
	size_t n;
	const struct image_policy *p = image_policies(v->im, &n);

	if (a->action != ACTION_DENY || !p[v->q->may.policy].is_observe ||
	    v->q->way == WAY_TCP || a->connector != CONNECTOR_NONE)
		return;
	a->action = v->q->way == WAY_HTTP ? ACTION_HTTP : ACTION_TUNNEL;
	if (v->q->way == WAY_TLS && v->q->needs_bytes)
		a->action = ACTION_INTERCEPT;
	a->observed = true;
}

/* The sandbox's own wish is no draft of the operator's: it holds in observe mode too. */
static void
narrow(const struct policy_question *q, struct policy_answer *a)
{
	if (a->action == ACTION_DENY || narrow_judge(q->may.narrow, q->dest) == ST_OK)
		return;
	a->action = ACTION_DENY;
	a->reason = ST_NARROWED;
	a->rule = RULE_NONE;
	a->observed = false;
}

static void
judge(const struct image *im, const struct policy_question *q, bool any_port,
      struct policy_answer *ret_a)
{
	size_t n;
	struct verdict v = { .im = im,
			     .q = q,
			     .any_port = any_port,
			     .deny = RULE_NONE,
			     .allow.rule = RULE_NONE,
			     .connector.rule = RULE_NONE };

	(void)image_policies(im, &n);
	if (q->may.policy >= n) {
		*ret_a = refuse(ST_NO_POLICY, RULE_NONE);
		return;
	}
	policy_each_rule(im, q->may.policy, q->dest, NULL, hear, &v);
	*ret_a = conclude(&v);
	observe(&v, ret_a);
	narrow(q, ret_a);
}

/* Each costs as much as a request. */
enum { METHODS_MAX = 16 };

/* Whoever reads the request's method goes on with it, whoever reads the other with that:
 * both must lead to the same place. */
static void
judge_methods(const struct image *im, const struct policy_question *q,
	      struct policy_answer *a)
{
	struct policy_methods methods = { .head = q->head, .query = q->query };
	struct policy_question other = *q;
	struct policy_answer b;

	for (size_t n = 0;
	     a->action != ACTION_DENY && policy_next_method(&methods, &other.method);
	     n++) {
		judge(im, &other, false, &b);
		if (n == METHODS_MAX)
			b = refuse(ST_DENIED_METHOD, a->rule);
		if (b.action != ACTION_DENY && b.connector != a->connector)
			b = refuse(ST_DENIED_METHOD, b.rule);
		if (b.action == ACTION_DENY || b.observed)
			*a = b;
	}
}

void
policy_judge(const struct image *im, const struct policy_question *q,
	     struct policy_answer *ret_a)
{
	judge(im, q, false, ret_a);
	if (q->way == WAY_HTTP)
		judge_methods(im, q, ret_a);
}

static enum approval_when
approval_of_connector(const struct image *im, uint32_t connector)
{
	size_t n;
	const struct image_connector *all = image_connectors(im, &n);

	return connector < n ? (enum approval_when)all[connector].approval
			     : APPROVAL_NEVER;
}

enum approval_when
policy_approval(const struct image *im, const struct policy_answer *a)
{
	size_t n;
	const struct image_rule *all;

	/* In observe mode what no rule allows passes by none. */
	if (a->action == ACTION_DENY || a->observed)
		return APPROVAL_NEVER;
	if (a->action == ACTION_CONNECTOR)
		return approval_of_connector(im, a->connector);
	all = image_rules(im, &n);
	return a->rule < n ? (enum approval_when)all[a->rule].approval : APPROVAL_NEVER;
}

void
policy_judge_name(const struct image *im, struct mandate may, const struct dest *d,
		  struct policy_answer *ret_a)
{
	struct policy_question q = { .may = may, .dest = d, .way = WAY_ANY };

	judge(im, &q, true, ret_a);
}

struct name_look {
	bool is_found;
};

static void
hear_name(void *ctx, uint32_t index, const struct image_rule *r)
{
	struct name_look *l = ctx;

	(void)index;
	l->is_found = l->is_found ||
		      (!r->is_deny && (r->is_tcp || r->connector != CONNECTOR_NONE));
}

bool
policy_is_by_name(const struct image *im, uint32_t policy, struct str name)
{
	struct name_look l = { false };
	struct dest d;

	/* Port 443 stands in: only the host is looked at here. */
	if (dest_from_host(name, 443, &d) != ST_OK || !dest_is_name(&d))
		return false;
	policy_each_rule(im, policy, &d, NULL, hear_name, &l);
	return l.is_found;
}

#include "conf/policy.h"

#include "conf/policy_rule.h"

/* How far the question came with the best allow rule; the refusal says where it ended.
 */
enum progress {
	CAME_NOWHERE,
	CAME_TO_PORT,
	CAME_TO_PROTOCOL,
	CAME_TO_TLS,
	CAME_TO_METHOD,
	CAME_TO_PATH,
	CAME_THROUGH,
};

static const enum status refusals[] = {
	[CAME_NOWHERE] = ST_DENIED,
	[CAME_TO_PORT] = ST_DENIED_PORT,
	[CAME_TO_PROTOCOL] = ST_DENIED_PROTOCOL,
	[CAME_TO_TLS] = ST_NEEDS_INTERCEPT,
	[CAME_TO_METHOD] = ST_DENIED_METHOD,
	[CAME_TO_PATH] = ST_DENIED_PATH,
	[CAME_THROUGH] = ST_OK,
};

struct verdict {
	const struct image *im;
	const struct policy_question *q;
	bool any_port;                    /* a DNS question */
	uint32_t deny, hidden, connector; /* rules that refuse, or RULE_NONE */
	bool is_watched; /* a deny rule looks at methods or paths: bytes must be read */
	enum progress progress;
	enum policy_action action;
	uint32_t rule;
};

/* Which of two allowed actions fits the way better; the higher wins. */
static int
rank(enum policy_way way, enum policy_action a)
{
	static const int ranks[][4] = {
		/* deny, tunnel, http, tcp */
		[WAY_ANY] = { 0, 2, 1, 3 },
		[WAY_TLS] = { 0, 3, 1, 2 },
		[WAY_HTTP] = { 0, 1, 3, 2 },
		[WAY_TCP] = { 0, 1, 1, 3 },
	};

	return ranks[way][a];
}

static bool
bytes_fit(const struct verdict *v, const struct image_rule *r)
{
	return policy_method_fits(v->im, r, v->q->method) &&
	       policy_path_fits(v->im, r, v->q->path);
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
	if (v->q->way == WAY_HTTP && bytes_fit(v, r) && v->deny == RULE_NONE)
		v->deny = index;
	else if (v->q->way == WAY_TLS)
		v->hidden = index; /* it can't be seen whether it applies: refuse */
}

/* Where an allow rule that names host and port stops, or CAME_THROUGH and the action.
 */
static enum progress
try_http(const struct verdict *v, const struct image_rule *r, enum policy_action *ret_a)
{
	enum policy_way way = v->q->way;

	if (way == WAY_TCP)
		return CAME_TO_PROTOCOL;
	/* On a shared suffix only the Host inside says whose site it is. */
	if (way == WAY_TLS && (policy_rule_reads(r) || r->is_shared_suffix))
		return CAME_TO_TLS;
	if (way == WAY_HTTP && !policy_method_fits(v->im, r, v->q->method))
		return CAME_TO_METHOD;
	if (way == WAY_HTTP && !policy_path_fits(v->im, r, v->q->path))
		return CAME_TO_PATH;
	*ret_a = way == WAY_HTTP || policy_rule_reads(r) ? ACTION_HTTP : ACTION_TUNNEL;
	return CAME_THROUGH;
}

static void
hear_allow(struct verdict *v, uint32_t index, const struct image_rule *r)
{
	enum policy_action action = ACTION_DENY;
	enum progress came = CAME_THROUGH;

	if (!v->any_port && !policy_port_fits(v->im, r, v->q->dest->port))
		came = CAME_TO_PORT;
	else if (r->is_tcp)
		action = ACTION_TCP;
	else
		came = try_http(v, r, &action);
	bool is_better = came > v->progress ||
			 (came == CAME_THROUGH && v->progress == CAME_THROUGH &&
			  rank(v->q->way, action) > rank(v->q->way, v->action));
	if (is_better) {
		v->progress = came;
		v->action = action;
		v->rule = index;
	}
}

static void
hear(void *ctx, uint32_t index, const struct image_rule *r)
{
	struct verdict *v = ctx;

	if (r->is_deny)
		hear_deny(v, index, r);
	else if (!r->is_connector)
		hear_allow(v, index, r);
	else if (v->any_port || policy_port_fits(v->im, r, v->q->dest->port))
		v->connector = index;
}

static struct policy_answer
refuse(enum status reason, uint32_t rule)
{
	return (struct policy_answer){ ACTION_DENY, reason, rule, false };
}

static struct policy_answer
conclude(const struct verdict *v)
{
	if (v->deny != RULE_NONE)
		return refuse(ST_DENIED_RULE, v->deny);
	if (v->connector != RULE_NONE)
		return refuse(ST_NEEDS_CONNECTOR, v->connector);
	if (v->progress != CAME_THROUGH) {
		bool is_literal =
			v->progress == CAME_NOWHERE && !dest_is_name(v->q->dest);
		return refuse(is_literal ? ST_IP_LITERAL : refusals[v->progress],
			      v->rule);
	}
	if (v->hidden != RULE_NONE)
		return refuse(ST_NEEDS_INTERCEPT, v->hidden);
	struct policy_answer a = { v->action, ST_OK, v->rule, false };
	/* Carried unread from the start, a request that a deny rule names would slip
	 * by. */
	if (v->is_watched && v->q->way == WAY_ANY && a.action == ACTION_TCP)
		a.action = ACTION_TUNNEL;
	return a;
}

/* Raw bytes and connectors' hosts are not a matter of name, port, method or path. */
static bool
may_observe(enum policy_way way, enum status reason)
{
	return way != WAY_TCP && reason != ST_NEEDS_CONNECTOR;
}

static void
observe(const struct verdict *v, struct policy_answer *a)
{
	size_t n;
	const struct image_policy *p = image_policies(v->im, &n);

	if (a->action != ACTION_DENY || !p[v->q->policy].is_observe ||
	    !may_observe(v->q->way, a->reason))
		return;
	a->action = v->q->way == WAY_HTTP ? ACTION_HTTP : ACTION_TUNNEL;
	a->observed = true;
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
			     .hidden = RULE_NONE,
			     .connector = RULE_NONE,
			     .rule = RULE_NONE };

	(void)image_policies(im, &n);
	if (q->policy >= n) {
		*ret_a = refuse(ST_NO_POLICY, RULE_NONE);
		return;
	}
	policy_each_rule(im, q->policy, q->dest, NULL, hear, &v);
	*ret_a = conclude(&v);
	observe(&v, ret_a);
}

void
policy_judge(const struct image *im, const struct policy_question *q,
	     struct policy_answer *ret_a)
{
	judge(im, q, false, ret_a);
}

void
policy_judge_name(const struct image *im, uint32_t policy, const struct dest *d,
		  struct policy_answer *ret_a)
{
	struct policy_question q = { .policy = policy, .dest = d, .way = WAY_ANY };

	judge(im, &q, true, ret_a);
}

struct tcp_look {
	bool is_found;
};

static void
hear_tcp(void *ctx, uint32_t index, const struct image_rule *r)
{
	struct tcp_look *l = ctx;

	(void)index;
	l->is_found = l->is_found || (r->is_tcp && !r->is_deny);
}

bool
policy_is_tcp_name(const struct image *im, uint32_t policy, struct str name)
{
	struct tcp_look l = { false };
	struct dest d;

	/* Port 443 stands in: only the host is looked at here. */
	if (dest_from_host(name, 443, &d) != ST_OK || !dest_is_name(&d))
		return false;
	policy_each_rule(im, policy, &d, NULL, hear_tcp, &l);
	return l.is_found;
}

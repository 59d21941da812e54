/*
 * policy: asks the one matcher.  A request needs its head; whether TLS is ended to see it
 * is a matter of the rules that cover the name.
 */
#include "filters/filter.h"

/* The dialer asked it of each address before it connected; what narrows the sandbox may have
 * changed since.  Of a parent proxy the address isn't the host's: then this may end what
 * could begin anew, which is the better error. */
static bool
is_narrowed_away(const struct exchange *x)
{
	struct dest there;

	if (x->address[0] == '\0' || x->action == ACTION_CONNECTOR)
		return false;
	return dest_from_authority(str_from(x->address), 0, &there) != ST_OK ||
	       dest_is_name(&there) ||
	       narrow_judge_address(x->who->may.narrow, x->dest, &there.addr) != ST_OK;
}

static enum verdict
judge(struct exchange *x)
{
	struct policy_question q = { .may = x->who->may,
				     .dest = x->dest,
				     .way = x->way,
				     .is_tls = x->is_tls,
				     .needs_bytes = x->needs_bytes };
	struct policy_answer a;

	if (x->way == WAY_HTTP) {
		q.method = x->method;
		q.path = x->path;
		q.query = x->query;
		q.head = x->request;
	}
	policy_judge(x->image, &q, &a);
	x->action = a.action;
	x->reason = a.reason;
	x->rule = a.rule;
	x->connector = a.connector;
	x->observed = a.observed;
	x->judged = x->generation;
	x->judged_revision = x->who->revision;
	if (a.action != ACTION_DENY && x->who->may.narrow != NULL &&
	    is_narrowed_away(x)) {
		x->action = ACTION_DENY;
		x->reason = ST_NARROWED;
		x->rule = RULE_NONE;
		return VERDICT_DENY;
	}
	return a.action == ACTION_DENY ? VERDICT_DENY : VERDICT_NEXT;
}

/* While upstream was reached a reload, or another narrowing, may have taken the permission
 * away. */
static enum verdict
still_allowed(struct exchange *x)
{
	bool is_same =
		x->judged == x->generation && x->judged_revision == x->who->revision;

	return is_same ? VERDICT_NEXT : judge(x);
}

const struct filter filter_policy = {
	.name = "policy",
	.needs = NEEDS_HEAD,
	.on_hello = judge,
	.on_request = judge,
	.on_open = still_allowed,
};

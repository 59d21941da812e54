/* From PLACE's body on: who asks, may they, whose is it, what is to be done. */
#include <string.h>

#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"
#include "proxy/control/brain_sidecar.h"

struct op {
	brain_turn_fn fn;
	bool is_of_box; /* the route names a sandbox */
};

static void
swallow(struct brain_turn *t)
{
	brain_answer(t, 204, NULL);
}

/* Sets execd's token and environment: nobody's business but the server's. */
static void
never(struct brain_turn *t)
{
	brain_refuse(t, ST_EXEC_REFUSED, STR("execd is set up by its server only"));
}

/* NULL fn: of execd, or an application. */
static struct op
op_of(enum exec_op op)
{
	static const struct op ops[EXEC_OP_COUNT] = {
		[EXEC_OP_SANDBOX_CREATE] = { brain_create, false },
		[EXEC_OP_SANDBOX_LIST] = { brain_list, false },
		[EXEC_OP_SANDBOX_GET] = { brain_get, true },
		[EXEC_OP_SANDBOX_KILL] = { brain_kill, true },
		[EXEC_OP_SANDBOX_METADATA] = { brain_metadata, true },
		[EXEC_OP_SANDBOX_PAUSE] = { brain_pause, true },
		[EXEC_OP_SANDBOX_RESUME] = { brain_resume, true },
		[EXEC_OP_SANDBOX_RENEW] = { brain_renew, true },
		[EXEC_OP_SANDBOX_ENDPOINT] = { brain_endpoint, true },
		[EXEC_OP_SANDBOX_SNAPSHOT] = { brain_snapshot, true },
		[EXEC_OP_NETPOLICY_GET] = { brain_egress, true },
		[EXEC_OP_NETPOLICY_SET] = { brain_egress, true },
		[EXEC_OP_NETPOLICY_PATCH] = { brain_egress, true },
		[EXEC_OP_NETPOLICY_DELETE] = { brain_egress, true },
		[EXEC_OP_DIAGNOSTICS_LOGS] = { brain_diagnostics, true },
		[EXEC_OP_DIAGNOSTICS_EVENTS] = { brain_diagnostics, true },
		[EXEC_OP_DIAGNOSTICS_INSPECT] = { brain_diagnostics, true },
		[EXEC_OP_DIAGNOSTICS_SUMMARY] = { brain_diagnostics, true },
		[EXEC_OP_SNAPSHOT_LIST] = { brain_snapshots, false },
		[EXEC_OP_SNAPSHOT_GET] = { brain_snapshot_get, false },
		[EXEC_OP_SNAPSHOT_DELETE] = { brain_snapshot_delete, false },
		[EXEC_OP_POOL_CREATE] = { brain_pass, false },
		[EXEC_OP_POOL_LIST] = { brain_pass, false },
		[EXEC_OP_POOL_GET] = { brain_pass, false },
		[EXEC_OP_POOL_UPDATE] = { brain_pass, false },
		[EXEC_OP_POOL_DELETE] = { brain_pass, false },
		[EXEC_OP_TEMPLATE_CREATE] = { brain_pass, false },
		[EXEC_OP_TEMPLATE_LIST] = { brain_pass, false },
		[EXEC_OP_TEMPLATE_GET] = { brain_pass, false },
		[EXEC_OP_TEMPLATE_DELETE] = { brain_pass, false },
		[EXEC_OP_TELEMETRY] = { swallow, false },
		[EXEC_OP_INIT] = { never, true },
		[EXEC_OP_HEALTHZ] = { brain_egress, true },
		[EXEC_OP_POLICY_GET] = { brain_egress, true },
		[EXEC_OP_POLICY_SET] = { brain_egress, true },
		[EXEC_OP_POLICY_PATCH] = { brain_egress, true },
		[EXEC_OP_POLICY_DELETE] = { brain_egress, true },
		[EXEC_OP_VAULT_CREATE] = { brain_egress, true },
		[EXEC_OP_VAULT_GET] = { brain_egress, true },
		[EXEC_OP_VAULT_PATCH] = { brain_egress, true },
		[EXEC_OP_VAULT_DELETE] = { brain_egress, true },
		[EXEC_OP_CREDENTIAL_LIST] = { brain_egress, true },
		[EXEC_OP_CREDENTIAL_GET] = { brain_egress, true },
		[EXEC_OP_BINDING_LIST] = { brain_egress, true },
		[EXEC_OP_BINDING_GET] = { brain_egress, true },
		[EXEC_OP_EGRESS_OTHER] = { brain_egress, true },
	};
	struct op found = ops[op];

	return found.fn != NULL ? found : (struct op){ brain_exec, true };
}

bool
brain_look(struct brain_turn *t)
{
	if (brain_is_sidecar(t)) /* nobody ends it but with the gateway */
		return true;
	enum status st = brain_store_find(t->brain->store, &t->owner, t->wish.sandbox,
					  &t->arena, &t->box);

	if (st == ST_OK)
		return true;
	if (st == ST_NOT_FOUND)
		brain_answer_missing(t);
	else
		brain_refuse(t, st, STR(""));
	return false;
}

static bool
read_body(struct brain_turn *t)
{
	if (t->wish.body.n == 0 || t->wish.op == EXEC_OP_SANDBOX_CREATE ||
	    t->wish.op == EXEC_OP_TELEMETRY)
		return true;
	t->body = json_loadb(t->wish.body.p, t->wish.body.n, JSON_REJECT_DUPLICATES,
			     NULL);
	return t->body != NULL;
}

/* A create knows its sandbox a little later, and tells it then. */
static enum status
told(struct brain_turn *t)
{
	if (t->wish.op == EXEC_OP_SANDBOX_CREATE || !brain_is_told(t))
		return ST_OK;
	return brain_row(t);
}

/* In place of the one that it had. */
static enum status
take_share(struct brain_turn *t, const struct principal *who)
{
	struct brain_share *before = t->share;

	t->share = brain_share(t->brain, who);
	if (t->share != NULL)
		t->share->turns++;
	if (before != NULL) {
		before->turns--;
		brain_share_drop(t->brain, before);
	}
	if (t->share == NULL)
		return ST_NOMEM;
	return t->share->turns > BRAIN_USER_TURNS ? ST_LIMIT_USER : ST_OK;
}

static void
dispatch(struct brain_turn *t)
{
	struct op op = op_of((enum exec_op)t->wish.op);
	enum status st = principal_may(&t->who, (enum exec_op)t->wish.op);

	if (st == ST_OK)
		st = take_share(t, &t->who);
	t->owner =
		(struct brain_owner){ str_from(t->who.tenant), str_from(t->who.owner) };
	if (st != ST_OK)
		brain_refuse(t, st, STR(""));
	else if (op.is_of_box && !brain_look(t))
		return;
	else if (op.fn != brain_exec && !read_body(t))
		brain_refuse(t, ST_BAD_PARAMETER, STR("the body is no JSON"));
	else if (op.fn != brain_exec && told(t) != ST_OK)
		brain_refuse(t, ST_NO_LEDGER, STR(""));
	else
		op.fn(t);
}

static void
identify(void *ctx)
{
	struct brain_turn *t = ctx;
	enum status st =
		keys_principal(t->brain->control->keys, &t->wish, &t->keys, &t->who);

	/* Those whose token waits for its issuer's keys are one user together: anybody can make
	 * tokens that wait. */
	if (st == ST_AGAIN)
		st = take_share(t, &(const struct principal){ .tenant = "" }) == ST_OK
			     ? ST_AGAIN
			     : ST_LIMIT_TURNS;
	if (st == ST_OK)
		dispatch(t);
	else if (st != ST_AGAIN)
		brain_refuse(t, st, STR(""));
}

void
brain_place(struct brain_turn *t)
{
	t->keys.fn = identify;
	t->keys.ctx = t;
	if (t->wish.op >= EXEC_OP_COUNT)
		brain_refuse(t, ST_BAD_MESSAGE, STR(""));
	else if (t->wish.op == EXEC_OP_HEALTH)
		brain_answer(t, 200, json_pack("{s:s}", "status", "healthy"));
	else if (t->wish.op == EXEC_OP_VERSION)
		brain_answer(t, 200, json_pack("{s:s}", "version", SG_VERSION));
	else if (!brain_sidecar(t))
		identify(t);
}

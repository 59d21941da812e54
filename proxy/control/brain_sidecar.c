#include "proxy/control/brain_sidecar.h"

#include <string.h>

#include "proxy/control/brain_policy.h"
#include "proxy/control/enroll.h"

static const struct image_listener *
listener_of(const struct brain_turn *t)
{
	return image_listener_of_sandbox(t->brain->control->role.image,
					 t->wish.sandbox);
}

static bool
is_egress(unsigned op)
{
	return (op >= EXEC_OP_HEALTHZ && op <= EXEC_OP_BINDING_GET) ||
	       op == EXEC_OP_EGRESS_OTHER;
}

bool
brain_is_sidecar(const struct brain_turn *t)
{
	return is_egress(t->wish.op) && listener_of(t) != NULL;
}

static enum status
check_token(const struct brain_turn *t, const struct image_listener *l)
{
	uint8_t hash[32];

	if (t->wish.key.n == 0)
		return ST_KEY_MISSING;
	token_hash(t->wish.key, hash);
	return token_hash_eq(hash, l->token_hash)
		       ? ST_OK
		       : token_failed(t->brain->control, ST_KEY_INVALID);
}

/* What it may reach now, in the form in which it is asked for. */
static enum status
take_box(struct brain_turn *t)
{
	const struct who *w = enroll_find(t->brain->control, t->wish.sandbox);
	json_t *policy = NULL;

	if (w == NULL)
		return ST_SANDBOX_PENDING;
	t->box = (struct brain_sandbox){ .id = t->wish.sandbox,
					 .state = BRAIN_RUNNING,
					 .policy = STR("") };
	t->who.scopes = SCOPE_READ | SCOPE_EGRESS;
	memcpy(t->who.user, w->user.p, num_min(w->user.n, PRINCIPAL_NAME_MAX));
	if (w->may.narrow == NULL)
		return ST_OK;
	policy = netpolicy_of_narrow(w->may.narrow);
	t->box.policy = brain_dump(&t->arena, policy);
	json_decref(policy);
	return t->box.policy.p == NULL ? ST_NOMEM : ST_OK;
}

static enum status
read_body(struct brain_turn *t)
{
	if (t->wish.body.n == 0)
		return ST_OK;
	t->body = json_loadb(t->wish.body.p, t->wish.body.n, JSON_REJECT_DUPLICATES,
			     NULL);
	return t->body == NULL ? ST_BAD_PARAMETER : ST_OK;
}

bool
brain_sidecar(struct brain_turn *t)
{
	const struct image_listener *l = is_egress(t->wish.op) ? listener_of(t) : NULL;
	enum status st;

	if (l == NULL)
		return false;
	st = check_token(t, l);
	if (st == ST_OK)
		st = take_box(t);
	if (st == ST_OK)
		st = read_body(t);
	if (st == ST_OK)
		brain_egress(t);
	else
		brain_refuse(t, st,
			     st == ST_BAD_PARAMETER ? STR("the body is no JSON")
						    : STR(""));
	return true;
}

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

static bool
add_rule(json_t *egress, const json_t *rule)
{
	static const char *const words[] = { "allow", "deny" };
	const json_t *target = NULL;
	size_t i = 0;

	while (i < COUNT_OF(words) && target == NULL)
		target = json_object_get(rule, words[i++]);
	json_t *made =
		json_pack("{s:s, s:O}", "action", words[i - 1], "target", target);
	return made != NULL && json_array_append_new(egress, made) == 0;
}

/* What narrows it says the same in other words. */
static enum status
policy_of(const struct narrow *n, json_t **ret_policy)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	CLEANUP(buf_done) struct buf why = { 0 };
	json_t *all, *from, *egress = json_array();
	const json_t *rule;
	bool ok = true;
	size_t i;

	buf_init(&why, 512);
	buf_init(&text, (size_t)4 * NARROW_TEXT_MAX);
	narrow_put_json(&text, n);
	all = text.st == ST_OK ? json_loadb(text.p, text.len, 0, NULL) : NULL;
	json_array_foreach(json_object_get(all, "rules"), i, rule) ok =
		ok && add_rule(egress, rule);
	from = json_pack("{s:O, s:o}", "defaultAction", json_object_get(all, "default"),
			 "egress", egress);
	json_decref(all);
	enum status st =
		ok && from != NULL ? netpolicy_read(from, ret_policy, &why) : ST_NOMEM;
	json_decref(from);
	return st;
}

/* What it may reach now, in the form in which it is asked for. */
static enum status
take_box(struct brain_turn *t)
{
	const struct who *w = enroll_find(t->brain->control, t->wish.sandbox);
	json_t *policy = NULL;
	enum status st;

	if (w == NULL)
		return ST_SANDBOX_PENDING;
	t->box = (struct brain_sandbox){ .id = t->wish.sandbox,
					 .state = BRAIN_RUNNING,
					 .policy = STR("") };
	t->who.scopes = SCOPE_READ | SCOPE_EGRESS;
	memcpy(t->who.user, w->user.p, num_min(w->user.n, PRINCIPAL_NAME_MAX));
	if (w->may.narrow == NULL)
		return ST_OK;
	st = policy_of(w->may.narrow, &policy);
	if (st != ST_OK)
		return st;
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
	if (st == ST_OK && brain_is_told(t) && brain_row(t) != ST_OK)
		st = ST_NO_LEDGER;
	if (st == ST_OK)
		brain_egress(t);
	else
		brain_refuse(t, st,
			     st == ST_BAD_PARAMETER ? STR("the body is no JSON")
						    : STR(""));
	return true;
}

/* The egress API of a sandbox, which is ours to serve: what it reaches, narrower than what the
 * operator lets it, and which credentials are bound to it.  Never forwarded into a sandbox.
 *
 * Errors of the sidecar's own routes are plain text, of the server's {code, message}. */
#include <stdio.h>
#include <string.h>

#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"
#include "proxy/control/brain_policy.h"
#include "proxy/control/brain_sidecar.h"
#include "proxy/control/enroll.h"

static bool
is_server_part(const struct brain_turn *t)
{
	return t->wish.op >= EXEC_OP_NETPOLICY_GET &&
	       t->wish.op <= EXEC_OP_NETPOLICY_DELETE;
}

static void
fail(struct brain_turn *t, uint16_t http, const char *text)
{
	if (is_server_part(t))
		brain_answer_error(t, http, "SANDBOX::INVALID_PARAMETER", text);
	else
		brain_answer_text(t, http, STR("text/plain; charset=utf-8"),
				  str_from(text));
}

/* What there is: the caller's, or the operator's where none was given. */
static json_t *
present(const struct brain_turn *t)
{
	const struct image *im = t->brain->control->role.image;
	uint32_t index = image_exec(im)->policy;
	json_t *policy = t->box.policy.n > 0 ? brain_json_object(t->box.policy) : NULL;

	if (policy == NULL && index != POLICY_NONE)
		policy = netpolicy_of_image(im, index);
	return policy != NULL
		       ? policy
		       : json_pack("{s:s, s:[]}", "defaultAction", "deny", "egress");
}

static void
answer_policy(struct brain_turn *t, json_t *policy)
{
	json_t *body = json_pack("{s:s, s:s, s:s, s:o}", "status", "ok", "mode",
				 netpolicy_mode(policy), "enforcementMode", "dns+nft",
				 "policy", policy);

	if (body == NULL)
		brain_refuse(t, ST_NOMEM, STR(""));
	else
		brain_answer(t, 200, body);
}

struct change { /* t->state */
	struct brain_turn *turn;
	json_t *policy;
	struct control *control; /* NULL: nobody waits for super */
};

static void
change_done(void *state)
{
	struct change *c = state;

	if (c->control != NULL)
		enroll_forget(c->control, c);
	json_decref(c->policy);
	c->policy = NULL;
}

static void
narrowed(void *ctx, enum status st, uint32_t handle)
{
	struct change *c = ctx;
	struct brain_turn *t = c->turn;

	(void)handle;
	c->control = NULL;
	if (st == ST_OK)
		answer_policy(t, json_incref(c->policy));
	else
		brain_refuse(t, st, STR(""));
}

/* There is no server and no exec.db: what the roles know is the policy. */
static void
narrow(struct brain_turn *t)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	struct change *c = t->state;
	struct str view;
	enum status st;

	buf_init(&text, NARROW_TEXT_MAX);
	netpolicy_put_narrow(&text, c->policy);
	st = buf_finish(&text, &view);
	if (st == ST_OK)
		st = enroll_narrow(t->brain->control, t->box.id, &view, narrowed, c);
	if (st == ST_OK)
		c->control = t->brain->control;
	else
		brain_refuse(t, st, STR(""));
}

static void
keep(struct brain_turn *t)
{
	struct change *c = t->state;
	struct str text = brain_dump(&t->arena, c->policy);
	enum status st = text.p == NULL
				 ? ST_NOMEM
				 : brain_store_policy(t->brain->store, t->box.id, text);

	if (st == ST_OK) {
		brain_rebind(t->brain, t->box.id, c->policy);
		answer_policy(t, json_incref(c->policy));
	} else
		brain_refuse(t, st, STR(""));
}

static void
told(struct brain_turn *t, const struct call_got *got)
{
	brain_server_told(t->brain, t->box.server, got);
	if (brain_got_object(got, NULL))
		keep(t);
	else
		brain_answer_got(t, got);
}

/* Where the server enforces it, it has to take it first: as it may be, not as it was
 * wished. */
static void
apply(struct brain_turn *t)
{
	const struct image *im = t->brain->control->role.image;
	const struct image_exec_server *s =
		image_exec_server_by_name(im, t->box.server);
	uint32_t index = image_exec(im)->policy;
	struct change *c = t->state;
	json_t *operators, *both;

	if (brain_is_sidecar(t)) {
		narrow(t);
		return;
	}
	if (t->box.upstream.n == 0 || s == NULL || s->network.length > 0) {
		keep(t);
		return;
	}
	operators = index == POLICY_NONE ? NULL : netpolicy_of_image(im, index);
	both = operators == NULL ? json_incref(c->policy)
				 : netpolicy_narrow(operators, c->policy);
	json_decref(operators);
	struct brain_call w = { .server = t->box.server,
				.method = "PUT",
				.target = brain_target(&t->arena, t->box.upstream,
						       "/networkpolicy"),
				.body = brain_dump(&t->arena, both) };
	json_decref(both);
	brain_call(t, &w, told);
}

static enum status
change(struct brain_turn *t, json_t **ret_policy, struct buf *why)
{
	json_t *now = present(t);
	enum status st;

	switch ((int)t->wish.op) {
	case EXEC_OP_POLICY_PATCH:
	case EXEC_OP_NETPOLICY_PATCH:
		st = netpolicy_patch(now, t->body, ret_policy, why);
		break;
	case EXEC_OP_POLICY_DELETE:
	case EXEC_OP_NETPOLICY_DELETE:
		st = netpolicy_delete(now, t->body, ret_policy, why);
		break;
	default:
		st = netpolicy_read(t->body, ret_policy, why);
		break;
	}
	json_decref(now);
	return st;
}

static void
set_policy(struct brain_turn *t)
{
	CLEANUP(buf_done) struct buf why = { 0 };
	struct change *c = arena_alloc(&t->arena, sizeof *c);
	enum status st;

	if (c == NULL) {
		brain_refuse(t, ST_NOMEM, STR(""));
		return;
	}
	c->turn = t;
	t->state = c;
	t->state_done = change_done;
	buf_init(&why, 512);
	st = change(t, &c->policy, &why);
	if (st == ST_OK)
		apply(t);
	else if (st == ST_TOO_BIG)
		fail(t, 413, "more than 512 rules, or 16 KiB of them");
	else if (st == ST_BAD_PARAMETER)
		fail(t, 400, buf_cstr(&why));
	else
		brain_refuse(t, st, STR(""));
}

void
brain_egress(struct brain_turn *t)
{
	switch ((int)t->wish.op) {
	case EXEC_OP_HEALTHZ:
		brain_answer_text(t, 200, STR("text/plain; charset=utf-8"), STR("ok"));
		return;
	case EXEC_OP_POLICY_GET:
	case EXEC_OP_NETPOLICY_GET:
		answer_policy(t, present(t));
		return;
	case EXEC_OP_POLICY_SET:
	case EXEC_OP_POLICY_PATCH:
	case EXEC_OP_POLICY_DELETE:
	case EXEC_OP_NETPOLICY_SET:
	case EXEC_OP_NETPOLICY_PATCH:
	case EXEC_OP_NETPOLICY_DELETE:
		set_policy(t);
		return;
	case EXEC_OP_EGRESS_OTHER:
		fail(t, 404, "404 page not found");
		return;
	default:
		brain_credentials(t);
		return;
	}
}

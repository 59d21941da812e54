/* Sandboxes that are kept ready. */
#include <stdlib.h>

#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"

struct claimed { /* two calls behind the answer of who got it */
	struct brain *brain;
	struct arena arena;
	struct brain_sandbox box;
	uint64_t expires_s;
};

enum { CLAIMED_ARENA = 256 * 1024 };

static void
claimed_free(struct claimed *c)
{
	arena_done(&c->arena);
	free(c);
}

static void
renewed(void *ctx, const struct call_got *got)
{
	struct claimed *c = ctx;

	brain_server_told(c->brain, c->box.server, got);
	if (got->st != ST_OK || got->http / 100 != 2)
		log_error(
			&c->brain->control->role.log,
			"a warm sandbox on %.*s was given away, and its server didn't "
			"take its time",
			STR_ARG(c->box.server));
	claimed_free(c);
}

static enum status
call(struct claimed *c, const char *method, const char *rest, const json_t *body,
     call_fn fn)
{
	struct call_wish w = {
		.connector = c->box.server,
		.method = str_from(method),
		.target = brain_target(&c->arena, c->box.upstream, rest),
		.type = STR("application/json"),
		.body = brain_dump(&c->arena, body),
		.deadline_ms = BRAIN_CALL_MS,
		.answer_max = CALL_ANSWER_MAX,
	};
	struct call *open;

	if (w.target.p == NULL || w.body.p == NULL)
		return ST_NOMEM;
	return call_begin(c->brain->control, &w, fn, c, &open);
}

static void
labelled(void *ctx, const struct call_got *got)
{
	struct claimed *c = ctx;
	json_t *body = json_object();
	enum status st;

	brain_server_told(c->brain, c->box.server, got);
	(void)json_object_set_new(body, "expiresAt", brain_time_json(c->expires_s));
	st = call(c, "POST", "/renew-expiration", body, renewed);
	json_decref(body);
	if (st != ST_OK)
		claimed_free(c);
}

void
brain_warm_claimed(struct brain *b, const struct brain_sandbox *box, uint64_t timeout_s)
{
	struct claimed *c = calloc(1, sizeof *c);
	json_t *request, *labels;
	enum status st;

	if (c == NULL)
		return;
	c->brain = b;
	c->expires_s = brain_now_s() + timeout_s;
	arena_init(&c->arena, CLAIMED_ARENA);
	st = brain_store_find_any(b->store, box->id, &c->arena, &c->box);
	request = st == ST_OK ? brain_json_object(c->box.request) : NULL;
	labels = json_object_get(json_object_get(request, "body"), "metadata");
	if (labels != NULL)
		(void)json_object_set_new(labels, "sandgate/id",
					  json_stringn(box->id.p, box->id.n));
	if (st == ST_OK && labels != NULL)
		st = call(c, "PATCH", "/metadata", labels, labelled);
	json_decref(request);
	if (st != ST_OK || labels == NULL)
		claimed_free(c);
}

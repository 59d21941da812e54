/* What is done to a sandbox by its owner, apart from making and using it. */
#include <stdio.h>
#include <string.h>

#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"
#include "proxy/control/brain_label.h"

static void
call_box(struct brain_turn *t, const char *method, const char *rest, brain_got_fn got)
{
	struct brain_call w = { .server = t->box.server,
				.method = method,
				.target = brain_target(&t->arena, t->box.upstream,
						       rest) };

	brain_call(t, &w, got);
}

static void
answer_view(struct brain_turn *t, uint16_t http, const json_t *said)
{
	json_t *view = brain_view(&t->box, said);

	if (view == NULL)
		brain_refuse(t, ST_NOMEM, STR(""));
	else
		brain_answer(t, http, view);
}

/* On its server there is something to ask. */
static bool
is_there(const struct brain_sandbox *box)
{
	return box->upstream.n > 0 &&
	       (box->state == BRAIN_RUNNING || box->state == BRAIN_PAUSED ||
		box->state == BRAIN_FAILED);
}

/* The server doesn't have it any more: nor have we. */
static void
lost(struct brain_turn *t)
{
	enum status st = brain_store_gone(t->brain->store, t->box.id, brain_now_s());

	brain_forget(t->brain, t->box.id);
	if (st == ST_OK)
		brain_answer_missing(t);
	else
		brain_refuse(t, st, STR(""));
}

/* Get. */

static void
get_told(struct brain_turn *t, const struct call_got *got)
{
	json_t *said = NULL;
	struct str asked = t->box.upstream;

	brain_server_told(t->brain, t->box.server, got);
	/* Meanwhile it may have been paused, woken, renewed or ended. */
	if (!brain_look(t))
		return;
	bool is_same = str_eq(asked, t->box.upstream);
	if (is_same && brain_got_object(got, &said)) {
		(void)brain_view_hear(t->brain, &t->box, said, t->asked_s);
		answer_view(t, 200, said);
		json_decref(said);
	} else if (is_same && got->st == ST_OK && got->http == 404 &&
		   !brain_job_runs(t->brain, t->box.id)) {
		lost(t);
	} else {
		/* Its server is silent: what we know is still true. */
		answer_view(t, 200, NULL);
	}
}

void
brain_get(struct brain_turn *t)
{
	if (is_there(&t->box))
		call_box(t, "GET", "", get_told);
	else
		answer_view(t, 200, NULL);
}

/* Kill. */

static void
kill_done(struct brain_turn *t)
{
	brain_answer(t, 204, NULL);
}

static void
kill_again(struct brain_turn *t)
{
	if (brain_look(t))
		brain_kill(t);
}

void
brain_kill(struct brain_turn *t)
{
	if (!brain_turn_wait(t, kill_again))
		brain_turn_job(t, BRAIN_KILL, kill_done);
}

/* Pause and resume. */

static void
accepted(struct brain_turn *t)
{
	brain_answer(t, 202, NULL);
}

static void
pause_again(struct brain_turn *t)
{
	if (brain_look(t))
		brain_pause(t);
}

static void
refuse_state(struct brain_turn *t, const char *what)
{
	char text[128];

	(void)snprintf(text, sizeof text, "The sandbox is %s, so it can't be %s.",
		       brain_view_state(t->box.state), what);
	brain_answer_error(t, 409, "DOCKER::SANDBOX_INVALID_STATE", text);
}

void
brain_pause(struct brain_turn *t)
{
	if (brain_turn_wait(t, pause_again))
		return;
	if (t->box.state == BRAIN_RUNNING)
		brain_turn_job(t, BRAIN_PAUSE, accepted);
	else
		refuse_state(t, "paused");
}

static void
resume_again(struct brain_turn *t)
{
	if (brain_look(t))
		brain_resume(t);
}

void
brain_resume(struct brain_turn *t)
{
	if (brain_turn_wait(t, resume_again))
		return;
	if (t->box.state == BRAIN_PAUSED || t->box.state == BRAIN_SNAPSHOT)
		brain_turn_job(t, BRAIN_RESUME, accepted);
	else
		refuse_state(t, "resumed");
}

/* Renew. */

static void
renew_answer(struct brain_turn *t, uint64_t expires_s)
{
	enum status st = brain_store_expires(t->brain->store, t->box.id, expires_s);
	json_t *body = json_object();

	if (st == ST_OK &&
	    json_object_set_new(body, "expiresAt", brain_time_json(expires_s)) == 0) {
		brain_answer(t, 200, body);
		return;
	}
	json_decref(body);
	brain_refuse(t, st == ST_OK ? ST_NOMEM : st, STR(""));
}

static void
renew_told(struct brain_turn *t, const struct call_got *got)
{
	json_t *said = NULL;
	uint64_t expires_s = 0;

	brain_server_told(t->brain, t->box.server, got);
	if (!brain_got_object(got, &said)) {
		brain_answer_unread(t, got);
		return;
	}
	uint64_t asked = 0;
	bool is_good =
		brain_time_read(brain_json_text(said, "expiresAt"), &expires_s) &&
		brain_time_read(brain_json_text(t->body, "expiresAt"), &asked);
	json_decref(said);
	/* A server may give less than what was asked for, and no more than is allowed. */
	if (is_good)
		renew_answer(t, num_min(expires_s, asked));
	else
		brain_refuse(
			t, ST_UPSTREAM_BAD,
			STR("the server's answer has no expiresAt that can be read"));
}

void
brain_renew(struct brain_turn *t)
{
	uint64_t at = 0, now = brain_now_s();
	uint64_t max =
		image_number(t->brain->control->role.image, OPT_EXEC_MAX_TIMEOUT) /
		1000;
	struct brain_call w = { .server = t->box.server, .method = "POST" };

	if (!brain_time_read(brain_json_text(t->body, "expiresAt"), &at) || at <= now) {
		brain_answer_error(t, 400, "SANDBOX::INVALID_EXPIRATION",
				   "expiresAt is no time in the future.");
		return;
	}
	if (at - now > max) {
		brain_refusef(t, ST_BAD_PARAMETER,
			      "expiresAt is over %llu seconds from now",
			      (unsigned long long)max);
		return;
	}
	if (!is_there(&t->box)) {
		renew_answer(t, at);
		return;
	}
	w.target = brain_target(&t->arena, t->box.upstream, "/renew-expiration");
	/* Nothing else of it: another spelling of the same would count at the server. */
	json_t *body = json_object();
	(void)json_object_set(body, "expiresAt", json_object_get(t->body, "expiresAt"));
	w.body = brain_dump(&t->arena, body);
	json_decref(body);
	brain_call(t, &w, renew_told);
}

/* Metadata: one writer, so what the store has is what there is. */

static json_t *
merged(const struct brain_turn *t)
{
	json_t *labels = brain_json_object(t->box.metadata);
	const char *key;
	json_t *v;

	if (labels == NULL)
		labels = json_object();
	json_object_foreach(t->body, key, v)
	{
		if (json_is_null(v))
			(void)json_object_del(labels, key);
		else
			(void)json_object_set(labels, key, v);
	}
	return labels;
}

static enum status
keep_labels(struct brain_turn *t)
{
	struct brain_pair pairs[LABELS_MAX];
	/* Another patch may have been taken meanwhile. */
	enum status st =
		brain_store_find_any(t->brain->store, t->box.id, &t->arena, &t->box);
	json_t *labels = merged(t);
	size_t n = brain_pairs(labels, pairs, COUNT_OF(pairs));
	struct str text = brain_dump(&t->arena, labels);

	if (st == ST_OK && text.p == NULL)
		st = ST_NOMEM;
	if (st == ST_OK && json_object_size(labels) > LABELS_MAX)
		st = ST_BAD_PARAMETER;
	if (st == ST_OK)
		st = brain_store_metadata(t->brain->store, t->box.id, text, pairs, n);
	if (st == ST_OK)
		t->box.metadata = text;
	json_decref(labels);
	return st;
}

static void
metadata_told(struct brain_turn *t, const struct call_got *got)
{
	json_t *said = NULL;
	enum status st;

	brain_server_told(t->brain, t->box.server, got);
	if (!brain_got_object(got, &said)) {
		brain_answer_unread(t, got);
		return;
	}
	st = keep_labels(t);
	if (st == ST_OK)
		answer_view(t, 200, said);
	else
		brain_refuse(t, st, STR(""));
	json_decref(said);
}

/* The operator's labels can't be written over. */
static bool
is_forced(const struct brain_turn *t, const char *key)
{
	const struct image *im = t->brain->control->role.image;
	const struct image_exec *e = image_exec(im);

	for (uint32_t i = 0; i + 1 < e->labels_n; i += 2)
		if (str_eq(image_word(im, e->labels + i), str_from(key)))
			return true;
	return false;
}

static enum status
check_patch(struct brain_turn *t, struct buf *why)
{
	enum status st = label_check(t->body, true, why);
	const char *key;
	json_t *v;

	json_object_foreach(t->body, key, v)
	{
		if (st == ST_OK && is_forced(t, key)) {
			buf_putf(why, "metadata: '%.80s' is the operator's", key);
			st = ST_EXEC_REFUSED;
		}
	}
	return st;
}

void
brain_metadata(struct brain_turn *t)
{
	CLEANUP(buf_done) struct buf why = { 0 };
	struct brain_call w = { .server = t->box.server, .method = "PATCH" };
	enum status st;

	buf_init(&why, 512);
	st = check_patch(t, &why);
	if (st == ST_OK && !is_there(&t->box)) {
		st = keep_labels(t);
		if (st == ST_OK) {
			answer_view(t, 200, NULL);
			return;
		}
	}
	if (st != ST_OK) {
		brain_refuse(t, st, str_of(why.p, why.len));
		return;
	}
	w.target = brain_target(&t->arena, t->box.upstream, "/metadata");
	w.body = brain_dump(&t->arena, t->body);
	brain_call(t, &w, metadata_told);
}

/* Diagnostics. */

static void
pass_told(struct brain_turn *t, const struct call_got *got)
{
	brain_answer_got(t, got);
}

static const char *
diagnostics_word(uint16_t op)
{
	if (op == EXEC_OP_DIAGNOSTICS_LOGS)
		return "logs";
	if (op == EXEC_OP_DIAGNOSTICS_EVENTS)
		return "events";
	return op == EXEC_OP_DIAGNOSTICS_INSPECT ? "inspect" : "summary";
}

void
brain_diagnostics(struct brain_turn *t)
{
	char rest[768];
	struct str query = t->wish.query;

	if (query.n > 512) {
		brain_refuse(t, ST_URI_TOO_LONG, STR(""));
		return;
	}
	if (!is_there(&t->box)) {
		refuse_state(t, "looked into");
		return;
	}
	(void)snprintf(rest, sizeof rest, "/diagnostics/%s%s%.*s",
		       diagnostics_word(t->wish.op), query.n > 0 ? "?" : "",
		       STR_ARG(query));
	call_box(t, "GET", rest, pass_told);
}

/* Pools and templates: of a server, so nobody's.  A caller may look, and make sandboxes of
 * them; their specifications are pods, which may hold anything, and are the operator's. */
void
brain_pass(struct brain_turn *t)
{
	struct str names[1];
	char text[256];
	enum exec_tier tier = EXEC_TIER_STANDARD;
	bool is_pool =
		t->wish.op == EXEC_OP_POOL_LIST || t->wish.op == EXEC_OP_POOL_GET;
	bool is_look = is_pool || t->wish.op == EXEC_OP_TEMPLATE_LIST ||
		       t->wish.op == EXEC_OP_TEMPLATE_GET;
	size_t n = brain_servers(t->brain, tier, names, 1);

	if (n == 0)
		n = brain_servers(t->brain, EXEC_TIER_HIGH, names, 1);
	if (!is_look) {
		brain_refuse(t, ST_EXEC_REFUSED,
			     STR("pools and templates are made by the operator"));
		return;
	}
	if (n == 0) {
		brain_refuse(t, ST_UPSTREAM_UNAVAILABLE, STR(""));
		return;
	}
	(void)snprintf(text, sizeof text, "/v1/%s%s%.*s",
		       is_pool ? "pools" : "templates", t->wish.id.n > 0 ? "/" : "",
		       STR_ARG(t->wish.id));
	struct brain_call w = { .server = names[0],
				.method = "GET",
				.target = arena_copy(&t->arena, str_from(text)) };
	brain_call(t, &w, pass_told);
}

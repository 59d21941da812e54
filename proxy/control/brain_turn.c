/* A turn's life, its calls and its answers. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"
#include "proxy/io/memfd.h"
#include "proxy/io/sock.h"

static void
turn_free(void *ctx)
{
	struct brain_turn *t = ctx;

	arena_done(&t->arena);
	free(t);
}

enum status
brain_turn_asks(struct brain_turn *t)
{
	if (t->share == NULL || t->is_asking)
		return ST_OK;
	if (t->share->calls >= BRAIN_USER_CALLS)
		return ST_LIMIT_USER;
	t->share->calls++;
	t->is_asking = true;
	return ST_OK;
}

void
brain_turn_asked(struct brain_turn *t)
{
	if (t->is_asking)
		t->share->calls--;
	t->is_asking = false;
}

/* It may be in the middle of a callback: its memory goes at the end of the loop's turn. */
static void
turn_end(struct brain_turn *t)
{
	struct brain *b = t->brain;

	list_remove(&t->link);
	b->turns_n--;
	brain_turn_asked(t);
	if (t->share != NULL) {
		t->share->turns--;
		brain_share_drop(b, t->share);
	}
	t->share = NULL;
	keys_unwait(&t->keys);
	brain_unwait(&t->wait);
	if (t->approval != NULL)
		approval_drop(t->approval);
	t->approval = NULL;
	call_cancel(t->call);
	t->call = NULL;
	if (t->state_done != NULL)
		t->state_done(t->state);
	t->state_done = NULL;
	request_done(&t->request);
	json_decref(t->body);
	t->body = NULL;
	/* The arena's own copy: values of credentials don't lie about in freed memory. */
	if (t->wish.op == EXEC_OP_VAULT_CREATE || t->wish.op == EXEC_OP_VAULT_PATCH)
		explicit_bzero((char *)(uintptr_t)t->wish.body.p, t->wish.body.n);
	if (t->fd >= 0)
		sock_close_passed(t->fd);
	t->fd = -1;
	loop_defer(b->control->loop, turn_free, t);
}

void
brain_turns_close(struct brain *b)
{
	list_each_safe (it, &b->turns)
		turn_end(LIST_OF(it, struct brain_turn, link));
}

static enum status
refuse_at_once(struct ask_line *line, uint32_t seq, enum status why)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct place_answer a = { .kind = PLACE_REFUSE, .st = why };

	buf_init(&b, ASK_BODY_MAX);
	place_answer_put(&b, &a);
	return ask_answer(line, ASK_PLACE, seq, str_of(b.p, b.len), NULL, 0);
}

void
brain_unserved(struct control *c, struct ask_line *line, struct ask_msg *m)
{
	enum status st = refuse_at_once(line, m->seq, ST_STORE_DAMAGED);

	if (st != ST_OK && st != ST_END)
		log_error(&c->role.log, "PLACE: %s", status_code(st));
}

enum status
brain_turn_new(struct brain *b, struct ask_line *line, struct ask_msg *m,
	       struct brain_turn **ret_t)
{
	bool is_full = b->turns_n >= BRAIN_TURNS;
	struct brain_turn *t = is_full ? NULL : calloc(1, sizeof *t);
	struct str raw;
	enum status st = is_full ? ST_LIMIT_TURNS : ST_NOMEM;

	if (t == NULL)
		return refuse_at_once(line, m->seq, st) == ST_OK ? st : ST_END;
	t->fd = -1;
	arena_init(&t->arena, BRAIN_ARENA);
	raw = arena_copy(&t->arena, m->body);
	st = raw.p == NULL ? ST_NOMEM : place_wish_get(raw, &t->wish);
	if (st != ST_OK) {
		enum status sent = refuse_at_once(line, m->seq, st);

		turn_free(t);
		return sent == ST_OK ? st : ST_END;
	}
	t->brain = b;
	t->line = line;
	t->seq = m->seq;
	t->fd = ask_msg_take(m, 0);
	list_init(&t->wait.link);
	list_init(&t->keys.link);
	list_append(&b->turns, &t->link);
	b->turns_n++;
	*ret_t = t;
	return ST_OK;
}

/* Answers. */

struct str
brain_said_or_made_for(const char *said, struct str made_for)
{
	return said[0] != '\0' ? str_from(said) : made_for;
}

static void
put_whose(const struct brain_turn *t, struct place_answer *a)
{
	a->tenant = str_from(t->who.tenant);
	a->user = str_from(t->who.user);
	a->agent = str_from(t->who.agent);
	a->session = brain_said_or_made_for(t->who.session, t->box.session);
	a->task = brain_said_or_made_for(t->who.task, t->box.task);
	a->on_behalf_of = str_from(t->who.on_behalf_of);
	a->sandbox = t->box.id;
	a->server = t->box.server;
	if (a->words.n == 0)
		a->words = t->words;
	a->words = str_head(a->words, 1024);
}

static void
say_answer(struct brain_turn *t, struct place_answer *a, struct str body)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str out;
	int fd = -1;
	enum status st;

	put_whose(t, a);
	a->body_n = (uint32_t)body.n;
	a->body = body.n <= PLACE_INLINE ? body : STR("");
	if (body.n > PLACE_INLINE)
		fd = memfd_sealed("answer", body);
	if (body.n > PLACE_ANSWER_MAX || (body.n > PLACE_INLINE && fd < 0))
		*a = (struct place_answer){ .kind = PLACE_REFUSE, .st = ST_TOO_BIG };
	buf_init(&b, ask_rule(ASK_PLACE)->size);
	place_answer_put(&b, a);
	st = buf_finish(&b, &out);
	if (st == ST_OK && t->line != NULL)
		st = ask_answer(t->line, ASK_PLACE, t->seq, out, &fd, fd >= 0 ? 1 : 0);
	if (st != ST_OK && st != ST_END)
		log_error(&t->brain->control->role.log, "PLACE: %s", status_code(st));
	if (fd >= 0)
		(void)close(fd);
}

/* Ends the turn. */
static void
send_answer(struct brain_turn *t, struct place_answer *a, struct str body)
{
	say_answer(t, a, body);
	turn_end(t);
}

void
brain_refuse(struct brain_turn *t, enum status st, struct str words)
{
	struct place_answer a = { .kind = PLACE_REFUSE,
				  .st = st == ST_OK ? ST_INTERNAL : st,
				  .words = words };

	send_answer(t, &a, STR(""));
}

void
brain_refusef(struct brain_turn *t, enum status st, const char *fmt, ...)
{
	char text[512];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (n < 0)
		n = 0;
	brain_refuse(t, st, str_of(text, num_min((size_t)n, sizeof text - 1)));
}

static void
answer_json(struct brain_turn *t, struct place_answer *a, const json_t *body)
{
	struct str text = body == NULL ? STR("") : brain_dump(&t->arena, body);

	if (text.p == NULL) {
		brain_refuse(t, ST_NOMEM, STR(""));
		return;
	}
	a->kind = PLACE_ANSWER;
	a->type = body == NULL ? STR("") : STR("application/json");
	send_answer(t, a, text);
}

void
brain_answer(struct brain_turn *t, uint16_t http, json_t *body)
{
	struct place_answer a = { .http = http };

	answer_json(t, &a, body);
	json_decref(body);
}

void
brain_answer_made(struct brain_turn *t, json_t *body, struct str location,
		  struct str start)
{
	struct place_answer a = { .http = 202, .fields_n = 2 };

	a.fields[0] = (struct place_field){ STR("location"), location };
	a.fields[1] = (struct place_field){ STR("x-sandgate-start"), start };
	answer_json(t, &a, body);
	json_decref(body);
}

void
brain_answer_early(struct brain_turn *t, uint16_t http, json_t *body)
{
	struct place_answer a = { .kind = PLACE_ANSWER,
				  .http = http,
				  .type = STR("application/json") };
	struct str text = brain_dump(&t->arena, body);

	if (text.p == NULL)
		a = (struct place_answer){ .kind = PLACE_REFUSE, .st = ST_NOMEM };
	say_answer(t, &a, text.p == NULL ? STR("") : text);
	json_decref(body);
	t->line = NULL;
}

void
brain_answer_text(struct brain_turn *t, uint16_t http, struct str type, struct str text)
{
	struct place_answer a = { .kind = PLACE_ANSWER, .http = http, .type = type };

	send_answer(t, &a, text);
}

void
brain_answer_error(struct brain_turn *t, uint16_t http, const char *code,
		   const char *message)
{
	json_t *body = json_pack("{s:s, s:s}", "code", code, "message", message);

	if (body == NULL)
		brain_refuse(t, ST_NOMEM, STR(""));
	else
		brain_answer(t, http, body);
}

void
brain_answer_missing(struct brain_turn *t)
{
	char text[256];

	(void)snprintf(text, sizeof text, "Sandbox %.*s not found.",
		       STR_ARG(str_head(t->wish.sandbox, 128)));
	t->box = (struct brain_sandbox){ 0 };
	brain_answer_error(t, 404, "DOCKER::SANDBOX_NOT_FOUND", text);
}

/* Errors whose cause is between us and the server are ours to tell. */
static bool
is_ours(const struct call_got *got)
{
	return got->st != ST_OK || got->http == 401 || got->http == 407 ||
	       (got->http < 400 && got->http / 100 != 2);
}

/* No id of the server's is in it, however it is written. */
static bool
may_pass(const struct brain_turn *t, struct str body)
{
	struct str id = t->box.upstream;

	return id.n == 0 || (memchr(body.p, '\\', body.n) == NULL &&
			     memmem(body.p, body.n, id.p, id.n) == NULL);
}

static void
answer_json_got(struct brain_turn *t, const struct call_got *got, json_t *body)
{
	if (may_pass(t, got->body)) {
		json_decref(body);
		brain_answer_text(t, got->http, STR("application/json"), got->body);
		return;
	}
	brain_json_rename(body, t->box.upstream, t->box.id);
	brain_answer(t, got->http, body);
}

void
brain_answer_got(struct brain_turn *t, const struct call_got *got)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	json_t *body;

	if (got->st == ST_LIMIT_USER) {
		brain_refuse(t, got->st, STR(""));
		return;
	}
	if (is_ours(got)) {
		brain_refuse(t, ST_UPSTREAM_UNAVAILABLE,
			     got->st == ST_OK ? STR("the server refuses this gateway")
					      : str_from(status_code(got->st)));
		return;
	}
	if (got->body.n == 0) {
		brain_answer(t, got->http, NULL);
		return;
	}
	body = json_loadb(got->body.p, got->body.n, JSON_REJECT_DUPLICATES, NULL);
	if (body != NULL) {
		answer_json_got(t, got, body);
		return;
	}
	/* Not the server's own: some proxy between. */
	if (got->http >= 500) {
		brain_refuse(t, ST_UPSTREAM_UNAVAILABLE,
			     STR("what answers at the server's address is not the "
				 "server: an error that is no JSON"));
		return;
	}
	buf_init(&b, PLACE_ANSWER_MAX);
	brain_text_rename(&b, got->body, t->box.upstream, t->box.id);
	brain_answer_text(t, got->http, STR("text/plain; charset=utf-8"),
			  str_of(b.p, b.len));
}

void
brain_answer_unread(struct brain_turn *t, const struct call_got *got)
{
	if (got->st == ST_OK && got->http / 100 == 2)
		brain_refuse(t, ST_UPSTREAM_BAD, STR(""));
	else
		brain_answer_got(t, got);
}

void
brain_route(struct brain_turn *t, struct place_answer *a)
{
	a->kind = PLACE_ROUTE;
	send_answer(t, a, STR(""));
}

/* Calls. */

static void
turn_got(void *ctx, const struct call_got *got)
{
	struct brain_turn *t = ctx;
	brain_got_fn fn = t->got;

	t->call = NULL;
	t->got = NULL;
	brain_turn_asked(t);
	fn(t, got);
}

void
brain_call(struct brain_turn *t, const struct brain_call *w, brain_got_fn got)
{
	struct call_wish wish = {
		.connector = w->server,
		.method = str_from(w->method),
		.target = w->target,
		.type = w->body.n > 0 ? STR("application/json") : STR(""),
		.body = w->body,
		.deadline_ms = w->deadline_ms == 0 ? BRAIN_CALL_MS : w->deadline_ms,
		.answer_max = CALL_ANSWER_MAX,
	};
	enum status st = w->target.p == NULL ? ST_NOMEM : ST_OK;

	t->got = got;
	t->asked_s = brain_now_s();
	if (st == ST_OK)
		st = brain_turn_asks(t);
	if (st == ST_OK)
		st = call_begin(t->brain->control, &wish, turn_got, t, &t->call);
	if (st == ST_OK)
		return;
	struct call_got none = { .st = st };
	t->call = NULL;
	turn_got(t, &none);
}

struct str
brain_target(struct arena *a, struct str upstream, const char *rest)
{
	char text[1024];
	int n = snprintf(text, sizeof text, "/v1/sandboxes/%.*s%s", STR_ARG(upstream),
			 rest);

	if (n < 0 || (size_t)n >= sizeof text)
		return (struct str){ NULL, 0 };
	return arena_copy(a, str_of(text, (size_t)n));
}

bool
brain_got_object(const struct call_got *got, json_t **ret_object)
{
	json_t *o;

	if (got->st != ST_OK || got->http / 100 != 2)
		return false;
	if (ret_object == NULL)
		return true;
	o = brain_json_object(got->body);
	if (o == NULL)
		return false;
	*ret_object = o;
	return true;
}

struct str
brain_dump(struct arena *a, const json_t *v)
{
	const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY;
	size_t n = json_dumpb(v, NULL, 0, flags);
	char *p = arena_alloc(a, n + 1);

	if (p == NULL || n == 0)
		return (struct str){ NULL, 0 };
	return str_of(p, json_dumpb(v, p, n, flags));
}

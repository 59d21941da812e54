/* exec_private: a person is asked, and what the caller hears meanwhile. */
#include <openssl/rand.h>

#include "proxy/base/clock.h"
#include "proxy/base/enc.h"
#include "proxy/io/ask.h"
#include "proxy/worker/exec_private.h"

enum { EVENT_MAX = 4096, HOLD_MAX = 8192 };

/* One event as execd writes it: an object, and a blank line. */
static void
put_event(struct exec *e, const char *type, const char *name, struct str text)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str event;

	buf_init(&b, EVENT_MAX);
	buf_putf(&b, "{\"type\":\"%s\",", type);
	if (name != NULL) {
		buf_putf(&b, "\"error\":{\"ename\":\"%s\",\"evalue\":", name);
		buf_put_json(&b, text);
		buf_put(&b, STR(",\"traceback\":[]}"));
	} else {
		buf_put(&b, STR("\"text\":"));
		buf_put_json(&b, text);
	}
	buf_putf(&b, ",\"timestamp\":%llu}\n\n",
		 (unsigned long long)(clock_wall_us() / 1000));
	if (buf_finish(&b, &event) != ST_OK)
		return;
	e->t->x.bytes_down += event.n;
	side_put_copy(e->t->front, event);
}

/* False: the caller is gone, and the turn with it. */
static bool
flush(struct turn *t)
{
	enum status st = side_flush(t->front);

	if (st == ST_OK || st == ST_AGAIN)
		return true;
	turn_break(t, ST_CLIENT_GONE);
	return false;
}

static void
on_beat(void *ctx)
{
	struct exec *e = ctx;

	loop_timer_set(&e->beat, EXEC_BEAT_MS);
	if (e->t->front->is_blocked)
		return; /* it has enough to read */
	put_event(e, "ping", NULL, STR("pong"));
	(void)flush(e->t);
}

static enum status
stream_head(struct exec *e, struct head *h)
{
	static const struct {
		const char *name, *value;
	} fields[] = { { "Content-Type", "text/event-stream" },
		       { "Cache-Control", "no-cache" },
		       { "X-Accel-Buffering", "no" } };
	enum status st = head_add(h, STR("X-Request-ID"), e->request_id);

	for (size_t i = 0; st == ST_OK && i < COUNT_OF(fields); i++)
		st = head_add(h, str_from(fields[i].name), str_from(fields[i].value));
	return st;
}

/* As if execd had begun: clients wait for events, not for a status. */
static bool
stream_begin(struct exec *e)
{
	struct turn *t = e->t;
	struct side_msg m = { 0 };

	m.head = &e->stream;
	head_init(&e->stream, &t->arena);
	e->stream.status = 200;
	e->stream.body = BODY_CHUNKED;
	if (stream_head(e, &e->stream) != ST_OK) {
		turn_break(t, ST_NOMEM);
		return false;
	}
	e->is_streaming = t->is_answered = true;
	t->x.http_status = 200;
	side_put_head(t->front, &m);
	put_event(e, "init", NULL, e->request_id);
	put_event(e, "ping", NULL, STR("pong"));
	loop_timer_init(&e->beat, t->c->w->loop, on_beat, e);
	loop_timer_set(&e->beat, EXEC_BEAT_MS);
	return flush(t);
}

static enum status
decision(struct exec *e, struct ask_msg *m)
{
	struct wire in = wire_from(m->body);
	uint16_t st = wire_u16(&in);
	uint64_t id = wire_u64(&in);
	struct str by = wire_str(&in);
	CLEANUP(buf_done) struct buf b = { 0 };

	if (wire_end(&in) != ST_OK || st >= ST_COUNT)
		return ST_BAD_MESSAGE;
	buf_init(&b, 32);
	if (id != 0)
		enc_put_id(&b, id);
	e->approval = arena_copy(&e->t->arena, str_of(b.p, b.len));
	e->approver = arena_copy(&e->t->arena, by);
	return e->approval.p == NULL || e->approver.p == NULL ? ST_NOMEM
							      : (enum status)st;
}

static void
on_held(void *ctx, enum status st, struct ask_msg *m)
{
	struct exec *e = ctx;
	struct turn *t = e->t;

	e->seq = 0;
	st = st == ST_OK ? decision(e, m) : ST_NO_CONTROL;
	t->since_ms = loop_now_ms(t->c->w->loop);
	if (st != ST_OK)
		turn_refuse(t, st);
	else
		exec_go(e);
	turn_settle(t);
}

/* What comes behind the head of such a route isn't read: allowed once, nobody would know
 * the same again, so no grant fits it. */
static enum status
put_hash(const struct exec *e, struct hold_wish *w)
{
	if (e->route.op == EXEC_OP_EXECD_OTHER)
		return RAND_bytes(w->hash, sizeof w->hash) == 1 ? ST_OK : ST_SYSTEM;
	for (size_t i = 0; i < sizeof w->hash; i++)
		w->hash[i] = e->judged.hash[i];
	return ST_OK;
}

static enum status
ask(struct exec *e)
{
	CLEANUP(buf_done) struct buf why = { 0 };
	CLEANUP(buf_done) struct buf b = { 0 };
	struct worker *w = e->t->c->w;
	const struct exec_judged *j = &e->judged;
	struct hold_wish wish = { .ticket = e->ticket,
				  .level = (uint8_t)j->answer.level,
				  .what = str_from(exec_op_name(e->route.op)),
				  .text = str_of(j->text.p, j->text.len) };
	struct str body = STR("");

	buf_init(&why, 1024);
	buf_init(&b, HOLD_MAX);
	risk_put_reason(&why, w->role.image, &j->answer);
	wish.why = str_of(why.p, why.len);
	enum status st = put_hash(e, &wish);
	hold_wish_put(&b, &wish);
	if (st == ST_OK)
		st = buf_finish(&b, &body);
	if (st != ST_OK)
		return st;
	/* The ticket is of the line that gave it. */
	if (w->control == NULL || w->control != e->line)
		return ST_NO_CONTROL;
	return ask_call(w->control, ASK_HOLD, ASK_LOAD(body, NULL, 0), on_held, e,
			&e->seq) == ST_OK
		       ? ST_OK
		       : ST_NO_CONTROL;
}

void
exec_hold(struct exec *e)
{
	struct turn *t = e->t;
	enum status st;

	e->state = EXEC_HOLD;
	st = ask(e);
	if (st != ST_OK)
		turn_refuse(t, st);
	else if (e->route.answer == EXEC_ANSWER_EVENTS)
		(void)stream_begin(e);
}

static void
stream_end(struct exec *e, const char *name, struct str text)
{
	struct turn *t = e->t;
	struct side *front = t->front;

	loop_timer_clear(&e->beat);
	turn_drop_leg(t);
	put_event(e, "error", name, text);
	side_put_end(front, &e->stream, NULL);
	(void)!side_flush(front); /* done() sees the same */
	turn_end_exchange(t, t->x.reason);
	turn_over(t);
	side_done(front);
}

void
exec_stream_error(struct exec *e, enum status why)
{
	const struct status_words *words = status_words(why);
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text = str_from(words->sentence);

	buf_init(&b, 1024);
	buf_putf(&b, "%s %s", words->sentence, words->hint);
	if (b.st == ST_OK)
		text = str_of(b.p, b.len);
	e->t->x.reason = why;
	stream_end(e, words->http == 403 ? "SandgateDenied" : "SandgateError", text);
}

bool
exec_stream_goes_on(struct exec *e)
{
	struct turn *t = e->t;
	const struct head *h = t->response;
	const struct field *type = head_get(h, TOKEN_CONTENT_TYPE);
	CLEANUP(buf_done) struct buf b = { 0 };

	if (h->status == 200 && type != NULL &&
	    str_starts(type->value, STR("text/event-stream")) &&
	    head_get(h, TOKEN_CONTENT_ENCODING) == NULL) {
		loop_timer_clear(&e->beat);
		return true;
	}
	buf_init(&b, 128);
	buf_putf(&b, "The sandbox answered with status %u.", h->status);
	stream_end(e, "UpstreamError", str_of(b.p, b.len));
	return false;
}

/* exec_private: answers of our own to callers of OpenSandbox's APIs. */
#include "proxy/worker/deny.h"
#include "proxy/worker/exec_private.h"

enum { TEXT_MAX = 16 * 1024, CODE_MAX = 64 };

/* SANDGATE::NO_LEDGER; of what isn't the caller's, and of who isn't known, as OpenSandbox
 * says it. */
static void
put_code(struct buf *b, const struct exec *e, enum status why)
{
	const char *code = status_code(why);

	if (why == ST_NOT_FOUND && e->route.sandbox.n > 0) {
		buf_put(b, STR("\"DOCKER::SANDBOX_NOT_FOUND\""));
		return;
	}
	buf_putc(b, '"');
	if (why != ST_KEY_MISSING && why != ST_KEY_INVALID)
		buf_put(b, STR("SANDGATE::"));
	for (size_t i = 0; code[i] != '\0' && i < CODE_MAX; i++) {
		char c = code[i];
		if (c >= 'a' && c <= 'z')
			c = (char)(c - 'a' + 'A');
		buf_putc(b, c);
	}
	buf_putc(b, '"');
}

static void
put_words(struct buf *b, const struct exec *e, enum status why)
{
	const struct status_words *words = status_words(why);
	CLEANUP(buf_done) struct buf text = { 0 };

	buf_init(&text, 4096);
	if (e->placed.words.n > 0 && e->placed.kind == PLACE_REFUSE)
		buf_put(&text, e->placed.words);
	else
		buf_putf(&text, "%s%s%s", words->sentence,
			 words->hint[0] != '\0' ? " " : "", words->hint);
	/* The egress API says what is wrong in plain words. */
	if (e->own.n > 0) {
		buf_put(b, str_of(text.p, text.len));
		buf_putc(b, '\n');
		return;
	}
	buf_put(b, STR("{\"code\":"));
	put_code(b, e, why);
	buf_put(b, STR(",\"message\":"));
	buf_put_json(b, str_of(text.p, text.len));
	buf_put(b, STR("}\n"));
}

static enum status
add(struct head *h, const char *name, struct str value)
{
	return head_add(h, str_from(name), value);
}

static enum status
refusal_head(struct head *h, const struct exec *e, enum status why)
{
	static const struct {
		uint16_t http;
		const char *name, *value;
	} extra[] = {
		{ 401, "WWW-Authenticate", "Bearer realm=\"sandgate\"" },
		{ 405, "Allow", "GET, POST, PUT, PATCH, DELETE" },
		{ 429, "Retry-After", "1" },
		{ 503, "Retry-After", "1" },
	};
	CLEANUP(buf_done) struct buf words = { 0 };
	struct str type = e->own.n > 0 ? STR("text/plain; charset=utf-8")
				       : STR("application/json");
	struct str text;

	h->status = status_words(why)->http;
	buf_init(&words, 256);
	deny_put_proxy_status(&words, why);
	enum status st = buf_finish(&words, &text);
	if (st == ST_OK)
		st = add(h, "Content-Type", type);
	if (st == ST_OK)
		st = add(h, "Cache-Control", STR("no-store"));
	if (st == ST_OK)
		st = add(h, "X-Request-ID", e->request_id);
	if (st == ST_OK)
		st = add(h, "Proxy-Status", text);
	for (size_t i = 0; st == ST_OK && i < COUNT_OF(extra); i++)
		if (extra[i].http == h->status)
			st = add(h, extra[i].name, str_from(extra[i].value));
	return st;
}

static void
record(struct exec *e, enum status why)
{
	struct stats *stats = e->t->c->w->role.stats;

	stats_add(stats, STAT_DENIED, 1);
	stats_refused(stats, why);
	/* It is denied anyway; a ring without room has its own counter. */
	(void)!exec_row(e, ROW_DENY);
}

static void
tell(struct exec *e, enum status why)
{
	CLEANUP(buf_done) struct buf body = { 0 };
	struct head h;

	head_init(&h, &e->t->arena);
	buf_init(&body, TEXT_MAX);
	put_words(&body, e, why);
	turn_tell(e->t, why, &h, refusal_head(&h, e, why), &body);
}

void
exec_refuse(struct turn *t, enum status why)
{
	struct exec *e = t->has_exchange ? exec_of(t) : NULL;
	bool is_late = t->is_answered &&
		       (e == NULL || !e->is_streaming || e->state == EXEC_FORWARD);

	if (e == NULL || is_late) {
		turn_break(t, why);
		return;
	}
	dial_cancel(t->dial);
	t->dial = NULL;
	turn_drop_leg(t);
	t->x.reason = why;
	t->x.http_status = e->is_streaming ? 200 : status_words(why)->http;
	record(e, why);
	if (e->is_streaming)
		exec_stream_error(e, why);
	else
		tell(e, why);
}

void
exec_say(struct exec *e)
{
	const struct place_answer *a = &e->placed;
	struct turn *t = e->t;
	struct side_msg m = { 0 };
	struct head h;
	enum status st = ST_OK;

	head_init(&h, &t->arena);
	h.status = a->http;
	t->x.http_status = a->http;
	t->x.bytes_down = e->answer.n;
	if (exec_row(e, ROW_EXEC_END) != ST_OK) {
		turn_refuse(t, ST_NO_LEDGER);
		return;
	}
	if (a->type.n > 0)
		st = add(&h, "Content-Type", a->type);
	for (size_t i = 0; st == ST_OK && i < a->fields_n; i++)
		st = head_add(&h, a->fields[i].name, a->fields[i].value);
	if (st == ST_OK)
		st = add(&h, "X-Request-ID", e->request_id);
	t->is_answered = true;
	m.head = &h;
	if (st != ST_OK) {
		turn_break(t, st);
		return;
	}
	/* say() ends the exchange, and with it what the body lies in: not before it is
	 * put. */
	turn_end_exchange(t, ST_OK);
	turn_say(t, &m, e->answer);
}

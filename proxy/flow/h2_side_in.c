#include "proxy/base/num.h"
#include "proxy/flow/h2_link.h"

static struct side_msg
message(struct h2_side *e, const struct h2_msg *m)
{
	return (struct side_msg){
		.head = &e->head,
		.is_https = m->is_https,
		.is_ws = m->is_ws,
		.is_whole = m->is_whole,
	};
}

/* As a client of HTTP/1 asks a proxy. */
static enum status
make_absolute(struct h2_side *e, bool is_https)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct head *h = &e->head;
	const struct field *host = head_get(h, TOKEN_HOST);

	buf_init(&b, 2 * e->l->flow->limits.head);
	buf_put(&b, is_https ? STR("https://") : STR("http://"));
	if (host != NULL)
		buf_put(&b, host->value);
	if (!str_eq(h->target, STR("*")))
		buf_put(&b, h->target);
	struct str text = arena_copy(&e->arena, str_of(b.p, b.len));
	if (b.st != ST_OK || text.p == NULL)
		return ST_NOMEM;
	h->target = text;
	return ST_OK;
}

/* A new request: the side of it, with a turn; NULL: refused. */
static struct h2_side *
begin(struct h2_link *l, struct h2_stream *s, bool is_connect)
{
	struct h2_side *e = h2_side_new(l);
	enum status st = e == NULL ? ST_NOMEM : l->class->begin(l, e, is_connect);

	if (st == ST_OK) {
		e->s = s;
		h2_own(s, e);
		return e;
	}
	if (e != NULL) {
		h2_side_leave(e);
		h2_side_free(e);
	}
	if (!l->is_dead)
		h2_reset(s, H2_REFUSED_STREAM);
	return NULL;
}

static void
on_head(void *ctx, struct h2_stream *s, const struct h2_msg *m)
{
	struct h2_link *l = ctx;
	struct h2_side *e = h2_owner(s);
	bool is_connect = m->head->method_id == METHOD_CONNECT;

	if (l->is_dead)
		return;
	if (e == NULL && l->is_server)
		e = begin(l, s, is_connect);
	if (e == NULL || !e->is_open || e->is_gone)
		return;
	/* Of interim heads the turn keeps nothing. */
	arena_done(&e->arena);
	h2_keep(s, m->head, &e->arena, &e->head);
	e->had_head = true;
	if (m->is_whole)
		e->is_whole = e->is_given = true;
	if (l->is_proxy && !is_connect && make_absolute(e, m->is_https) != ST_OK) {
		h2_side_lose(e, ST_NOMEM);
		return;
	}
	struct side_msg out = message(e, m);
	e->side.events->head(e->side.ctx, &out);
	h2_side_touch(e);
}

static void
on_bad(void *ctx, struct h2_stream *s, enum status why)
{
	struct h2_link *l = ctx;
	struct h2_side *e = h2_owner(s);

	if (l->is_dead)
		return;
	if (e == NULL)
		e = begin(l, s, false);
	if (e == NULL || !e->is_open || e->is_gone)
		return;
	e->is_whole = e->is_given = true; /* nothing more of it comes */
	e->side.events->bad(e->side.ctx, why);
	h2_side_touch(e);
}

/* What isn't wanted waits here: its sender stops when the window is full. */
static void
keep(struct h2_side *e, struct str view)
{
	if (ring_space(&e->ahead) < view.n) {
		struct ring more;
		struct str old = ring_linear(&e->ahead);
		ring_init(&more, num_max(2 * e->ahead.cap, old.n + view.n));
		(void)ring_write(&more, old);
		ring_done(&e->ahead);
		e->ahead = more;
	}
	if (ring_write(&e->ahead, view) != view.n)
		h2_side_lose(e, ST_NOMEM);
}

static void
on_body(void *ctx, struct h2_stream *s, struct str view)
{
	struct h2_link *l = ctx;
	struct h2_side *e = h2_owner(s);

	if (l->is_dead || e == NULL || !e->is_open || e->is_gone)
		return;
	if (!e->side.wants || !ring_is_empty(&e->ahead)) {
		keep(e, view);
		return;
	}
	e->given += view.n;
	e->side.events->body(e->side.ctx, view);
	h2_side_touch(e);
}

void
h2_side_give_end(struct h2_side *e)
{
	e->is_given = true;
	e->side.events->end(e->side.ctx, e->has_trailers ? &e->trailers : NULL);
}

static void
on_end(void *ctx, struct h2_stream *s, struct head *trailers)
{
	struct h2_link *l = ctx;
	struct h2_side *e = h2_owner(s);

	if (l->is_dead || e == NULL || !e->is_open || e->is_gone)
		return;
	e->is_whole = true;
	e->has_trailers = trailers != NULL;
	if (trailers != NULL)
		h2_keep(s, trailers, &e->trailers_arena, &e->trailers);
	if (!e->side.wants || !ring_is_empty(&e->ahead))
		return;
	h2_side_give_end(e);
	h2_side_touch(e);
}

static enum status
reason(const struct h2_side *e, uint32_t code)
{
	if (e->l->is_server)
		return ST_CLIENT_GONE;
	if (code == H2_PROTOCOL_ERROR || code == H2_ENHANCE_YOUR_CALM)
		return ST_UPSTREAM_BAD;
	return ST_UPSTREAM_CLOSED;
}

/* A response that is whole is good, whatever became of the request (RFC 9113, 8.1). */
static bool
is_lost(const struct h2_side *e, uint32_t code)
{
	if (!e->l->is_server)
		return !e->is_whole;
	return code != H2_NO_ERROR || !e->is_whole || !e->is_put;
}

static void
on_closed(void *ctx, struct h2_stream *s, uint32_t code)
{
	struct h2_link *l = ctx;
	struct h2_side *e = h2_owner(s);

	if (l->is_dead || e == NULL)
		return;
	e->s = NULL;
	if (!e->is_open) {
		h2_side_free(e);
		return;
	}
	e->side.repeat = SIDE_REPEAT_NO;
	if (code == H2_REFUSED_STREAM)
		e->side.repeat = SIDE_REPEAT_ANY;
	else if (code == H2_CONNECT_ERROR && !e->had_head)
		e->side.repeat = SIDE_REPEAT_SAFE;
	if (is_lost(e, code))
		h2_side_lose(e, reason(e, code));
	else if (e->side.is_blocked)
		e->due_room = true;
	if (e->due_room)
		h2_side_touch(e);
}

const struct h2_events h2_side_events = {
	.head = on_head,
	.bad = on_bad,
	.body = on_body,
	.end = on_end,
	.closed = on_closed,
};

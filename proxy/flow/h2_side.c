#include <stdlib.h>

#include "proxy/flow/h2_link.h"

/* PROGRESS: of a peer that holds our data behind its window. */
enum {
	PROGRESS = 4096,
	LATER_MAX = 32 * 1024 /* of one link, copied to wait for the end of a turn */
};

struct h2_side *
h2_side_new(struct h2_link *l)
{
	struct h2_side *e = calloc(1, sizeof *e);

	if (e == NULL)
		return NULL;
	e->side.class = &h2_side_class;
	e->l = l;
	e->is_open = true;
	list_init(&e->due);
	list_append(&l->sides, &e->link);
	ring_init(&e->ahead, 1);
	l->open++;
	return e;
}

void
h2_side_leave(struct h2_side *e)
{
	if (!e->is_open)
		return;
	e->is_open = false;
	e->l->open--;
	e->l->class->left(e->l);
}

/* Not before: the other side may still hold views of what was delivered. */
static void
destroy(void *ctx)
{
	struct h2_side *e = ctx;

	ring_done(&e->ahead);
	arena_done(&e->arena);
	arena_done(&e->trailers_arena);
	free(e);
}

void
h2_side_free(struct h2_side *e)
{
	if (e->s != NULL)
		h2_own(e->s, NULL);
	e->s = NULL;
	list_remove(&e->link);
	list_remove(&e->due);
	loop_defer(e->l->flow->loop, destroy, e);
}

void
h2_side_touch(struct h2_side *e)
{
	if (!e->is_open || e->due.next != &e->due)
		return;
	list_append(&e->l->due, &e->due);
	h2_link_wake(e->l);
}

void
h2_side_lose(struct h2_side *e, enum status why)
{
	if (e->is_gone)
		return;
	e->is_gone = e->due_gone = true;
	e->why = e->l->is_server && why == ST_UPSTREAM_CLOSED ? ST_CLIENT_GONE : why;
	h2_side_touch(e);
}

static bool
is_clear(const struct h2_side *e)
{
	if (e->s == NULL)
		return true;
	/* A window holds back a body only. */
	if (e->is_put || !e->has_body)
		return h2_held(e->s) == 0;
	return !h2_link_is_blocked(e->l) && h2_is_clear(e->s);
}

void
h2_side_look(struct h2_side *e, uint64_t now_ms)
{
	struct side *s = &e->side;

	if (e->s == NULL)
		return;
	if (is_clear(e)) {
		s->blocked_ms = 0;
		e->due_room = s->is_blocked;
		if (e->due_room)
			h2_side_touch(e);
		return;
	}
	if (!s->is_blocked && h2_held(e->s) == 0)
		return;
	if (s->blocked_ms == 0 || h2_went(e->s) - e->went >= PROGRESS) {
		s->blocked_ms = now_ms;
		e->went = h2_went(e->s);
	}
}

static void
fail(struct h2_side *e, enum status st)
{
	if (e->st == ST_OK && st != ST_OK)
		e->st = st;
}

static void
ask(struct h2_side *e, const struct h2_out *o)
{
	struct h2_link *l = e->l;

	enum status st = ST_END;

	if (o->is_ws && h2_refuses_ws(l->h2))
		st = ST_BAD_UPGRADE;
	else if (!l->is_eof && !h2_is_closing(l->h2))
		st = h2_request(l->h2, o, e, &e->s);
	if (st == ST_OK)
		return;
	e->side.repeat = SIDE_REPEAT_ANY; /* nothing was asked of anybody */
	fail(e, st);
	h2_side_lose(e, st == ST_END ? ST_UPSTREAM_CLOSED : st);
}

static void
put_head(struct side *s, const struct side_msg *m)
{
	struct h2_side *e = h2_side_of(s);
	bool is_interim = m->head->status >= 100 && m->head->status < 200 &&
			  m->head->status != 101;
	struct h2_out o = {
		.head = m->head,
		.uri = m->uri,
		.last = m->last,
		.last_n = m->last_n,
		.is_https = m->is_https,
		.is_ws = m->is_ws,
		.is_whole = m->is_whole,
		.is_own = m->is_own,
	};

	if (e->is_gone)
		return;
	e->is_put = m->is_whole && !is_interim;
	e->has_body = !m->is_whole && !is_interim;
	if (!e->l->is_server)
		ask(e, &o);
	else if (e->s != NULL)
		fail(e, h2_respond(e->s, &o));
}

static void
put_body(struct side *s, struct str view)
{
	struct h2_side *e = h2_side_of(s);

	if (e->s != NULL && e->st == ST_OK && view.n > 0 && !e->is_put)
		fail(e, h2_put(e->s, view));
}

static void
put_copy(struct side *s, struct str bytes)
{
	struct h2_side *e = h2_side_of(s);

	put_body(s, bytes);
	if (e->s != NULL && e->st == ST_OK)
		fail(e, h2_hold(e->s));
}

static void
put_end(struct side *s, const struct head *of, const struct head *trailers)
{
	struct h2_side *e = h2_side_of(s);

	if (e->s != NULL && e->st == ST_OK && !e->is_put)
		fail(e, h2_put_end(e->s, of, trailers));
	e->is_put = true;
}

static enum status
outcome(struct h2_side *e)
{
	if (e->s == NULL)
		return e->is_gone || e->l->is_cut ? ST_END : ST_OK;
	fail(e, h2_hold(e->s));
	if (e->st != ST_OK)
		return e->st;
	return is_clear(e) ? ST_OK : ST_AGAIN;
}

/* A little, which will go at once when it is written: it may wait for the end of the
 * loop's turn, and what other streams say until then. */
static bool
may_wait(const struct h2_side *e)
{
	const struct h2_link *l = e->l;

	return e->s != NULL && e->st == ST_OK && !e->is_gone && !l->is_cut &&
	       !l->is_eof && !h2_link_is_blocked(l) && !e->side.is_blocked &&
	       h2_held(e->s) + l->later <= LATER_MAX && h2_fits(e->s, l->later);
}

static enum status
leave(struct h2_side *e)
{
	e->l->later += h2_held(e->s);
	fail(e, h2_hold(e->s));
	h2_link_wake(e->l);
	return e->st;
}

static enum status
flush(struct side *s)
{
	struct h2_side *e = h2_side_of(s);
	struct h2_link *l = e->l;

	if (l->is_dead)
		return ST_END;
	if (may_wait(e))
		return leave(e);
	if (!l->is_feeding)
		h2_link_pump(l);
	enum status st = outcome(e);
	s->is_blocked = st == ST_AGAIN;
	h2_side_look(e, loop_now_ms(l->flow->loop));
	/* What is left is the kernel's to announce, or of the next callback. */
	if (!l->is_inside && (h2_link_is_blocked(l) || l->is_cut))
		h2_link_wake(l);
	return st;
}

static void
want(struct side *s, bool reads)
{
	struct h2_side *e = h2_side_of(s);
	size_t n = e->given;

	s->wants = reads;
	if (!reads)
		return;
	ring_trim(&e->ahead);
	if (n == 0)
		return;
	e->given = 0;
	if (e->s == NULL)
		return; /* the stream gave its credit back when it closed */
	h2_credit(e->s, n);
	if (h2_has_output(e->l->h2))
		h2_link_wake(e->l);
}

static bool
deliver(struct side *s)
{
	struct h2_side *e = h2_side_of(s);
	bool was_any = false;

	while (s->wants && e->is_open && !e->is_gone && !ring_is_empty(&e->ahead)) {
		struct str v = ring_peek(&e->ahead);
		ring_consume(&e->ahead, v.n);
		e->given += v.n;
		was_any = true;
		s->events->body(s->ctx, v);
	}
	if (s->wants && e->is_open && !e->is_gone && ring_is_empty(&e->ahead) &&
	    e->is_whole && !e->is_given) {
		was_any = true;
		h2_side_give_end(e);
	}
	return was_any;
}

/* The turn is through: what is left is the stream's own. */
static void
part(struct h2_side *e, bool is_well)
{
	struct h2_link *l = e->l;

	if (!e->is_open)
		return;
	h2_side_leave(e);
	list_remove(&e->due);
	if (e->s != NULL)
		fail(e, h2_hold(e->s));
	if (e->s == NULL)
		h2_side_free(e);
	else if (is_well && e->st == ST_OK)
		h2_leave(e->s);
	else
		h2_reset(e->s, l->is_server ? H2_INTERNAL_ERROR : H2_CANCEL);
	h2_link_wake(l);
}

static void
done(struct side *s)
{
	struct h2_side *e = h2_side_of(s);

	part(e, e->is_put && (e->l->is_server || e->is_whole));
}

static void
h2_side_abort(struct side *s, enum status why)
{
	(void)why;
	part(h2_side_of(s), false);
}

const struct side_class h2_side_class = {
	.name = "h2",
	.put_head = put_head,
	.put_body = put_body,
	.put_copy = put_copy,
	.put_end = put_end,
	.flush = flush,
	.want = want,
	.deliver = deliver,
	.done = done,
	.abort = h2_side_abort,
};

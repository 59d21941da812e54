#include "proxy/flow/h2_link.h"

static uint64_t
now(const struct h2_link *l)
{
	return loop_now_ms(l->flow->loop);
}

bool
h2_link_is_blocked(const struct h2_link *l)
{
	return l->blocked_ms != 0;
}

static void
arm(struct h2_link *l)
{
	unsigned events = l->is_eof || l->is_paused ? 0u : LOOP_READ;

	if (h2_link_is_blocked(l) && !l->is_cut)
		events |= LOOP_WRITE;
	stream_arm(l->stream, l->io, events);
}

/* One batch; false: there is no more, or the peer doesn't take it. */
static bool
write_some(struct h2_link *l)
{
	struct str v = h2_pending(l->h2, now(l));
	struct iovec part = { (void *)(uintptr_t)v.p, v.n };
	size_t taken = 0;

	if (v.n == 0)
		return false;
	if (stream_writev(l->stream, &part, 1, &taken) != ST_OK) {
		l->is_cut = true;
		return false;
	}
	h2_sent(l->h2, taken);
	if (taken > 0)
		l->blocked_ms = 0;
	if (taken == v.n && !stream_is_blocked(l->stream))
		return true;
	if (l->blocked_ms == 0)
		l->blocked_ms = now(l);
	return false;
}

void
h2_link_pump(struct h2_link *l)
{
	need(!l->is_feeding);
	l->later = 0;
	while (!l->is_cut && !h2_link_is_blocked(l) && write_some(l))
		;
}

static void
write_on(struct h2_link *l)
{
	enum status st = stream_flush(l->stream);

	if (st == ST_AGAIN)
		return;
	if (st != ST_OK)
		l->is_cut = true;
	l->blocked_ms = 0;
}

void
h2_link_end(struct h2_link *l)
{
	l->is_eof = true;
	h2_close(l->h2);
	list_each (it, &l->sides) {
		struct h2_side *e = LIST_OF(it, struct h2_side, link);
		if (!e->is_open || e->s != NULL || e->is_whole || e->is_gone)
			continue;
		e->side.repeat = SIDE_REPEAT_ANY; /* nothing was asked yet */
		h2_side_lose(e, ST_UPSTREAM_CLOSED);
	}
}

void
h2_link_feed(struct h2_link *l, struct str in)
{
	l->is_feeding = true;
	enum status st = h2_feed(l->h2, in, now(l));
	l->is_feeding = false;
	if (st != ST_OK && !l->is_dead)
		h2_link_end(l);
}

static void
read_on(struct h2_link *l)
{
	struct flow *flow = l->flow;
	size_t n = 0;
	enum status st = stream_read(l->stream, flow->space, flow->space_n, &n);

	if (st == ST_OK)
		h2_link_feed(l, str_of(flow->space, n));
	else if (st != ST_AGAIN)
		h2_link_end(l);
}

/* One side hears what it has to. */
static void
give(struct h2_side *e)
{
	bool has_room = e->due_room;

	e->due_room = false;
	if (!e->is_open)
		return;
	if (e->due_gone) {
		e->due_gone = false;
		e->side.events->gone(e->side.ctx, e->why);
		return;
	}
	if (e->is_gone)
		return;
	if (has_room) {
		e->side.is_blocked = false;
		e->side.blocked_ms = 0;
		e->side.events->room(e->side.ctx);
	}
	if (e->is_open && !e->is_gone)
		e->side.events->batch(e->side.ctx);
}

static void
look(struct h2_link *l)
{
	uint64_t at = now(l);

	list_each (it, &l->sides)
		h2_side_look(LIST_OF(it, struct h2_side, link), at);
}

void
h2_link_settle(struct h2_link *l)
{
	l->is_inside = true;
	h2_link_pump(l);
	if (l->is_cut && !l->is_eof)
		h2_link_end(l);
	look(l);
	while (!l->is_dead && !list_is_empty(&l->due)) {
		give(LIST_OF(list_pop(&l->due), struct h2_side, due));
		if (l->is_dead || !list_is_empty(&l->due))
			continue;
		h2_link_pump(l);
		look(l);
	}
	l->is_inside = false;
	if (l->is_dead)
		return;
	arm(l);
	l->class->settled(l);
}

static void
on_event(void *ctx, unsigned events)
{
	struct h2_link *l = ctx;

	l->is_inside = true;
	if ((events & LOOP_WRITE) != 0)
		write_on(l);
	if ((events & LOOP_READ) != 0 && !l->is_eof)
		read_on(l);
	if (!l->is_dead)
		h2_link_settle(l);
}

static void
on_wake(void *ctx)
{
	struct h2_link *l = ctx;

	l->is_woken = false;
	if (!l->is_dead)
		h2_link_settle(l);
}

void
h2_link_wake(struct h2_link *l)
{
	if (l->is_inside || l->is_woken || l->is_dead)
		return;
	l->is_woken = true;
	loop_defer(l->flow->loop, on_wake, l);
}

bool
h2_link_is_over(const struct h2_link *l)
{
	if (l->open > 0)
		return false;
	return l->is_cut || (l->is_eof && !h2_link_is_blocked(l)) || h2_is_over(l->h2);
}

/* Also streams that their turns have left: what they hold is memory. */
static bool
is_stalled(const struct h2_side *e, uint64_t at, uint64_t stalled_ms)
{
	return e->s != NULL && e->side.blocked_ms != 0 &&
	       at - e->side.blocked_ms > stalled_ms;
}

bool
h2_link_tick(struct h2_link *l, uint64_t stalled_ms)
{
	uint64_t at = now(l);
	bool was_one = false;

	look(l);
	if (h2_expire(l->h2, at))
		h2_link_wake(l);
	list_each_safe (it, &l->sides) {
		struct h2_side *e = LIST_OF(it, struct h2_side, link);
		if (!is_stalled(e, at, stalled_ms))
			continue;
		was_one = true;
		if (e->is_open)
			h2_side_lose(e, ST_TIMEOUT);
		h2_reset(e->s, H2_CANCEL);
	}
	if (was_one)
		h2_link_wake(l);
	return was_one;
}

bool
h2_link_init(struct h2_link *l, const struct h2_limits *lim)
{
	list_init(&l->sides);
	list_init(&l->due);
	l->h2 = h2_new(l->is_server ? H2_SERVER : H2_CLIENT, lim, &h2_side_events, l);
	if (l->h2 == NULL)
		return false;
	l->io->fn = on_event;
	l->io->ctx = l;
	return true;
}

static void
free_session(void *ctx)
{
	h2_free(ctx);
}

void
h2_link_done(struct h2_link *l)
{
	l->is_dead = l->is_eof = l->is_cut = true;
	while (!list_is_empty(&l->sides)) {
		struct h2_side *e = LIST_OF(l->sides.next, struct h2_side, link);
		e->is_open = false;
		h2_side_free(e);
	}
	loop_defer(l->flow->loop, free_session, l->h2);
}

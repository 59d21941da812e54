#include "proxy/flow/front_h1_in.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/base/num.h"

enum { LINGER_MS = 5000 };

static uint64_t
now(const struct front_h1 *f)
{
	return loop_now_ms(f->front.flow->loop);
}

void
front_h1_to(struct front_h1 *f, enum front_h1_state s)
{
	static const unsigned legal[] = {
		[FRONT_H1_IDLE] = 1u << FRONT_H1_HEAD,
		[FRONT_H1_HEAD] = 1u << FRONT_H1_BODY | 1u << FRONT_H1_FLUSH,
		[FRONT_H1_BODY] = 1u << FRONT_H1_FLUSH,
		[FRONT_H1_FLUSH] = 1u << FRONT_H1_IDLE | 1u << FRONT_H1_LINGER,
		[FRONT_H1_LINGER] = 0,
		[FRONT_H1_OVER] = 0,
	};

	need(s == FRONT_H1_OVER || (legal[f->state] & 1u << s) != 0);
	f->state = s;
	f->since_ms = now(f);
}

void
front_h1_over(struct front_h1 *f, bool is_reset)
{
	if (f->state == FRONT_H1_OVER)
		return;
	front_h1_to(f, FRONT_H1_OVER);
	f->is_open = false;
	f->front.hooks->over(f->front.ctx, is_reset);
}

/* The client is read while what it sends has a place to go: one read ahead of a turn
 * that isn't ready, and behind a whole request to see whether it stays. */
static bool
reads(const struct front_h1 *f)
{
	if (f->is_eof || !ring_is_empty(&f->ahead) || f->state == FRONT_H1_FLUSH)
		return false;
	return f->state != FRONT_H1_BODY || f->side.wants || f->is_whole ||
	       !f->has_begun;
}

void
front_h1_arm(struct front_h1 *f)
{
	unsigned events = reads(f) ? LOOP_READ : 0u;

	if (f->state == FRONT_H1_OVER)
		return;
	if (out_is_blocked(&f->out))
		events |= LOOP_WRITE;
	stream_arm(f->front.stream, f->front.io, events);
}

/* On to the turn, if it still has this request. */
static void
give_batch(struct front_h1 *f)
{
	if (f->is_open && !f->is_gone)
		f->side.events->batch(f->side.ctx);
}

static void
give_gone(struct front_h1 *f, enum status why)
{
	f->is_gone = true;
	f->side.events->gone(f->side.ctx, why);
}

static void
give_bad(struct front_h1 *f, enum status why)
{
	f->is_last = true; /* where the next request would start is anyone's guess */
	f->is_whole = false;
	f->has_begun = true;
	f->side.wants = false;
	f->side.events->bad(f->side.ctx, why);
}

static void
begin(struct front_h1 *f)
{
	h1_read_done(&f->reader);
	h1_body_done(&f->body);
	arena_done(&f->arena);
	memset(&f->request, 0, sizeof f->request);
	h1_read_request(&f->reader, &f->arena, &f->front.flow->limits);
	f->is_whole = f->has_begun = f->is_put = f->is_carried = f->is_gone = false;
	f->side = (struct side){ .class = &front_h1_side };
	front_h1_to(f, FRONT_H1_HEAD);
	f->serial++;
	f->is_open = true;
	if (f->front.hooks->begin(f->front.ctx, &f->side) != ST_OK)
		front_h1_over(f, true);
}

/* On a proxy listener each request may as well be a CONNECT: that one is not ours. */
static bool
is_diverted(struct front_h1 *f, struct str in)
{
	const struct front_hooks *hooks = f->front.hooks;

	return hooks->divert != NULL && hooks->divert(f->front.ctx, in) == ST_END;
}

static void
give_head(struct front_h1 *f)
{
	struct side_msg m = { .head = &f->request };

	h1_body_init(&f->body, &f->request, &f->front.flow->limits);
	f->is_whole = h1_body_is_over(&f->body);
	m.is_whole = f->is_whole;
	m.is_https = f->front.is_https;
	if (!f->request.is_persistent)
		f->is_last = true;
	front_h1_to(f, FRONT_H1_BODY);
	f->side.events->head(f->side.ctx, &m);
}

static size_t
take_head(struct front_h1 *f, struct str in)
{
	size_t used = 0;

	if (f->state == FRONT_H1_IDLE) {
		if (is_diverted(f, in))
			return in.n;
		begin(f);
		if (f->state != FRONT_H1_HEAD)
			return in.n;
	}
	enum status st = h1_read_feed(&f->reader, in, &used, &f->request);
	if (st == ST_OK) {
		give_head(f);
	} else if (st != ST_AGAIN) {
		give_bad(f, st);
		return in.n;
	}
	return used;
}

/* The turn may have ended inside an event. */
static bool
takes_body(const struct front_h1 *f, uint32_t serial)
{
	return f->state == FRONT_H1_BODY && f->serial == serial && f->is_open &&
	       f->side.wants && !f->is_whole;
}

size_t
front_h1_take_body(struct front_h1 *f, struct str in)
{
	uint32_t serial = f->serial;
	struct str payload;
	size_t used = 0, k = 0;

	while (takes_body(f, serial)) {
		enum status st =
			h1_body_feed(&f->body, str_skip(in, used), &k, &payload);

		if (st != ST_OK && st != ST_AGAIN && st != ST_END) {
			give_bad(f, st);
			return in.n;
		}
		used += k;
		f->has_begun = f->has_begun || k > 0;
		if (st == ST_AGAIN)
			break;
		if (st == ST_OK) {
			f->side.events->body(f->side.ctx, payload);
		} else {
			f->is_whole = true;
			f->side.events->end(f->side.ctx, &f->body.trailers);
		}
	}
	return used;
}

static size_t
take_carried(struct front_h1 *f, struct str in)
{
	if (!takes_body(f, f->serial))
		return 0;
	f->side.events->body(f->side.ctx, in);
	return in.n;
}

static size_t
take(struct front_h1 *f, struct str in)
{
	switch (f->state) {
	case FRONT_H1_IDLE:
	case FRONT_H1_HEAD:
		return take_head(f, in);
	case FRONT_H1_BODY:
		return f->is_carried ? take_carried(f, in) : front_h1_take_body(f, in);
	case FRONT_H1_LINGER:
		f->dropped += in.n;
		if (f->dropped > f->front.limits->linger_bytes)
			front_h1_over(f, false);
		return in.n;
	case FRONT_H1_FLUSH:
	case FRONT_H1_OVER:
		break;
	}
	return 0;
}

size_t
front_h1_feed(struct front_h1 *f, struct str in, bool one)
{
	uint32_t serial = f->serial;
	size_t used = 0, k = 1;

	while (used < in.n && k > 0 && f->state != FRONT_H1_OVER) {
		if (one && (f->serial != serial || f->state != FRONT_H1_BODY))
			break;
		k = take(f, str_skip(in, used));
		used += k;
	}
	return used;
}

void
front_h1_look_at_end(struct front_h1 *f)
{
	if (!f->is_eof || !ring_is_empty(&f->ahead))
		return;
	if (f->state == FRONT_H1_IDLE || f->state == FRONT_H1_LINGER) {
		front_h1_over(f, false);
	} else if (f->is_carried && f->state == FRONT_H1_BODY) {
		if (!takes_body(f, f->serial))
			return;
		f->is_whole = true;
		f->side.events->end(f->side.ctx, NULL);
	} else if (f->is_open && !f->is_gone && !f->is_whole) {
		/* The request can't become whole any more. */
		give_gone(f, ST_CLIENT_GONE);
	}
}

/* Behind every event of the loop. */
static void
settle(struct front_h1 *f)
{
	if (f->state != FRONT_H1_OVER)
		front_h1_look_at_end(f);
	if (f->state != FRONT_H1_OVER)
		give_batch(f);
	front_h1_arm(f);
}

static void
read_on(struct front_h1 *f)
{
	struct flow *flow = f->front.flow;
	size_t n = 0;

	ring_trim(&f->ahead);
	enum status st = stream_read(f->front.stream, flow->space, flow->space_n, &n);

	if (st == ST_AGAIN)
		return;
	if (st == ST_END) {
		f->is_eof = true;
		return;
	}
	if (st != ST_OK) {
		/* The kernel watches for stalls as well, and may be the first to see one. */
		if (f->is_open && !f->is_gone)
			give_gone(f, st == ST_TIMEOUT ? ST_TIMEOUT : ST_CLIENT_GONE);
		else
			front_h1_over(f, false);
		return;
	}
	struct str in = str_of(flow->space, n);
	struct str rest = str_skip(in, front_h1_feed(f, in, false));
	if (f->state == FRONT_H1_OVER || rest.n == 0)
		return;
	if (ring_write(&f->ahead, rest) != rest.n)
		front_h1_over(f, true); /* no memory for what it sent ahead */
}

static void
write_on(struct front_h1 *f)
{
	enum status st = out_resume(&f->out, now(f));

	f->side.blocked_ms = f->out.blocked_ms;
	if (st == ST_AGAIN)
		return;
	f->side.is_blocked = false;
	if (f->is_open && !f->is_gone) {
		if (st == ST_OK)
			f->side.events->room(f->side.ctx);
		else
			give_gone(f, f->front.stream->error == ETIMEDOUT
					     ? ST_TIMEOUT
					     : ST_CLIENT_GONE);
	} else if (st != ST_OK) {
		front_h1_over(f, false);
	} else if (f->state == FRONT_H1_FLUSH) {
		front_h1_next(f);
	}
}

static void
on_event(void *ctx, unsigned events)
{
	struct front_h1 *f = ctx;

	if ((events & LOOP_WRITE) != 0)
		write_on(f);
	if ((events & LOOP_READ) != 0 && f->state != FRONT_H1_OVER && reads(f))
		read_on(f);
	settle(f);
}

/* Requests that were sent ahead, once the one before is answered. */
static void
pump(void *ctx)
{
	struct front_h1 *f = ctx;

	f->is_pumped = false;
	while (f->state == FRONT_H1_IDLE && !ring_is_empty(&f->ahead)) {
		size_t used = front_h1_feed(f, ring_linear(&f->ahead), false);

		if (f->state == FRONT_H1_OVER)
			return;
		ring_consume(&f->ahead, used);
		if (used == 0)
			break;
	}
	settle(f);
}

void
front_h1_next(struct front_h1 *f)
{
	f->served++;
	if (f->is_last || f->is_eof) {
		if (!f->is_shut)
			(void)!stream_shutdown(f->front.stream);
		f->is_shut = true;
		front_h1_to(f, FRONT_H1_LINGER);
	} else {
		h1_read_done(&f->reader);
		h1_body_done(&f->body);
		arena_done(&f->arena);
		ring_trim(&f->ahead);
		buf_done(&f->scratch);
		front_h1_to(f, FRONT_H1_IDLE);
	}
	if ((f->is_eof || !ring_is_empty(&f->ahead)) && !f->is_pumped) {
		f->is_pumped = true;
		loop_defer(f->front.flow->loop, pump, f);
	}
}

static void
go(struct front *front, struct str seen)
{
	struct front_h1 *f = (struct front_h1 *)(void *)front;

	front->io->fn = on_event;
	front->io->ctx = f;
	/* What was seen may be the beginning of a head and a whole read behind it. */
	ring_init(&f->ahead, num_max(seen.n, front->flow->space_n));
	if (ring_write(&f->ahead, seen) != seen.n)
		front_h1_over(f, true);
	else
		pump(f);
}

static bool
is_stalled(const struct front_h1 *f, uint64_t at)
{
	return out_is_blocked(&f->out) && f->out.blocked_ms != 0 &&
	       at - f->out.blocked_ms > f->front.limits->stalled_ms;
}

static void
tick_stalled(struct front_h1 *f)
{
	front_waited(&f->front, FRONT_WAIT_STALL);
	f->is_stalled = true;
	if (f->is_open && !f->is_gone)
		give_gone(f, ST_TIMEOUT);
	else
		front_h1_over(f, true);
}

static void
tick(struct front *front)
{
	struct front_h1 *f = (struct front_h1 *)(void *)front;
	uint64_t at = now(f), waited = at - f->since_ms;

	if (is_stalled(f, at)) {
		tick_stalled(f);
	} else if (f->state == FRONT_H1_HEAD && f->is_open && !f->is_gone &&
		   waited > front->limits->head_ms) {
		front_waited(front, FRONT_WAIT_HEAD);
		give_bad(f, ST_TIMEOUT);
		settle(f);
	} else if ((f->state == FRONT_H1_IDLE &&
		    waited > front->limits->keepalive_ms) ||
		   (f->state == FRONT_H1_LINGER && waited > LINGER_MS)) {
		front_waited(front, FRONT_WAIT_IDLE);
		front_h1_over(f, false);
	}
}

static void
drain(struct front *front)
{
	struct front_h1 *f = (struct front_h1 *)(void *)front;

	front->is_draining = true;
	f->is_last = true;
	if (f->state == FRONT_H1_IDLE)
		front_h1_over(f, false);
}

static void
front_h1_free(struct front *front)
{
	struct front_h1 *f = (struct front_h1 *)(void *)front;

	f->state = FRONT_H1_OVER;
	f->is_open = false;
	h1_read_done(&f->reader);
	h1_body_done(&f->body);
	ring_done(&f->ahead);
	out_done(&f->out, &front->flow->gather);
	buf_done(&f->scratch);
	arena_done(&f->arena);
	loop_defer(front->flow->loop, free, f); /* its own callbacks may be running */
}

static const struct front_class front_h1_class = {
	.go = go,
	.tick = tick,
	.drain = drain,
	.free = front_h1_free,
};

struct front *
front_h1_new(const struct front_start *start)
{
	struct front_h1 *f = calloc(1, sizeof *f);

	if (f == NULL)
		return NULL;
	f->front = (struct front){ .class = &front_h1_class,
				   .flow = start->flow,
				   .stream = start->stream,
				   .io = start->io,
				   .hooks = start->hooks,
				   .limits = start->limits,
				   .ctx = start->ctx,
				   .is_https = start->is_https };
	arena_init(&f->arena, FRONT_H1_ARENA_MAX);
	out_init(&f->out, start->stream);
	buf_init(&f->scratch, FRONT_H1_SCRATCH_MAX);
	f->since_ms = now(f);
	return &f->front;
}

#include "proxy/flow/leg_h1_in.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static uint64_t
now(const struct leg_h1 *g)
{
	return loop_now_ms(g->leg.flow->loop);
}

static bool
reads(const struct leg_h1 *g)
{
	if (!g->is_open)
		return true;
	return g->side.wants && !g->is_eof && !g->is_gone && ring_is_empty(&g->behind);
}

void
leg_h1_arm(struct leg_h1 *g)
{
	unsigned events = reads(g) ? LOOP_READ : 0u;

	if (g->leg.io.loop == NULL)
		return;
	if (out_is_blocked(&g->out))
		events |= LOOP_WRITE;
	stream_arm(&g->leg.stream, &g->leg.io, events);
}

static void
give_gone(struct leg_h1 *g, enum status why)
{
	bool was_kept = g->leg.served > 0;

	/* A kept connection that its host closed as the request went out: nothing of
	 * this request was answered. */
	g->side.repeat = was_kept && !g->head_seen && !g->had_interim &&
					 !h1_read_has_begun(&g->reader)
				 ? SIDE_REPEAT_SAFE
				 : SIDE_REPEAT_NO;
	g->is_gone = true;
	g->side.events->gone(g->side.ctx, why);
}

static bool
is_current(const struct leg_h1 *g, uint32_t serial)
{
	return g->is_open && g->serial == serial && !g->is_gone;
}

static void
expect_head(struct leg_h1 *g)
{
	h1_read_done(&g->reader);
	arena_done(&g->arena);
	h1_read_response(&g->reader, &g->arena, &g->leg.flow->limits, g->asked,
			 g->is_ws);
}

static void
give_head(struct leg_h1 *g)
{
	struct side_msg m = { .head = &g->response };

	if (g->response.status == 101) {
		if (!g->is_ws || !ws_check_response(&g->response, g->digest)) {
			give_gone(g, ST_UPSTREAM_BAD);
			return;
		}
		g->head_seen = g->is_carried = true;
		g->is_put = false;
	} else if (g->response.status >= 200) {
		h1_body_init(&g->body, &g->response, &g->leg.flow->limits);
		g->head_seen = true;
		m.is_whole = g->is_whole = h1_body_is_over(&g->body);
	}
	g->side.events->head(g->side.ctx, &m);
}

/* 1xx heads, then the final one. */
static enum status
take_heads(struct leg_h1 *g, struct str *in)
{
	uint32_t serial = g->serial;
	enum status st = ST_OK;
	size_t k = 0;

	while (st == ST_OK && is_current(g, serial) && !g->head_seen) {
		st = h1_read_feed(&g->reader, *in, &k, &g->response);
		if (st != ST_OK && st != ST_AGAIN)
			return st;
		*in = str_skip(*in, k);
		if (st != ST_OK)
			break;
		give_head(g);
		if (!is_current(g, serial) || g->head_seen)
			break;
		g->had_interim = true;
		expect_head(g);
	}
	return st;
}

static enum status
take_body(struct leg_h1 *g, struct str *in)
{
	uint32_t serial = g->serial;
	struct str payload;
	enum status st = ST_OK;
	size_t k = 0;

	while (is_current(g, serial) && g->side.wants && !g->is_whole) {
		st = h1_body_feed(&g->body, *in, &k, &payload);
		if (st != ST_OK && st != ST_AGAIN && st != ST_END)
			return ST_UPSTREAM_BAD;
		*in = str_skip(*in, k);
		if (st == ST_AGAIN)
			break;
		if (st == ST_OK) {
			g->side.events->body(g->side.ctx, payload);
		} else {
			g->is_whole = true;
			g->side.events->end(g->side.ctx, &g->body.trailers);
		}
	}
	return ST_OK;
}

static void
take_carried(struct leg_h1 *g, struct str *in)
{
	struct str all = *in;

	if (all.n == 0 || !g->side.wants || g->is_whole)
		return;
	*in = str_skip(all, all.n);
	g->side.events->body(g->side.ctx, all);
}

/* Returns how much was taken. */
size_t
leg_h1_feed(struct leg_h1 *g, struct str in)
{
	uint32_t serial = g->serial;
	size_t all = in.n;
	enum status st = take_heads(g, &in);

	if (st == ST_OK && is_current(g, serial) && g->is_carried)
		take_carried(g, &in);
	else if (st == ST_OK && is_current(g, serial))
		st = take_body(g, &in);
	if (!is_current(g, serial))
		return all;
	if (st != ST_OK && st != ST_AGAIN) {
		give_gone(g, st == ST_NOMEM ? ST_NOMEM : ST_UPSTREAM_BAD);
		return all;
	}
	if (!g->is_carried && g->is_whole && in.n > 0) {
		g->is_clean = false; /* more than was asked for */
		return all;
	}
	return all - in.n;
}

void
leg_h1_look_at_end(struct leg_h1 *g)
{
	if (!g->is_eof || !ring_is_empty(&g->behind) || g->is_gone || g->is_whole)
		return;
	if (!g->is_carried && g->head_seen && h1_body_is_over(&g->body))
		return; /* deliver() gives that end */
	if (!g->is_carried && (!g->head_seen || !h1_body_may_close(&g->body))) {
		give_gone(g, ST_UPSTREAM_CLOSED);
	} else if (g->side.wants) {
		g->is_whole = true;
		g->side.events->end(g->side.ctx, NULL);
	}
}

static void
read_on(struct leg_h1 *g)
{
	struct flow *flow = g->leg.flow;
	uint32_t serial = g->serial;
	size_t n = 0;

	ring_trim(&g->behind);
	enum status st = stream_read(&g->leg.stream, flow->space, flow->space_n, &n);

	if (st == ST_AGAIN)
		return;
	if (st == ST_END) {
		g->is_eof = true;
		leg_h1_look_at_end(g);
	} else if (st != ST_OK) {
		g->is_eof = true;
		give_gone(g, ST_UPSTREAM_CLOSED);
	} else {
		struct str in = str_of(flow->space, n);
		struct str rest = str_skip(in, leg_h1_feed(g, in));
		if (is_current(g, serial) && ring_write(&g->behind, rest) != rest.n)
			give_gone(g, ST_NOMEM);
	}
}

static void
write_on(struct leg_h1 *g)
{
	enum status st = out_resume(&g->out, now(g));

	g->side.blocked_ms = g->out.blocked_ms;
	if (st == ST_AGAIN)
		return;
	/* Also after a failure: it may have answered before it closed, and flush() will
	 * tell. */
	g->side.is_blocked = false;
	if (!g->is_gone)
		g->side.events->room(g->side.ctx);
}

static void
on_event(void *ctx, unsigned events)
{
	struct leg_h1 *g = ctx;
	uint32_t serial = g->serial;

	if (!g->is_open) { /* EOF, a reset, or bytes out of turn */
		loop_io_want(&g->leg.io, 0);
		leg_h1_settle(g, false);
		return;
	}
	if ((events & LOOP_WRITE) != 0)
		write_on(g);
	if ((events & LOOP_READ) != 0 && is_current(g, serial) && reads(g))
		read_on(g);
	if (is_current(g, serial))
		g->side.events->batch(g->side.ctx);
	leg_h1_arm(g);
}

static void
reset(struct leg_h1 *g)
{
	h1_read_done(&g->reader);
	h1_body_done(&g->body);
	arena_done(&g->arena);
	buf_done(&g->scratch);
	ring_done(&g->behind);
	memset(&g->response, 0, sizeof g->response);
	g->is_gone = g->is_ws = g->is_carried = g->is_asked = g->is_put = false;
	g->head_seen = g->had_interim = g->is_whole = false;
}

static enum status
ask(struct leg *leg, struct side **ret_s)
{
	struct leg_h1 *g = (struct leg_h1 *)(void *)leg;

	need(!g->is_open);
	g->side = (struct side){ .class = &leg_h1_side };
	g->serial++;
	g->is_open = true;
	leg->sides = 1;
	leg->is_full = true;
	*ret_s = &g->side;
	return ST_OK;
}

void
leg_h1_settle(struct leg_h1 *g, bool is_fit)
{
	if (g->is_open)
		g->leg.served++;
	g->is_open = false;
	g->leg.sides = 0;
	g->leg.is_full = false;
	if (!is_fit)
		g->leg.is_over = true;
	reset(g);
	leg_h1_arm(g);
	g->leg.hooks->settled(g->leg.ctx, &g->leg);
}

static bool
is_quiet(struct leg *leg)
{
	char c;

	/* Also under TLS: what comes while nothing was asked may be a close_notify. */
	return recv(leg->stream.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
	       errno == EAGAIN;
}

static void
leg_h1_free(struct leg *leg)
{
	struct leg_h1 *g = (struct leg_h1 *)(void *)leg;

	g->is_open = false;
	leg->is_over = true;
	reset(g);
	out_done(&g->out, &leg->flow->gather);
	loop_io_clear(&leg->io);
	stream_done(&leg->stream);
	(void)close(leg->stream.fd);
	loop_defer(leg->flow->loop, free, g); /* its own callbacks may be running */
}

static const struct leg_class leg_h1_class = {
	.name = "h1",
	.ask = ask,
	.is_quiet = is_quiet,
	.free = leg_h1_free,
};

struct leg *
leg_h1_new(const struct leg_start *start)
{
	struct leg_h1 *g = calloc(1, sizeof *g);

	if (g == NULL)
		return NULL;
	g->leg = (struct leg){ .class = &leg_h1_class,
			       .flow = start->flow,
			       .hooks = start->hooks,
			       .limits = start->limits,
			       .ctx = start->ctx,
			       .is_https = start->is_https,
			       .takes_ws = true };
	stream_move(&g->leg.stream, start->stream);
	loop_io_init(&g->leg.io, start->flow->loop, g->leg.stream.fd, on_event, g);
	arena_init(&g->arena, LEG_H1_ARENA_MAX);
	ring_init(&g->behind, start->flow->space_n);
	out_init(&g->out, &g->leg.stream);
	buf_init(&g->scratch, LEG_H1_SCRATCH_MAX);
	g->is_clean = true;
	return &g->leg;
}

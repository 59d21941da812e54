#include <stdlib.h>

#include "proxy/flow/front.h"
#include "proxy/flow/h2_link.h"

enum {
	GOODBYE_MS = 5000 /* for what was said last to arrive */
};

struct front_h2 {
	struct front front;
	struct h2_link link;
	uint64_t begun_ms, idle_ms;
	uint32_t served;
	bool is_over;
};

static struct front_h2 *
of_link(struct h2_link *l)
{
	return (struct front_h2 *)(void *)((char *)l - offsetof(struct front_h2, link));
}

static struct front_h2 *
of_front(struct front *f)
{
	return (struct front_h2 *)(void *)f;
}

static uint64_t
now(const struct front_h2 *f)
{
	return loop_now_ms(f->front.flow->loop);
}

static enum status
begin(struct h2_link *l, struct h2_side *e, bool is_connect)
{
	struct front_h2 *f = of_link(l);
	const struct front_hooks *hooks = f->front.hooks;

	f->served++;
	if (f->served >= f->front.limits->requests)
		h2_goaway(l->h2);
	if (is_connect && hooks->connect != NULL)
		return hooks->connect(f->front.ctx, &e->side);
	return hooks->begin(f->front.ctx, &e->side);
}

static void
left(struct h2_link *l)
{
	(void)l;
}

static void
over(struct front_h2 *f, bool is_reset)
{
	if (f->is_over)
		return;
	f->is_over = true;
	if (!is_reset)
		(void)!stream_shutdown(f->front.stream);
	f->front.hooks->over(f->front.ctx, is_reset);
}

static void
settled(struct h2_link *l)
{
	struct front_h2 *f = of_link(l);

	if (h2_streams(l->h2) > 0)
		f->idle_ms = now(f);
	if (h2_link_is_over(l))
		over(f, false);
}

static const struct h2_link_class front_link = { begin, left, settled };

static void
go(struct front *front, struct str seen)
{
	struct front_h2 *f = of_front(front);

	f->link.is_inside = true;
	if (seen.n > 0)
		h2_link_feed(&f->link, seen);
	if (!f->link.is_dead)
		h2_link_settle(&f->link);
}

/* Nothing more is said to it but goodbye. */
static void
give_up(struct front_h2 *f, enum front_wait why, bool is_reset)
{
	front_waited(&f->front, why);
	h2_link_end(&f->link);
	if (is_reset)
		f->link.is_cut = true;
	h2_link_settle(&f->link);
}

static bool
is_late(const struct front_h2 *f, uint64_t at)
{
	uint64_t since =
		h2_has_begun(f->link.h2) ? h2_head_since(f->link.h2) : f->begun_ms;

	return since != 0 && at - since > f->front.limits->head_ms;
}

static void
tick_idle(struct front_h2 *f, uint64_t at)
{
	uint64_t most = f->front.limits->keepalive_ms;

	if (h2_streams(f->link.h2) > 0 || f->link.open > 0) {
		f->idle_ms = at;
		return;
	}
	if (at - f->idle_ms <= most && !f->front.is_draining)
		return;
	if (at - f->idle_ms > GOODBYE_MS &&
	    (f->front.is_draining || at - f->idle_ms > most + GOODBYE_MS)) {
		give_up(f, FRONT_WAIT_IDLE, false);
		return;
	}
	h2_goaway(f->link.h2);
	h2_link_settle(&f->link);
}

static void
tick(struct front *front)
{
	struct front_h2 *f = of_front(front);
	uint64_t at = now(f), stalled_ms = front->limits->stalled_ms;

	if (f->is_over)
		return;
	if (h2_link_is_blocked(&f->link) && at - f->link.blocked_ms > stalled_ms)
		give_up(f, FRONT_WAIT_STALL, true);
	else if (is_late(f, at))
		give_up(f, FRONT_WAIT_HEAD, false);
	else if (h2_link_tick(&f->link, stalled_ms)) /* what it does comes later */
		front_waited(front, FRONT_WAIT_STALL);
	else
		tick_idle(f, at);
}

static void
drain(struct front *front)
{
	struct front_h2 *f = of_front(front);

	front->is_draining = true;
	h2_goaway(f->link.h2);
	h2_link_wake(&f->link);
}

static void
pause(struct front *front, bool is_paused)
{
	struct front_h2 *f = of_front(front);

	f->link.is_paused = is_paused;
	h2_link_wake(&f->link);
}

static void
front_h2_free(struct front *front)
{
	struct front_h2 *f = of_front(front);

	f->is_over = true;
	h2_link_done(&f->link);
	loop_defer(front->flow->loop, free, f);
}

static const struct front_class front_h2_class = {
	.go = go,
	.tick = tick,
	.drain = drain,
	.pause = pause,
	.free = front_h2_free,
};

struct front *
front_h2_new(const struct front_start *start)
{
	struct front_h2 *f = calloc(1, sizeof *f);
	const struct front_limits *lim = start->limits;
	const struct h2_limits limits = {
		.head = start->flow->limits,
		.heads = lim->heads,
		.streams = lim->streams,
		.window = lim->window,
		.connection = lim->connection,
		.wipes = start->flow->gather.wipes,
	};

	if (f == NULL)
		return NULL;
	f->front = (struct front){ .class = &front_h2_class,
				   .flow = start->flow,
				   .stream = start->stream,
				   .io = start->io,
				   .hooks = start->hooks,
				   .limits = start->limits,
				   .ctx = start->ctx,
				   .is_https = start->is_https };
	f->link = (struct h2_link){ .class = &front_link,
				    .flow = start->flow,
				    .stream = start->stream,
				    .io = start->io,
				    .is_server = true,
				    .is_proxy = start->hooks->connect != NULL,
				    .is_https = start->is_https };
	f->begun_ms = f->idle_ms = now(f);
	if (h2_link_init(&f->link, &limits))
		return &f->front;
	free(f);
	return NULL;
}

#include <stdlib.h>
#include <unistd.h>

#include "proxy/flow/h2_link.h"
#include "proxy/flow/leg.h"

enum { HEADS_MAX = 768 * 1024 }; /* memory for the heads of all responses that live */

struct leg_h2 {
	struct leg leg;
	struct h2_link link;
};

static struct leg_h2 *
of_link(struct h2_link *l)
{
	return (struct leg_h2 *)(void *)((char *)l - offsetof(struct leg_h2, link));
}

/* A host asks nothing of us (pushes are refused by the session). */
static enum status
begin(struct h2_link *l, struct h2_side *e, bool is_connect)
{
	(void)l;
	(void)e;
	(void)is_connect;
	return ST_METHOD_REFUSED;
}

/* Sides that were asked for count, also before their request is put. */
static void
count(struct leg_h2 *g)
{
	const struct h2_link *l = &g->link;
	uint32_t most = h2_most_streams(l->h2);

	g->leg.sides = l->open;
	g->leg.is_full = l->open >= most || h2_streams(l->h2) >= most;
	g->leg.is_over = g->leg.is_over || l->is_eof || h2_is_closing(l->h2);
	/* RFC 8441 section 3: not before the host has announced it. */
	g->leg.takes_ws = h2_has_begun(l->h2) && !h2_refuses_ws(l->h2);
}

static void
left(struct h2_link *l)
{
	struct leg_h2 *g = of_link(l);

	g->leg.served++;
	count(g);
}

static void
settled(struct h2_link *l)
{
	struct leg_h2 *g = of_link(l);

	count(g);
	g->leg.hooks->settled(g->leg.ctx, &g->leg);
}

static const struct h2_link_class leg_link = { begin, left, settled };

static enum status
ask(struct leg *leg, struct side **ret_s)
{
	struct leg_h2 *g = (struct leg_h2 *)(void *)leg;
	struct h2_side *e;

	count(g);
	if (leg->is_over)
		return ST_END;
	if (leg->is_full)
		return ST_AGAIN;
	e = h2_side_new(&g->link);
	if (e == NULL)
		return ST_NOMEM;
	count(g);
	*ret_s = &e->side;
	return ST_OK;
}

/* It says so before it goes: GOAWAY. */
static bool
is_quiet(struct leg *leg)
{
	return !leg->is_over;
}

static void
leg_h2_free(struct leg *leg)
{
	struct leg_h2 *g = (struct leg_h2 *)(void *)leg;

	leg->is_over = true;
	h2_link_done(&g->link);
	loop_io_clear(&leg->io);
	stream_done(&leg->stream);
	(void)close(leg->stream.fd);
	loop_defer(leg->flow->loop, free, g);
}

static const struct leg_class leg_h2_class = {
	.name = "h2",
	.ask = ask,
	.is_quiet = is_quiet,
	.free = leg_h2_free,
};

struct leg *
leg_h2_new(const struct leg_start *start)
{
	struct leg_h2 *g = calloc(1, sizeof *g);
	const struct h2_limits limits = {
		.head = start->flow->limits,
		.heads = HEADS_MAX,
		.streams = start->limits->streams,
		.window = start->limits->window,
		.connection = start->limits->connection,
		.wipes = start->flow->gather.wipes,
	};

	if (g == NULL)
		return NULL;
	g->leg = (struct leg){ .class = &leg_h2_class,
			       .flow = start->flow,
			       .hooks = start->hooks,
			       .limits = start->limits,
			       .ctx = start->ctx,
			       .is_https = start->is_https };
	g->link = (struct h2_link){ .class = &leg_link,
				    .flow = start->flow,
				    .stream = &g->leg.stream,
				    .io = &g->leg.io,
				    .is_https = start->is_https };
	loop_io_init(&g->leg.io, start->flow->loop, start->stream->fd, NULL, NULL);
	if (!h2_link_init(&g->link, &limits)) {
		free(g);
		return NULL;
	}
	stream_move(&g->leg.stream, start->stream);
	h2_link_wake(
		&g->link); /* the preface; with the first request if that is soon */
	return &g->leg;
}

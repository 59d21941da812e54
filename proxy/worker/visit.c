#include "proxy/worker/visit.h"

#include <stdlib.h>

#include "proxy/http/h2.h"
#include "proxy/worker/deny.h"
#include "proxy/worker/guest.h"
#include "proxy/worker/inlet.h"
#include "proxy/worker/login.h"
#include "proxy/worker/proxy_in.h"
#include "proxy/worker/turn.h"

static enum status
on_begin(void *ctx, struct side *s)
{
	return guest_is_wanted(ctx) ? guest_new(ctx, s, false) : turn_new(ctx, s);
}

/* On a proxy listener each request may as well be a CONNECT: that one is not ours. */
static enum status
on_divert(void *ctx, struct str in)
{
	struct visit *v = ctx;
	struct conn *c = v->c;
	struct str word = STR("CONNECT "), seen;
	CLEANUP(buf_done) struct buf copy = { 0 };

	/* As much as proxy_in needs to see, or it would come straight back. */
	if (!str_eq(str_head(in, word.n), str_head(word, in.n)))
		return ST_OK;
	buf_init(&copy, in.n);
	buf_put(&copy, in);
	if (buf_finish(&copy, &seen) != ST_OK)
		conn_close(c);
	else
		proxy_in_start(c, seen);
	return ST_END;
}

static void
on_over(void *ctx, bool is_reset)
{
	struct visit *v = ctx;

	if (is_reset)
		conn_reset(v->c);
	else
		conn_close(v->c);
}

static enum status
on_connect(void *ctx, struct side *s)
{
	return guest_is_wanted(ctx) ? guest_new(ctx, s, true) : inlet_new(ctx, s);
}

static void
on_waited(void *ctx, enum front_wait why)
{
	struct visit *v = ctx;
	struct stats *stats = v->c->w->role.stats;

	if (why == FRONT_WAIT_HEAD)
		stats_add(stats, STAT_TIMEOUT_HEAD, 1);
	/* A turn counts its own. */
	if (why == FRONT_WAIT_STALL && list_is_empty(&v->turns))
		stats_add(stats, STAT_TIMEOUT_STALLED, 1);
}

static const struct front_hooks hooks = {
	.begin = on_begin,
	.over = on_over,
	.waited = on_waited,
};

/* Of a proxy listener. */
static const struct front_hooks proxy_hooks = {
	.begin = on_begin,
	.divert = on_divert,
	.over = on_over,
	.connect = on_connect,
	.waited = on_waited,
};

/* Called for each turn; it may end itself. */
static void
each_turn(struct visit *v, void (*fn)(struct turn *t))
{
	list_each_safe (it, &v->turns)
		fn(turn_of_link(it));
}

static void
visit_done(struct conn *c)
{
	struct visit *v = c->state;

	login_cancel(v->login);
	each_turn(v, turn_cut);
	list_each_safe (it, &v->guests)
		guest_cut(guest_of_link(it));
	list_each_safe (it, &v->inlets)
		inlet_cut(inlet_of_link(it));
	front_free(v->front);
	stream_done(&v->stream);
	loop_defer(c->w->loop, free, v);
}

static void
visit_judge(struct conn *c)
{
	struct visit *v = c->state;

	if (!conn_is_same_sandbox(c))
		conn_close(c);
	else
		each_turn(v, turn_judge);
}

static void
visit_drain(struct conn *c)
{
	struct visit *v = c->state;

	front_drain(v->front);
}

static void
visit_tick(struct conn *c)
{
	struct visit *v = c->state;

	guest_tick(v);
	front_tick(v->front);
	if (!c->is_closed)
		each_turn(v, turn_tick);
}

static void
visit_resume(struct conn *c)
{
	each_turn(c->state, turn_resume);
}

static const struct conn_owner visit_owner = {
	.name = "visit",
	.judge = visit_judge,
	.drain = visit_drain,
	.tick = visit_tick,
	.done = visit_done,
	.resume = visit_resume,
};

/* A client that agreed on nothing speaks HTTP/1.1; in the clear its first word tells. */
static struct front *
front_of(const struct front_start *start, struct str seen)
{
	bool is_h2 = stream_is_tls(start->stream)
			     ? str_eq(stream_alpn(start->stream), STR("h2"))
			     : str_starts(seen, STR(H2_PREFACE));

	return is_h2 ? front_h2_new(start) : front_h1_new(start);
}

/* s: set up, and moved away; NULL: a plain one is made. */
static void
begin(struct conn *c, struct stream *s, struct str seen)
{
	struct visit *v = calloc(1, sizeof *v);
	struct front_start start = { .flow = &c->w->flow,
				     .io = &c->io,
				     .hooks = c->way == CONN_PROXY ? &proxy_hooks
								   : &hooks,
				     .limits = &c->w->front_limits,
				     .ctx = v,
				     .is_https = s != NULL && c->way != CONN_PROXY };

	if (v == NULL) {
		deny_because(c, ST_NOMEM);
		return;
	}
	v->c = c;
	list_init(&v->turns);
	list_init(&v->inlets);
	list_init(&v->guests);
	if (s != NULL)
		stream_move(&v->stream, s);
	else
		stream_plain(&v->stream, c->io.fd);
	start.stream = &v->stream;
	conn_take(c, &visit_owner, v, c->io.fn);
	v->front = front_of(&start, seen); /* takes the events over */
	if (v->front == NULL)
		deny_because(c, ST_NOMEM);
	else
		front_go(v->front, seen);
}

void
visit_start(struct conn *c, struct str seen)
{
	c->form = FORM_HTTP;
	begin(c, NULL, seen);
}

void
visit_start_stream(struct conn *c, struct stream *s)
{
	c->form = FORM_CLOSE; /* plain words would break the records */
	begin(c, s, (struct str){ 0 });
}

#include "proxy/worker/veil.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/worker/deny.h"
#include "proxy/worker/proxy_in.h"

struct veil_way {
	struct stream *from;
	struct out out;
	bool is_whole; /* the end was read */
	bool is_shut;  /* and told, or nobody is there to hear it */
};

struct veil {
	struct conn *c, *inner; /* inner NULL: it is no more */
	struct stream tls, near;
	struct loop_io near_io;
	struct veil_way up, down; /* to the far end, to the client */
	bool is_broken;           /* the inner one ended with a reset */
	bool is_over;
};

static uint64_t
now(const struct veil *v)
{
	return loop_now_ms(v->c->w->loop);
}

static void
veil_done(struct conn *c)
{
	struct veil *v = c->state;
	struct gather *g = &c->w->flow.gather;

	v->is_over = true;
	if (v->inner != NULL)
		v->inner->ended = NULL;
	loop_io_clear(&v->near_io);
	out_done(&v->up.out, g);
	out_done(&v->down.out, g);
	stream_done(&v->tls);
	stream_done(&v->near);
	(void)close(v->near.fd);
	loop_defer(c->w->loop, free, v);
}

static void
veil_nothing(struct conn *c)
{
	(void)c; /* what is inside is judged, and ends, by itself */
}

/* A client that takes nothing more of a connection that is over. */
static void
veil_tick(struct conn *c)
{
	const struct veil *v = c->state;
	uint64_t since = v->down.out.blocked_ms;

	if (v->is_broken || (v->inner == NULL && since != 0 &&
			     now(v) - since > worker_option(c->w, OPT_STALLED_TIMEOUT)))
		conn_reset(c);
}

static const struct conn_owner veil_owner = {
	.name = "veil",
	.judge = veil_nothing,
	.drain = veil_nothing,
	.tick = veil_tick,
	.done = veil_done,
};

/* Not from inside: the near end tells the rest. */
static void
on_inner_ended(void *ctx, bool is_reset)
{
	struct veil *v = ctx;

	v->inner = NULL;
	v->is_broken = is_reset;
}

static void
arm(struct veil *v)
{
	unsigned tls = 0, near = 0;

	if (!v->up.is_whole && !v->up.is_shut && !out_is_blocked(&v->up.out))
		tls |= LOOP_READ;
	if (!v->down.is_whole && !out_is_blocked(&v->down.out))
		near |= LOOP_READ;
	if (out_is_blocked(&v->down.out))
		tls |= LOOP_WRITE;
	if (out_is_blocked(&v->up.out))
		near |= LOOP_WRITE;
	stream_arm(&v->tls, &v->c->io, tls);
	stream_arm(&v->near, &v->near_io, near);
}

/* What was read has gone on: the end may. */
static void
end_way(struct veil_way *way)
{
	if (!way->is_whole || way->is_shut || out_is_blocked(&way->out))
		return;
	way->is_shut = true;
	(void)!stream_shutdown(way->out.to);
}

static void
settle(struct veil *v)
{
	if (v->is_broken && v->down.is_whole) {
		conn_reset(v->c);
		return;
	}
	end_way(&v->up);
	end_way(&v->down);
	/* Who is inside may read on when it has said all; when it is gone nobody does. */
	bool is_heard = v->inner != NULL && !v->up.is_shut;
	if (v->down.is_shut && !is_heard && !stream_is_blocked(&v->tls))
		conn_close(v->c);
	else
		arm(v);
}

/* False: the sender broke off. */
static bool
carry(struct veil *v, struct veil_way *way)
{
	struct flow *flow = &v->c->w->flow;
	size_t n = 0;
	enum status st = stream_read(way->from, flow->space, flow->space_n, &n);

	if (st == ST_AGAIN)
		return true;
	way->is_whole = st != ST_OK;
	if (st != ST_OK)
		return st == ST_END;
	gather_begin(&flow->gather, &way->out);
	gather_view(&flow->gather, str_of(flow->space, n));
	st = gather_end(&flow->gather, &way->out, now(v));
	if (st != ST_OK && st != ST_AGAIN)
		way->is_shut = true; /* the receiver is gone */
	return true;
}

static bool
may_read(const struct veil_way *way)
{
	return !way->is_whole && !way->is_shut && !out_is_blocked(&way->out);
}

static void
on_tls(void *ctx, unsigned events)
{
	struct veil *v = ctx;

	if ((events & LOOP_WRITE) != 0)
		(void)!out_resume(&v->down.out, now(v));
	if (v->down.out.st != ST_OK ||
	    ((events & LOOP_READ) != 0 && may_read(&v->up) && !carry(v, &v->up)))
		conn_close(v->c); /* so the far end breaks off as well */
	else
		settle(v);
}

static void
on_near(void *ctx, unsigned events)
{
	struct veil *v = ctx;

	if ((events & LOOP_WRITE) != 0 && out_resume(&v->up.out, now(v)) != ST_OK &&
	    v->up.out.st != ST_OK)
		v->up.is_shut = true;
	if ((events & LOOP_READ) != 0 && may_read(&v->down) && !carry(v, &v->down))
		v->is_broken = true;
	if (v->down.out.st != ST_OK)
		conn_close(v->c);
	else
		settle(v);
}

/* The pair, and a conn at its far end. */
static enum status
make_inner(struct veil *v)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) <
	    0)
		return ST_NO_FILES;
	stream_plain(&v->near, pair[0]);
	out_init(&v->up.out, &v->near);
	loop_io_init(&v->near_io, v->c->w->loop, pair[0], on_near, v);
	enum status st = conn_inside(v->c, pair[1], &v->inner);
	if (st == ST_OK) {
		v->inner->ended = on_inner_ended;
		v->inner->ended_ctx = v;
	}
	return st;
}

void
veil_start(struct conn *c, struct stream *s)
{
	struct veil *v = calloc(1, sizeof *v);
	enum status st = ST_NOMEM;

	if (v == NULL) {
		deny_because(c, st);
		return;
	}
	v->c = c;
	stream_plain(&v->near, -1);
	stream_move(&v->tls, s);
	v->up.from = &v->tls;
	v->down.from = &v->near;
	out_init(&v->up.out, &v->near);
	out_init(&v->down.out, &v->tls);
	conn_take(c, &veil_owner, v, c->io.fn);
	c->io.fn = on_tls;
	c->io.ctx = v;
	st = make_inner(v);
	if (st != ST_OK) {
		deny_because(c, st);
		return;
	}
	arm(v);
	proxy_in_start(v->inner, (struct str){ 0 });
}

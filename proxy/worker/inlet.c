#include "proxy/worker/inlet.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/io/synth.h"
#include "proxy/worker/deny.h"
#include "proxy/worker/login.h"
#include "proxy/worker/peek.h"
#include "proxy/worker/proxy_in.h"

enum { PAGES_PORT = 80, ARENA_MAX = 65536 };

struct inlet {
	struct list link; /* visit->inlets */
	struct visit *v;
	struct side *front;
	struct conn *far;   /* NULL: not yet, or no more */
	struct stream near; /* fd -1: not yet, or not any more */
	struct loop_io io;
	struct out out; /* to the near end */
	struct arena arena;
	struct head reply;
	bool is_over;      /* the stream is no more ours */
	bool is_broken;    /* the far one ended with a reset */
	bool up_is_whole;  /* the stream said its last */
	bool up_is_shut;   /* and the near end was told */
	bool down_is_over; /* the near end said its last, and the stream was told */
};

static struct flow *
flow_of(const struct inlet *n)
{
	return &n->v->c->w->flow;
}

static uint64_t
now(const struct inlet *n)
{
	return loop_now_ms(n->v->c->w->loop);
}

struct inlet *
inlet_of_link(struct list *link)
{
	return LIST_OF(link, struct inlet, link);
}

static void
close_near(struct inlet *n)
{
	if (n->near.fd < 0)
		return;
	loop_io_clear(&n->io);
	out_done(&n->out, &flow_of(n)->gather);
	stream_done(&n->near);
	(void)close(n->near.fd);
	n->near.fd = -1;
}

void
inlet_cut(struct inlet *n)
{
	if (n->is_over)
		return;
	n->is_over = true;
	if (n->far != NULL)
		n->far->ended = NULL;
	close_near(n);
	list_remove(&n->link);
	arena_done(&n->arena);
	loop_defer(n->v->c->w->loop, free, n);
}

static void
finish(struct inlet *n)
{
	struct side *front = n->front;

	if (n->is_over)
		return;
	inlet_cut(n);
	side_done(front);
}

static void
fail(struct inlet *n, enum status why)
{
	struct side *front = n->front;

	if (n->is_over)
		return;
	inlet_cut(n);
	side_abort(front, why);
}

static void
arm(struct inlet *n)
{
	unsigned events = 0;

	if (n->near.fd < 0)
		return;
	if (!n->down_is_over && !n->front->is_blocked)
		events |= LOOP_READ;
	if (out_is_blocked(&n->out))
		events |= LOOP_WRITE;
	stream_arm(&n->near, &n->io, events);
}

/* What both ends are told, and whether that was all. */
static void
settle(struct inlet *n)
{
	if (n->up_is_whole && !n->up_is_shut && !out_is_blocked(&n->out)) {
		n->up_is_shut = true;
		(void)!stream_shutdown(&n->near);
	}
	if (n->up_is_shut && n->down_is_over)
		finish(n);
	else
		arm(n);
}

/* -- the near end -- */

/* Not from inside: the near end tells the rest. */
static void
on_far_ended(void *ctx, bool is_reset)
{
	struct inlet *n = ctx;

	n->far = NULL;
	n->is_broken = is_reset;
}

static void
read_on(struct inlet *n)
{
	struct flow *flow = flow_of(n);
	size_t k = 0;
	enum status st = stream_read(&n->near, flow->space, flow->space_n, &k);

	if (st == ST_AGAIN)
		return;
	if (st == ST_OK) {
		side_put_body(n->front, str_of(flow->space, k));
	} else if (st == ST_END && !n->is_broken) {
		n->down_is_over = true;
		side_put_end(n->front, &n->reply, NULL);
	} else {
		fail(n, ST_UPSTREAM_CLOSED);
		return;
	}
	st = side_flush(n->front);
	if (st != ST_OK && st != ST_AGAIN)
		fail(n, ST_CLIENT_GONE);
}

static void
take(struct inlet *n)
{
	enum status st;

	do {
		st = gather_end(&flow_of(n)->gather, &n->out, now(n));
		side_want(n->front, st == ST_OK);
	} while (st == ST_OK && side_deliver(n->front));
	/* A near end that takes nothing more may still have something to say. */
	if (st != ST_OK && st != ST_AGAIN)
		n->up_is_shut = true;
}

static void
on_near(void *ctx, unsigned events)
{
	struct inlet *n = ctx;

	if ((events & LOOP_WRITE) != 0 && out_resume(&n->out, now(n)) == ST_OK)
		take(n);
	if ((events & LOOP_READ) != 0 && !n->down_is_over && !n->front->is_blocked)
		read_on(n);
	if (!n->is_over)
		settle(n);
}

/* -- the stream -- */

static enum status
judge(const struct dest *d, struct exchange *x)
{
	bool is_own =
		d->port == PAGES_PORT && str_eq(dest_name(d), STR(SYNTH_PAGES_NAME));

	x->way = WAY_ANY;
	x->dest = d;
	if (is_own || exchange_run(x, PHASE_HELLO) == VERDICT_NEXT)
		return ST_OK;
	return x->reason != ST_OK ? x->reason : ST_FILTER_FAILED;
}

static void
refuse(struct inlet *n, struct exchange *x, enum status why)
{
	struct conn *c = n->v->c;
	struct side *front = n->front;

	x->reason = why;
	inlet_cut(n);
	deny_side(c, front, x);
}

/* The pair, and a conn at its far end. */
static enum status
branch(struct inlet *n, const struct dest *d, struct conn **ret_c)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) <
	    0)
		return ST_NO_FILES;
	enum status st = conn_branch(n->v->c, pair[1], d, ret_c);
	if (st != ST_OK) {
		(void)close(pair[0]);
		return st;
	}
	stream_plain(&n->near, pair[0]);
	out_init(&n->out, &n->near);
	loop_io_init(&n->io, n->v->c->w->loop, pair[0], on_near, n);
	n->far = *ret_c;
	n->far->ended = on_far_ended;
	n->far->ended_ctx = n;
	return ST_OK;
}

static void
go(struct inlet *n, struct conn *far)
{
	struct side_msg m = { .head = &n->reply };

	n->reply.status = 200;
	n->reply.body = BODY_TUNNEL;
	side_put_head(n->front, &m);
	(void)!side_flush(n->front);
	side_want(n->front, true);
	arm(n);
	peek_start(far, (struct str){ 0 });
}

static void
on_head(void *ctx, struct side_msg *m)
{
	struct inlet *n = ctx;
	struct conn *c = n->v->c, *far = NULL;
	struct exchange x;
	struct dest d = { 0 };

	head_init(&n->reply, &n->arena);
	conn_exchange(c, &x);
	x.method = m->head->method;
	enum status st = login_check(c, m->head);
	if (st == ST_OK)
		st = proxy_connect_dest(m->head, &d);
	if (st == ST_OK)
		st = judge(&d, &x);
	if (st == ST_OK)
		st = branch(n, &d, &far);
	if (st == ST_OK)
		go(n, far);
	else
		refuse(n, &x, st);
	exchange_done(&x);
}

static void
on_body(void *ctx, struct str view)
{
	struct inlet *n = ctx;

	if (n->up_is_shut)
		return;
	gather_begin(&flow_of(n)->gather, &n->out);
	gather_view(&flow_of(n)->gather, view);
}

static void
on_end(void *ctx, const struct head *trailers)
{
	struct inlet *n = ctx;

	(void)trailers;
	n->up_is_whole = true;
}

static void
on_room(void *ctx)
{
	(void)ctx; /* batch does it */
}

static void
on_batch(void *ctx)
{
	struct inlet *n = ctx;

	if (n->is_over || n->near.fd < 0)
		return;
	take(n);
	settle(n);
}

static void
on_bad(void *ctx, enum status why)
{
	struct inlet *n = ctx;
	struct exchange x;

	conn_exchange(n->v->c, &x);
	refuse(n, &x, why);
	exchange_done(&x);
}

static void
on_gone(void *ctx, enum status why)
{
	fail(ctx, why);
}

enum status
inlet_new(struct visit *v, struct side *s)
{
	static const struct side_events events = { on_head,  on_body, on_end, on_room,
						   on_batch, on_bad,  on_gone };
	struct inlet *n = calloc(1, sizeof *n);

	if (n == NULL)
		return ST_NOMEM;
	n->v = v;
	n->front = s;
	n->near.fd = -1;
	arena_init(&n->arena, ARENA_MAX);
	list_append(&v->inlets, &n->link);
	s->events = &events;
	s->ctx = n;
	return ST_OK;
}

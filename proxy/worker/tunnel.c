#include "proxy/worker/tunnel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/worker/deny.h"
#include "proxy/worker/dial.h"
#include "proxy/worker/person.h"
#include "proxy/worker/proxy_in.h"
#include "proxy/worker/pump.h"

struct tunnel {
	struct conn *c;
	struct exchange x;
	struct dial *dial; /* NULL once answered */
	char *held;        /* the sandbox's first bytes until upstream is there */
	size_t held_n;
	struct pump pump;
	struct loop_io host; /* host.loop NULL: no upstream yet */
	uint64_t rowed_ms;   /* when the last row was written */
	uint64_t rowed_bytes;
};

bool
tunnel_ask_tcp(const struct conn *c, struct policy_answer *ret_a)
{
	struct policy_question q = { .dest = &c->dest, .way = WAY_TCP };
	const struct who *who = conn_who(c);

	if (who == NULL)
		return false;
	q.may = who->may;
	policy_judge(c->w->role.image, &q, ret_a);
	return true;
}

bool
tunnel_is_tcp(const struct conn *c)
{
	struct policy_answer a;

	return !c->is_own && tunnel_ask_tcp(c, &a) && a.action == ACTION_TCP &&
	       !a.observed;
}

static void
tunnel_drop_held(struct tunnel *t)
{
	free(t->held);
	t->held = NULL;
	t->held_n = 0;
}

static void
tunnel_done(struct conn *c)
{
	struct tunnel *t = c->state;
	struct worker *w = c->w;

	dial_cancel(t->dial);
	t->dial = NULL;
	if (t->x.reason == ST_OK && t->host.loop != NULL && !t->pump.is_over)
		t->x.reason = ST_CLIENT_GONE; /* closed by none of the two */
	exchange_done(&t->x);
	if (t->host.loop != NULL) {
		loop_io_clear(&t->host);
		(void)close(t->host.fd);
		pump_done(&t->pump);
		stats_add(w->role.stats, STAT_TUNNELS_OPEN, -1);
	}
	tunnel_drop_held(t);
	loop_defer(w->loop, free, t);
}

static void
tunnel_refuse(struct tunnel *t, enum status reason)
{
	t->x.reason = reason;
	deny(t->c, &t->x);
}

/* The newest policy is asked the same question again.  What it wants to look into is no
 * tunnel any more, and there is no way to begin with that now. */
static void
tunnel_judge(struct conn *c)
{
	struct tunnel *t = c->state;

	conn_refresh(c, &t->x);
	/* It is judged again when it was dialled.  The rule was one of the old policy. */
	if (t->x.is_held && conn_is_same_sandbox(c)) {
		t->x.rule = RULE_NONE;
		return;
	}
	if (t->x.is_held || !conn_is_same_sandbox(c) ||
	    exchange_run(&t->x, PHASE_HELLO) != VERDICT_NEXT ||
	    (t->x.action != ACTION_TUNNEL && t->x.action != ACTION_TCP))
		tunnel_refuse(t, ST_RELOADED);
}

static void
tunnel_drain(struct conn *c)
{
	(void)c; /* a tunnel may finish until the deadline */
}

static void
tunnel_end(void *ctx, enum status why)
{
	struct tunnel *t = ctx;
	struct stats *stats = t->c->w->role.stats;

	if (why == ST_TIMEOUT) {
		bool is_stalled =
			t->pump.client.stalled_ms != 0 || t->pump.host.stalled_ms != 0;

		stats_add(stats, is_stalled ? STAT_TIMEOUT_STALLED : STAT_TIMEOUT_IDLE,
			  1);
	}
	if (why == ST_LIMIT_BYTES)
		stats_add(stats, STAT_LIMIT_BYTES, 1);
	if (why != ST_END)
		t->x.reason = why;
	conn_close(t->c);
}

static enum status
tunnel_count(void *ctx, uint64_t up, uint64_t down)
{
	struct tunnel *t = ctx;

	t->x.bytes_up += up;
	t->x.bytes_down += down;
	return conn_count(t->c, up, down);
}

static const struct pump_hooks tunnel_hooks = { .end = tunnel_end,
						.count = tunnel_count };

/* A running tunnel tells how far it is, if anything moved. */
static enum status
tunnel_row(struct tunnel *t)
{
	uint64_t now = loop_now_ms(t->c->w->loop),
		 bytes = t->x.bytes_up + t->x.bytes_down;

	if (bytes == t->rowed_bytes ||
	    now - t->rowed_ms < worker_option(t->c->w, OPT_LEDGER_PERIOD))
		return ST_OK;
	t->rowed_ms = now;
	t->rowed_bytes = bytes;
	return conn_row(t->c, &t->x, ROW_TUNNEL_PERIODIC);
}

static void
tunnel_tick(struct conn *c)
{
	struct tunnel *t = c->state;
	enum status st;

	if (person_is_asked(&t->x) && conn_is_gone(c)) {
		tunnel_end(t, ST_CLIENT_GONE);
		return;
	}
	if (t->host.loop == NULL || t->pump.is_over)
		return;
	st = tunnel_row(t);
	if (st != ST_OK)
		tunnel_end(t, st);
	else
		pump_tick(&t->pump, worker_option(c->w, OPT_TUNNEL_IDLE_TIMEOUT),
			  worker_option(c->w, OPT_STALLED_TIMEOUT));
}

static void tunnel_resume(struct conn *c);

static const struct conn_owner tunnel_owner = {
	.name = "tunnel",
	.judge = tunnel_judge,
	.drain = tunnel_drain,
	.tick = tunnel_tick,
	.done = tunnel_done,
	.resume = tunnel_resume,
};

/* The sandbox sends while upstream is still being dialled: it stays in the kernel. */
static void
on_early(void *ctx, unsigned events)
{
	struct conn *c = ctx;

	(void)events;
	loop_io_want(&c->io, 0);
}

/* Both ends exist and the start is recorded. */
static void
tunnel_carry(struct tunnel *t, int host_fd, struct str for_host, struct str for_client)
{
	struct conn *c = t->c;
	struct worker *w = c->w;
	unsigned stalled = (unsigned)worker_option(w, OPT_STALLED_TIMEOUT);

	c->form = FORM_CLOSE; /* from here on only the peers speak */
	t->rowed_ms = loop_now_ms(w->loop);
	stats_add(w->role.stats, STAT_TUNNELS, 1);
	stats_add(w->role.stats, STAT_TUNNELS_OPEN, 1);
	t->pump = (struct pump){ .loop = w->loop,
				 .space = w->space,
				 .space_n = WORKER_SPACE,
				 .hooks = &tunnel_hooks,
				 .ctx = t,
				 .check = t->x.way == WAY_TLS ? PUMP_TLS : PUMP_ANY };
	/* The sandbox's socket has it from its listener. */
	(void)setsockopt(host_fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &stalled,
			 sizeof(stalled));
	loop_io_init(&t->host, w->loop, host_fd, NULL, NULL);
	pump_start(&t->pump, &c->io, &t->host, for_host, for_client);
}

static void
on_dialled(void *ctx, const struct dial_result *r)
{
	struct tunnel *t = ctx;
	struct buf welcome;

	t->dial = NULL;
	dial_note(r, &t->x);
	if (r->st != ST_OK) {
		tunnel_refuse(t, r->st);
		return;
	}
	conn_refresh(t->c, &t->x);
	if (exchange_run(&t->x, PHASE_OPEN) != VERDICT_NEXT) {
		(void)close(r->fd);
		deny(t->c, &t->x);
		return;
	}
	buf_init(&welcome, 256);
	proxy_in_put_welcome(&welcome, t->c);
	/* A budget that these few bytes use up ends the tunnel with its first read. */
	t->x.bytes_up = t->held_n;
	(void)!conn_count(t->c, t->held_n, 0);
	tunnel_carry(t, r->fd, str_of(t->held, t->held_n),
		     str_of(welcome.p, welcome.len));
	buf_done(&welcome);
	tunnel_drop_held(t);
}

static struct tunnel *
tunnel_new(struct conn *c, const struct exchange *x, struct str seen)
{
	struct tunnel *t = calloc(1, sizeof(*t));
	char *copy = seen.n > 0 ? malloc(seen.n) : NULL;

	if (t == NULL || (seen.n > 0 && copy == NULL)) {
		free(t);
		free(copy);
		return NULL;
	}
	if (seen.n > 0)
		memcpy(copy, seen.p, seen.n);
	t->c = c;
	t->x = *x;
	t->x.dest = &c->dest;
	/* `sandgate learn` must know it from a name that was only tunnelled. */
	t->x.detail = x->way == WAY_TCP ? STR("tcp") : (struct str){ 0 };
	t->held = copy;
	t->held_n = seen.n;
	conn_take(c, &tunnel_owner, t, on_early);
	return t;
}

static void
tunnel_went(struct tunnel *t, enum verdict v)
{
	enum status st;

	if (v == VERDICT_HOLD)
		return;
	if (v != VERDICT_NEXT) {
		deny(t->c, &t->x);
		return;
	}
	st = dial_start(t->c, &t->c->dest, t->x.way, on_dialled, t, &t->dial);
	if (st != ST_OK)
		tunnel_refuse(t, st);
}

static void
tunnel_resume(struct conn *c)
{
	struct tunnel *t = c->state;

	if (!t->x.is_held || !t->x.is_resumed)
		return;
	conn_refresh(c, &t->x);
	tunnel_went(t, exchange_resume(&t->x, PHASE_DIAL));
}

void
tunnel_start(struct conn *c, const struct exchange *x, struct str seen)
{
	struct tunnel *t = tunnel_new(c, x, seen);

	if (t == NULL)
		deny_because(c, ST_NOMEM);
	else
		tunnel_went(t, exchange_run(&t->x, PHASE_DIAL));
}

#include "proxy/worker/turn.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "proxy/worker/deny.h"
#include "proxy/worker/turn_in.h"

static const struct conn_owner owner;

static uint64_t
now(const struct turn *t)
{
	return loop_now_ms(t->c->w->loop);
}

void
turn_to(struct turn *t, enum turn_state s)
{
	static const unsigned legal[] = {
		[TURN_IDLE] = 1u << TURN_HEAD | 1u << TURN_LINGER,
		[TURN_HEAD] = 1u << TURN_OPEN | 1u << TURN_FLUSH | 1u << TURN_FORWARD,
		[TURN_OPEN] = 1u << TURN_FORWARD | 1u << TURN_FLUSH | 1u << TURN_OPEN,
		[TURN_FORWARD] = 1u << TURN_FLUSH | 1u << TURN_OPEN,
		[TURN_FLUSH] = 1u << TURN_IDLE | 1u << TURN_LINGER,
		[TURN_LINGER] = 0,
		[TURN_OVER] = 0,
	};

	need(s == TURN_OVER || (legal[t->state] & 1u << s) != 0);
	t->state = s;
	t->since_ms = now(t);
}

static size_t
take(struct turn *t, struct str in)
{
	switch (t->state) {
	case TURN_IDLE:
	case TURN_HEAD:
		return turn_take_head(t, in);
	case TURN_FORWARD:
		return turn_take_body(t, in);
	case TURN_LINGER:
		t->dropped += in.n;
		if (t->dropped > worker_option(t->c->w, OPT_LIMIT_DENIED_DRAIN))
			conn_close(t->c);
		return in.n;
	case TURN_OPEN:
	case TURN_FLUSH:
	case TURN_OVER:
		break;
	}
	return 0;
}

/* Returns how much was taken. */
static size_t
feed(struct turn *t, struct str in)
{
	size_t used = 0, k = 1;

	while (used < in.n && k > 0 && t->state != TURN_OVER) {
		k = take(t, str_skip(in, used));
		used += k;
	}
	return used;
}

/* What the client may send now, and what of the host is wanted. */
static void
want(struct turn *t)
{
	bool reads = !t->is_eof && ring_is_empty(&t->ahead) && t->state != TURN_FLUSH &&
		     !(t->leg != NULL && out_is_blocked(&t->leg->out));
	unsigned client =
		(reads ? LOOP_READ : 0u) | (out_is_blocked(&t->out) ? LOOP_WRITE : 0u);

	loop_io_want(&t->c->io, client);
	if (t->leg == NULL)
		return;
	bool replies = t->state == TURN_FORWARD && !out_is_blocked(&t->out) &&
		       !t->leg->is_eof && !turn_reply_waits(t);
	loop_io_want(&t->leg->io,
		     (replies ? LOOP_READ : 0u) |
			     (out_is_blocked(&t->leg->out) ? LOOP_WRITE : 0u));
}

/* A client that has said its last word and waits for nothing is done; so is one whose
 * request can't become whole any more, also when it left while the host was dialled. */
static bool
is_left(const struct turn *t)
{
	if (!t->is_eof || !ring_is_empty(&t->ahead))
		return false;
	if (t->state == TURN_OPEN || t->state == TURN_FORWARD)
		return !h1_body_is_over(&t->body);
	return t->state == TURN_IDLE || t->state == TURN_HEAD ||
	       t->state == TURN_LINGER;
}

void
turn_settle(struct turn *t)
{
	size_t used = 1;

	turn_feed_behind(t);
	while (t->state != TURN_OVER && used > 0 && !ring_is_empty(&t->ahead)) {
		used = feed(t, ring_linear(&t->ahead));
		if (t->state != TURN_OVER) {
			ring_consume(&t->ahead, used);
			ring_trim(&t->ahead);
		}
	}
	if (is_left(t)) {
		turn_end_exchange(t, ST_CLIENT_GONE);
		conn_close(t->c);
	}
	if (t->state != TURN_OVER)
		want(t);
}

/* The kernel watches timeouts.stalled as well, and may be the first to see it. */
static void
client_gone(struct turn *t, int error)
{
	if (error == ETIMEDOUT)
		stats_add(t->c->w->role.stats, STAT_TIMEOUT_STALLED, 1);
	turn_end_exchange(t, error == ETIMEDOUT ? ST_TIMEOUT : ST_CLIENT_GONE);
	conn_close(t->c);
}

static void
read_client(struct turn *t)
{
	struct worker *w = t->c->w;
	ssize_t n = read(t->c->io.fd, w->space, WORKER_SPACE);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		client_gone(t, errno);
		return;
	}
	if (n == 0) {
		t->is_eof = true;
		return;
	}
	struct str in = str_of(w->space, (size_t)n);
	struct str rest = str_skip(in, feed(t, in));
	if (t->state == TURN_OVER || rest.n == 0)
		return;
	if (ring_write(&t->ahead, rest) != rest.n)
		conn_close(t->c); /* no memory for what it sent ahead */
}

static void
write_client(struct turn *t)
{
	enum status st = out_resume(&t->out, now(t));

	if (st == ST_END)
		client_gone(t, errno);
	else if (st == ST_OK && t->state == TURN_FLUSH)
		turn_next(t);
}

static void
on_client(void *ctx, unsigned events)
{
	struct conn *c = ctx;
	struct turn *t = c->state;

	if ((events & LOOP_WRITE) != 0)
		write_client(t);
	if ((events & LOOP_READ) != 0 && t->state != TURN_OVER)
		read_client(t);
	if (t->state != TURN_OVER)
		turn_settle(t);
}

void
turn_start(struct conn *c, struct str seen)
{
	struct turn *t = calloc(1, sizeof *t);

	if (t == NULL) {
		deny_because(c, ST_NOMEM);
		return;
	}
	t->c = c;
	c->form = FORM_HTTP;
	arena_init(&t->arena, TURN_ARENA_MAX);
	arena_init(&t->reply, TURN_ARENA_MAX);
	/* What was seen may be the beginning of a head and a whole read behind it. */
	ring_init(&t->ahead, num_max(seen.n, WORKER_SPACE));
	ring_init(&t->behind, WORKER_SPACE);
	ring_init(&t->up.held, TURN_SIEVE_MAX);
	ring_init(&t->down.held, TURN_SIEVE_MAX);
	t->needs = exchange_needs();
	out_init(&t->out, c->io.fd);
	buf_init(&t->scratch, TURN_SCRATCH_MAX);
	t->since_ms = now(t);
	conn_take(c, &owner, t, on_client);
	if (ring_write(&t->ahead, seen) != seen.n) {
		deny_because(c, ST_NOMEM);
		return;
	}
	turn_settle(t);
}

static void
done(struct conn *c)
{
	struct turn *t = c->state;

	if (t->state == TURN_OVER)
		return;
	turn_end_exchange(t, ST_CLIENT_GONE);
	turn_to(t, TURN_OVER);
	dial_cancel(t->dial);
	if (t->ask_seq != 0 && c->w->ledger != NULL)
		ask_cancel(c->w->ledger, t->ask_seq);
	turn_drop_leg(t);
	h1_read_done(&t->reader);
	h1_body_done(&t->body);
	ring_done(&t->ahead);
	turn_sieve_done(t);
	out_done(&t->out);
	buf_done(&t->scratch);
	arena_done(&t->arena);
	arena_done(&t->reply);
	c->state = NULL;
	loop_defer(c->w->loop, free, t); /* its own callbacks may be running */
}

/* The next request is judged anew anyway; one that runs may finish. */
static void
judge(struct conn *c)
{
	struct turn *t = c->state;

	if (!conn_is_same_sandbox(c))
		conn_close(c);
	else
		t->x.rule = RULE_NONE; /* it counts the rules of the old policy */
}

static void
drain(struct conn *c)
{
	struct turn *t = c->state;

	t->is_last = true;
	if (t->state == TURN_IDLE)
		conn_close(c);
}

static void
timed_out(struct turn *t, enum counter which, enum status why)
{
	stats_add(t->c->w->role.stats, which, 1);
	if (t->state == TURN_HEAD)
		turn_describe(t);
	turn_refuse(t, why);
	if (t->state != TURN_OVER)
		turn_settle(t);
}

static void
tick_forward(struct turn *t, uint64_t waited)
{
	const struct worker *w = t->c->w;

	if (t->x.is_held || t->up.waits || t->down.waits)
		return; /* how long a filter may think is its own affair */
	if (t->leg == NULL || out_is_blocked(&t->out) || out_is_blocked(&t->leg->out))
		return; /* stalled peers have a clock of their own */
	if (!turn_request_is_over(t)) {
		if (waited > worker_option(w, OPT_RESPONSE_IDLE_TIMEOUT))
			timed_out(t, STAT_TIMEOUT_IDLE, ST_TIMEOUT);
	} else if (!t->leg->head_seen) {
		if (waited > worker_option(w, OPT_RESPONSE_HEAD_TIMEOUT))
			timed_out(t, STAT_TIMEOUT_RESPONSE, ST_UPSTREAM_TIMEOUT);
	} else if (waited > worker_option(w, OPT_RESPONSE_IDLE_TIMEOUT)) {
		timed_out(t, STAT_TIMEOUT_RESPONSE, ST_UPSTREAM_TIMEOUT);
	}
}

static bool
is_stalled(const struct out *o, uint64_t at, uint64_t limit)
{
	return out_is_blocked(o) && o->blocked_ms != 0 && at - o->blocked_ms > limit;
}

enum { LINGER_MS = 5000 };

/* How long a connection without a request may stay. */
static uint64_t
quiet_limit(const struct turn *t)
{
	if (t->state == TURN_IDLE)
		return worker_option(t->c->w, OPT_KEEPALIVE_TIMEOUT);
	return t->state == TURN_LINGER ? LINGER_MS : UINT64_MAX;
}

static void
tick(struct conn *c)
{
	struct turn *t = c->state;
	uint64_t at = now(t), waited = at - t->since_ms;
	uint64_t stalled = worker_option(c->w, OPT_STALLED_TIMEOUT);

	if (is_stalled(&t->out, at, stalled)) {
		stats_add(c->w->role.stats, STAT_TIMEOUT_STALLED, 1);
		turn_end_exchange(t, ST_TIMEOUT);
		conn_reset(c);
	} else if (t->leg != NULL && is_stalled(&t->leg->out, at, stalled))
		timed_out(t, STAT_TIMEOUT_STALLED, ST_UPSTREAM_TIMEOUT);
	else if (t->state == TURN_HEAD &&
		 at - t->begun_ms > worker_option(c->w, OPT_REQUEST_HEAD_TIMEOUT))
		timed_out(t, STAT_TIMEOUT_HEAD, ST_TIMEOUT);
	else if (t->state == TURN_FORWARD)
		tick_forward(t, waited);
	else if (waited > quiet_limit(t))
		conn_close(c);
}

static const struct conn_owner owner = {
	.name = "turn",
	.judge = judge,
	.drain = drain,
	.tick = tick,
	.done = done,
	.resume = turn_resume,
};

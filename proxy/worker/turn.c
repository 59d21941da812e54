#include <stdlib.h>

#include "proxy/base/num.h"
#include "proxy/io/ask.h"
#include "proxy/worker/exec.h"
#include "proxy/worker/person.h"

static uint64_t
now(const struct turn *t)
{
	return loop_now_ms(t->c->w->loop);
}

void
turn_to(struct turn *t, enum turn_state s)
{
	static const unsigned legal[] = {
		[TURN_HEAD] = 1u << TURN_OPEN | 1u << TURN_FORWARD,
		[TURN_OPEN] = 1u << TURN_FORWARD | 1u << TURN_OPEN,
		[TURN_FORWARD] = 1u << TURN_OPEN | 1u << TURN_CARRY,
		[TURN_CARRY] = 0,
		[TURN_OVER] = 0,
	};

	need(s == TURN_OVER || (legal[t->state] & 1u << s) != 0);
	t->state = s;
	t->since_ms = now(t);
}

struct turn *
turn_of_link(struct list *it)
{
	return LIST_OF(it, struct turn, link);
}

/* What the client may send now, and what of the host is wanted. */
static void
want(struct turn *t)
{
	bool goes = t->state == TURN_FORWARD || t->state == TURN_CARRY;

	if (t->leg == NULL)
		return;
	/* Before its 101 nothing of a tunnel is taken. */
	side_want(t->front, goes && !t->leg->is_blocked && !t->up.waits &&
				    (t->state == TURN_CARRY || !t->is_ws));
	side_want(t->leg,
		  goes && !t->front->is_blocked && !t->x.is_held && !t->down.waits);
}

/* Bytes that came go into the budget; what is wrong with that, or with their number. */
static enum status
count_up(struct turn *t)
{
	uint64_t max = turn_is_exec(t) ? exec_body_max(t)
				       : worker_option(t->c->w, OPT_LIMIT_BODY);
	uint64_t came = t->up.counted;
	enum status st;

	t->up.counted = 0;
	if (came == 0)
		return ST_OK;
	st = conn_count(t->c, came, 0);
	t->body_bytes += came;
	if (st == ST_OK && t->state == TURN_FORWARD && max > 0 && t->body_bytes > max)
		return ST_TOO_BIG;
	return st;
}

static enum status
count_down(struct turn *t)
{
	uint64_t came = t->down.counted;

	t->down.counted = 0;
	return came == 0 ? ST_OK : conn_count(t->c, 0, came);
}

/* False: the turn is over. */
static bool
flush_leg(struct turn *t)
{
	enum status st = side_flush(t->leg);

	/* The answer of a host that is gone, if it sent one before, is still to be read.
	 */
	if (st == ST_END)
		t->is_last = true;
	if (st == ST_END || st == ST_AGAIN)
		st = ST_OK;
	enum status counted = count_up(t);
	if (st == ST_OK)
		st = counted;
	if (st == ST_OK)
		return true;
	t->is_last = true;
	if (t->state == TURN_CARRY)
		turn_carry_over(t, st);
	else
		turn_refuse(t, st);
	return false;
}

static bool
flush_front(struct turn *t)
{
	enum status st = side_flush(t->front);
	bool gone = st != ST_OK && st != ST_AGAIN;
	enum status counted = count_down(t);

	if (!gone && counted == ST_OK)
		return true;
	if (counted != ST_OK)
		stats_add(t->c->w->role.stats, STAT_LIMIT_BYTES, 1);
	turn_break(t, gone ? ST_CLIENT_GONE : counted);
	return false;
}

static bool
is_through(const struct turn *t)
{
	if (t->state == TURN_CARRY && t->leg != NULL)
		return t->up.is_over && t->down.is_over && !t->front->is_blocked &&
		       !t->leg->is_blocked;
	return t->state == TURN_FORWARD && t->down.is_over;
}

/* What the sides hold and may give now; false: nothing. */
static bool
deliver(struct turn *t)
{
	bool given = side_deliver(t->front);

	if (t->state != TURN_OVER && t->leg != NULL)
		given = side_deliver(t->leg) || given;
	return given;
}

void
turn_settle(struct turn *t)
{
	bool again = true;

	while (again && t->state != TURN_OVER) {
		if (t->leg != NULL && !flush_leg(t))
			return;
		if (t->leg != NULL && !flush_front(t))
			return;
		if (is_through(t)) {
			turn_finish(t);
			return;
		}
		want(t);
		again = deliver(t);
	}
}

static void
on_batch(void *ctx)
{
	turn_settle(ctx);
}

static void
on_room(void *ctx)
{
	struct turn *t = ctx;

	t->since_ms = now(t);
}

static void
on_bad(void *ctx, enum status why)
{
	struct turn *t = ctx;

	if (!t->has_exchange)
		turn_describe(t);
	t->is_last = true;
	turn_refuse(t, why);
}

static void
on_gone(void *ctx, enum status why)
{
	struct turn *t = ctx;
	struct side *front = t->front;

	if (why == ST_TIMEOUT)
		stats_add(t->c->w->role.stats, STAT_TIMEOUT_STALLED, 1);
	turn_end_exchange(t, why);
	turn_over(t);
	side_done(front);
}

static const struct side_events front_events = {
	.head = turn_on_head,
	.body = turn_on_body,
	.end = turn_on_end,
	.room = on_room,
	.batch = on_batch,
	.bad = on_bad,
	.gone = on_gone,
};

enum status
turn_new(struct visit *v, struct side *front)
{
	struct turn *t = calloc(1, sizeof *t);

	if (t == NULL)
		return ST_NOMEM;
	t->v = v;
	t->c = v->c;
	t->front = front;
	t->request = &t->none;
	t->is_https = v->front->is_https;
	arena_init(&t->arena, TURN_ARENA_MAX);
	ring_init(&t->up.held, TURN_SIEVE_MAX);
	ring_init(&t->down.held, TURN_SIEVE_MAX);
	t->needs = turn_is_exec(t) ? NEEDS_NOTHING : exchange_needs();
	t->since_ms = t->begun_ms = now(t);
	list_append(&v->turns, &t->link);
	front->events = &front_events;
	front->ctx = t;
	return ST_OK;
}

void
turn_over(struct turn *t)
{
	if (t->state == TURN_OVER)
		return;
	if (t->state == TURN_CARRY)
		stats_add(t->c->w->role.stats, STAT_TUNNELS_OPEN, -1);
	turn_to(t, TURN_OVER);
	exec_over(t);
	dial_cancel(t->dial);
	reach_cancel(t->reach);
	lane_cancel(t->lane);
	if (t->ask_seq != 0 && t->c->w->ledger != NULL)
		ask_cancel(t->c->w->ledger, t->ask_seq);
	turn_drop_leg(t);
	ring_done(&t->up.held);
	ring_done(&t->down.held);
	arena_done(&t->arena);
	list_remove(&t->link);
	loop_defer(t->c->w->loop, free, t); /* its own callbacks may be running */
}

void
turn_cut(struct turn *t)
{
	turn_end_exchange(t, ST_CLIENT_GONE);
	turn_over(t);
}

/* The row at its end names it, also when the new policy has none of that name. */
static void
remember_connector(struct turn *t)
{
	size_t n = 0;
	const struct image_connector *all;

	if (!t->has_exchange || t->x.connector == CONNECTOR_NONE)
		return;
	/* The image by which it was allowed: the old one, which still is there. */
	all = image_connectors(t->x.image, &n);
	if (t->x.connector < n)
		t->x.connector_was = arena_copy(
			&t->arena, image_str(t->x.image, all[t->x.connector].name));
}

/* A request is judged anew by its next phase anyway; one that runs may finish. */
void
turn_judge(struct turn *t)
{
	remember_connector(t);
	/* They count the rules and connectors of the old policy. */
	t->x.rule = RULE_NONE;
	t->x.connector = CONNECTOR_NONE;
	/* Whose request it is, is not the policy's to say. */
	if (t->state == TURN_CARRY && !turn_is_exec(t))
		turn_carry_judge(t);
}

static void
timed_out(struct turn *t, enum counter which, enum status why)
{
	stats_add(t->c->w->role.stats, which, 1);
	turn_refuse(t, why);
}

static void
tick_forward(struct turn *t, uint64_t waited)
{
	const struct worker *w = t->c->w;

	if (t->x.is_held || t->up.waits || t->down.waits)
		return; /* how long a filter may think is its own affair */
	if (t->leg == NULL || t->front->is_blocked || t->leg->is_blocked)
		return; /* stalled peers have a clock of their own */
	if (!t->up.is_over) {
		if (waited > worker_option(w, OPT_RESPONSE_IDLE_TIMEOUT))
			timed_out(t, STAT_TIMEOUT_IDLE, ST_TIMEOUT);
	} else if (!t->is_answered) {
		if (waited > worker_option(w, OPT_RESPONSE_HEAD_TIMEOUT))
			timed_out(t, STAT_TIMEOUT_RESPONSE, ST_UPSTREAM_TIMEOUT);
	} else if (waited > worker_option(w, OPT_RESPONSE_IDLE_TIMEOUT)) {
		timed_out(t, STAT_TIMEOUT_RESPONSE, ST_UPSTREAM_TIMEOUT);
	}
}

static bool
is_stalled(const struct turn *t, const struct side *s)
{
	uint64_t limit = worker_option(t->c->w, OPT_STALLED_TIMEOUT);

	return s != NULL && s->is_blocked && s->blocked_ms != 0 &&
	       now(t) - s->blocked_ms > limit;
}

void
turn_tick(struct turn *t)
{
	if (is_stalled(t, t->front)) {
		stats_add(t->c->w->role.stats, STAT_TIMEOUT_STALLED, 1);
		turn_break(t, ST_TIMEOUT);
	} else if (is_stalled(t, t->leg) && t->state == TURN_CARRY) {
		stats_add(t->c->w->role.stats, STAT_TIMEOUT_STALLED, 1);
		turn_carry_over(t, ST_TIMEOUT);
	} else if (is_stalled(t, t->leg)) {
		timed_out(t, STAT_TIMEOUT_STALLED, ST_UPSTREAM_TIMEOUT);
	} else if (t->has_exchange && person_is_asked(&t->x) && conn_is_gone(t->c)) {
		turn_break(t, ST_CLIENT_GONE);
	} else if (t->state == TURN_FORWARD) {
		tick_forward(t, now(t) - t->since_ms);
	} else if (t->state == TURN_CARRY) {
		turn_carry_tick(t);
	} else {
		exec_tick(t);
	}
}

#include <stdlib.h>

#include "connectors/gauge.h"
#include "connectors/turn_in.h"
#include "proxy/flow/lane.h"

static uint64_t
now(const struct turn *t)
{
	return loop_now_ms(t->all->loop);
}

void
turn_to(struct turn *t, enum turn_state s)
{
	static const unsigned legal[] = {
		[TURN_HEAD] = 1u << TURN_GATHER | 1u << TURN_OPEN,
		[TURN_GATHER] = 1u << TURN_OPEN,
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

bool
turn_may_use(const struct connector *all, uint32_t connector, const struct who *w)
{
	const struct image *im = all->role.image;
	const struct image_sandbox *s = image_sandbox_by_id(im, w->id);
	struct str tenant = s == NULL ? STR("") : image_str(im, s->tenant);

	return policy_may_use(im, connector, w->may.policy, tenant, w->user);
}

/* What the client may send now, and what of the company system is wanted. */
static void
want(struct turn *t)
{
	bool goes = t->state == TURN_FORWARD || t->state == TURN_CARRY;

	side_want(t->front, t->state == TURN_GATHER ||
				    (goes && !t->leg->is_blocked && !t->is_gathered));
	if (t->leg != NULL)
		side_want(t->leg, goes && !t->front->is_blocked);
}

static bool
is_through(const struct turn *t)
{
	if (t->state == TURN_CARRY)
		return t->up_over && t->down_over && !t->front->is_blocked &&
		       !t->leg->is_blocked;
	return t->state == TURN_FORWARD && t->down_over;
}

static void
finish(struct turn *t)
{
	struct side *front = t->front, *leg = t->leg;

	t->leg = NULL;
	side_done(leg);
	turn_over(t);
	side_done(front);
}

/* False: the turn is over. */
static bool
flush(struct turn *t)
{
	enum status st;

	if (t->leg != NULL) {
		st = side_flush(t->leg);
		/* The answer of a host that is gone, if it sent one before, is still to
		 * be read. */
		if (st != ST_OK && st != ST_AGAIN && st != ST_END) {
			turn_refuse(t, st);
			return false;
		}
	}
	st = side_flush(t->front);
	if (st == ST_OK || st == ST_AGAIN)
		return true;
	turn_break(t, ST_CLIENT_GONE);
	return false;
}

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
		if (!flush(t))
			return;
		if (is_through(t)) {
			finish(t);
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
	if (t->state == TURN_FORWARD && t->is_answered)
		turn_reply_go_on(t);
}

static void
on_bad(void *ctx, enum status why)
{
	turn_refuse(ctx, why);
}

static void
on_gone(void *ctx, enum status why)
{
	struct turn *t = ctx;
	struct side *front = t->front;

	(void)why;
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
turn_new(struct lane *l, struct side *front)
{
	struct turn *t = calloc(1, sizeof *t);

	if (t == NULL)
		return ST_NOMEM;
	t->lane = l;
	t->all = l->all;
	t->front = front;
	t->connector = CONNECTOR_NONE;
	t->rule = RULE_NONE;
	arena_init(&t->arena, TURN_ARENA_MAX);
	rinse_init(&t->rinse);
	t->since_ms = now(t);
	list_append(&l->turns, &t->link);
	front->events = &front_events;
	front->ctx = t;
	return ST_OK;
}

void
turn_drop_leg(struct turn *t)
{
	struct side *leg = t->leg;

	/* What it answered goes with it, and what of a credential it was shown: the next
	 * may be shown another. */
	t->leg = NULL;
	t->response = NULL;
	rinse_done(&t->rinse);
	rinse_init(&t->rinse);
	side_abort(leg, ST_OK);
}

void
turn_stop_waiting(struct turn *t)
{
	upstream_cancel(t->calling);
	lent_cancel(t->leasing);
	bond_cancel(t->bonding);
	t->calling = NULL;
	t->leasing = NULL;
	t->bonding = NULL;
}

static void
turn_leave(struct turn *t)
{
	if (t->connector != CONNECTOR_NONE)
		gauge_leave(t->all, t->connector);
	t->connector = CONNECTOR_NONE;
}

void
turn_over(struct turn *t)
{
	if (t->state == TURN_OVER)
		return;
	turn_to(t, TURN_OVER);
	turn_stop_waiting(t);
	turn_drop_leg(t);
	rinse_done(&t->rinse);
	cred_done(&t->body);
	t->lane->gathered -= t->reserved;
	turn_leave(t);
	arena_done(&t->arena);
	list_remove(&t->link);
	loop_defer(t->all->loop, free, t); /* its own callbacks may be running */
}

void
turn_cut(struct turn *t)
{
	struct side *front = t->front;

	turn_over(t);
	side_abort(front, ST_CLIENT_GONE);
}

/* A clean end would pass for the end of the body. */
void
turn_break(struct turn *t, enum status why)
{
	struct side *front = t->front;

	(void)!side_flush(front);
	turn_over(t);
	side_abort(front, why);
}

/* The worker makes an answer of it that a client can read. */
void
turn_refuse(struct turn *t, enum status why)
{
	struct side *front = t->front;
	struct side_msg m = { .is_whole = true, .is_own = true };
	struct head h;

	if (t->is_answered || t->state == TURN_OVER) {
		turn_break(t, why);
		return;
	}
	turn_stop_waiting(t);
	turn_drop_leg(t);
	head_init(&h, &t->arena);
	h.status = status_words(why)->http;
	h.body = BODY_NONE;
	m.head = &h;
	if (head_add(&h, STR(LANE_REASON), str_from(status_code(why))) != ST_OK) {
		turn_break(t, why);
		return;
	}
	t->is_answered = true;
	side_put_head(front, &m);
	(void)!side_flush(front); /* done() sees the same */
	turn_over(t);
	side_done(front);
}

void
turn_renumber(struct turn *t)
{
	if (t->connector != CONNECTOR_NONE)
		t->connector = t->lane->connector;
}

/* A request that runs may finish; one that waits starts again, by the new policy. */
void
turn_judge(struct turn *t)
{
	/* It points into the image that is gone with the old policy. */
	t->at = NULL;
	if (t->state == TURN_CARRY) {
		turn_break(t, ST_RELOADED);
	} else if (t->state == TURN_OPEN || t->state == TURN_GATHER) {
		turn_leave(t);
		turn_again(t);
	}
}

static bool
is_stalled(const struct turn *t, const struct side *s)
{
	return s != NULL && s->is_blocked && s->blocked_ms != 0 &&
	       now(t) - s->blocked_ms > connector_option(t->all, OPT_STALLED_TIMEOUT);
}

static uint64_t
patience(const struct turn *t)
{
	if (t->state == TURN_CARRY)
		return connector_option(t->all, OPT_TUNNEL_IDLE_TIMEOUT);
	return connector_option(t->all, t->is_answered ? OPT_RESPONSE_IDLE_TIMEOUT
						       : OPT_RESPONSE_HEAD_TIMEOUT);
}

static bool
is_upstream_late(const struct turn *t)
{
	if (is_stalled(t, t->leg))
		return true;
	return !t->front->is_blocked && !t->leg->is_blocked &&
	       now(t) - t->since_ms > patience(t);
}

void
turn_tick(struct turn *t)
{
	if (t->state != TURN_FORWARD && t->state != TURN_CARRY)
		return; /* asks have deadlines, and the worker has a clock of its own */
	if (is_stalled(t, t->front))
		turn_break(t, ST_TIMEOUT);
	else if (is_upstream_late(t))
		turn_refuse(t, ST_UPSTREAM_TIMEOUT);
}

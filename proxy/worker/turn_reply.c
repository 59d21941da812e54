#include "proxy/worker/exec.h"

static uint64_t
now(const struct turn *t)
{
	return loop_now_ms(t->c->w->loop);
}

/* The host failed.  Before the response began that can be told; after, only shown. */
static void
host_failed(struct turn *t, enum status why)
{
	if (!t->is_answered)
		turn_refuse(t, why);
	else
		turn_break(t, why);
}

/* 1xx: passed on; the final response is still to come. */
static void
interim(struct turn *t, struct side_msg *m)
{
	if (++t->interim > TURN_INTERIM_MAX)
		host_failed(t, ST_UPSTREAM_BAD);
	else if (exec_interim(t, m->head))
		side_put_head(t->front, m);
}

static void
put_down(struct turn *t, struct str piece, bool is_last)
{
	uint64_t before = t->x.bytes_down;
	enum status st = turn_put_body(t, true, piece, is_last);

	t->since_ms = now(t);
	t->down.counted += t->x.bytes_down - before;
	if (st == ST_AGAIN)
		side_want(t->leg, false);
	else if (st != ST_OK)
		host_failed(t, st);
}

/* The chain has let the response's head pass: it goes to the client. */
void
turn_reply_begin(struct turn *t)
{
	struct side_msg m = { .head = t->response,
			      .is_whole = t->reply_ends,
			      .is_last = t->is_last || !t->up.is_over };

	bool ends = t->reply_ends;

	t->is_answered = true;
	if (exec_is_streaming(t))
		t->reply_ends =
			false; /* another head went before: its end is to come */
	else
		side_put_head(t->front, &m);
	if (ends)
		put_down(t, (struct str){ "", 0 }, true);
}

static void
final_head(struct turn *t, const struct side_msg *m)
{
	enum status st = t->is_lane ? turn_lane_head(t, m->head) : ST_OK;

	if (st != ST_OK) {
		host_failed(t, st);
		return;
	}
	t->response = t->x.response = m->head;
	t->reply_ends = m->is_whole;
	t->x.http_status = m->head->status;
	turn_chain(t, PHASE_RESPONSE);
}

static void
tunnel(struct turn *t, struct side_msg *m)
{
	enum status st = t->is_lane ? turn_lane_head(t, m->head) : ST_OK;

	if (st != ST_OK)
		host_failed(t, st);
	else
		turn_carry(t, m);
}

static void
on_head(void *ctx, struct side_msg *m)
{
	struct turn *t = ctx;

	t->since_ms = now(t);
	if (m->head->status == 101)
		tunnel(t, m);
	else if (m->head->status < 200)
		interim(t, m);
	else
		final_head(t, m);
}

static void
on_body(void *ctx, struct str view)
{
	struct turn *t = ctx;

	if (t->state == TURN_CARRY)
		turn_carry_body(t, true, view);
	else
		put_down(t, view, false);
}

static void
on_end(void *ctx, const struct head *trailers)
{
	struct turn *t = ctx;

	if (t->is_lane)
		trailers = turn_lane_trailers(t, trailers);
	t->down.trailers = exec_trailers(t, true, trailers);
	if (t->state == TURN_CARRY)
		turn_carry_end(t, true);
	else
		put_down(t, (struct str){ "", 0 }, true);
}

void
turn_reply_resumed(struct turn *t)
{
	put_down(t, (struct str){ "", 0 }, false);
}

/* Nothing of this request was answered: it may be asked again, once, on a new
 * connection. */
static bool
may_retry(const struct turn *t)
{
	if (t->is_retry || t->is_answered || !t->request_ends || t->is_ws)
		return false;
	return t->leg->repeat == SIDE_REPEAT_ANY ||
	       (t->leg->repeat == SIDE_REPEAT_SAFE &&
		method_is_safe(t->request->method_id));
}

static void
on_gone(void *ctx, enum status why)
{
	struct turn *t = ctx;

	if (t->state == TURN_CARRY) {
		turn_carry_over(t, why);
	} else if (t->state == TURN_FORWARD && may_retry(t)) {
		turn_drop_leg(t);
		t->is_retry = true;
		turn_open(t);
	} else {
		host_failed(t, why);
	}
	turn_settle(t);
}

static void
on_room(void *ctx)
{
	struct turn *t = ctx;

	t->since_ms = now(t);
}

static void
on_batch(void *ctx)
{
	turn_settle(ctx);
}

const struct side_events turn_leg_events = {
	.head = on_head,
	.body = on_body,
	.end = on_end,
	.room = on_room,
	.batch = on_batch,
	.gone = on_gone,
};

void
turn_finish(struct turn *t)
{
	struct side *front = t->front, *leg = t->leg;

	turn_end_exchange(t, ST_OK);
	t->leg = NULL;
	side_done(leg);
	turn_over(t);
	side_done(front);
}

#include "proxy/worker/deny.h"
#include "proxy/worker/exec.h"

static uint64_t
now(const struct turn *t)
{
	return loop_now_ms(t->c->w->loop);
}

/* 101: from here on both ends are a tunnel. */
void
turn_carry(struct turn *t, struct side_msg *m)
{
	struct stats *stats = t->c->w->role.stats;

	t->response = t->x.response = m->head;
	t->x.http_status = 101;
	exec_accept(t, m->head);
	turn_to(t, TURN_CARRY);
	t->is_answered = true;
	t->up = (struct sieve){ .held = t->up.held };
	t->rowed_ms = now(t);
	side_put_head(t->front, m);
	stats_add(stats, STAT_TUNNELS, 1);
	stats_add(stats, STAT_TUNNELS_OPEN, 1);
}

void
turn_carry_body(struct turn *t, bool is_response, struct str view)
{
	enum status st = exec_watch(t, is_response, view);

	t->since_ms = now(t);
	if (st != ST_OK) {
		turn_refuse(t, st);
		return;
	}
	if (is_response) {
		t->x.bytes_down += view.n;
		t->down.counted += view.n;
		side_put_body(t->front, view);
	} else {
		t->x.bytes_up += view.n;
		side_put_body(t->leg, view);
	}
}

void
turn_carry_end(struct turn *t, bool is_response)
{
	struct sieve *s = is_response ? &t->down : &t->up;
	struct side *to = is_response ? t->front : t->leg;
	const struct head *of = is_response ? t->response : t->request;

	t->since_ms = now(t);
	s->is_over = true;
	side_put_end(to, of, NULL);
}

/* What the other end was sent before is still delivered. */
void
turn_carry_over(struct turn *t, enum status why)
{
	struct side *front = t->front;

	if (!t->down.is_over)
		side_put_end(front, t->response, NULL);
	turn_end_exchange(t, why);
	turn_over(t);
	side_done(front);
}

/* The newest policy is asked the same question again; what it sends another way can't go
 * on this one. */
void
turn_carry_judge(struct turn *t)
{
	conn_refresh(t->c, &t->x);
	if (exchange_run(&t->x, PHASE_HELLO) == VERDICT_NEXT &&
	    t->is_lane == (t->x.action == ACTION_CONNECTOR))
		return;
	t->x.reason = ST_RELOADED;
	(void)!deny_record(t->c, &t->x);
	turn_carry_over(t, ST_RELOADED);
}

/* A running tunnel tells how far it is, if anything moved. */
static enum status
row(struct turn *t)
{
	uint64_t bytes = t->x.bytes_up + t->x.bytes_down;

	/* One row says how it ended; it has no rule to tell. */
	if (turn_is_exec(t) || bytes == t->rowed_bytes ||
	    now(t) - t->rowed_ms < worker_option(t->c->w, OPT_LEDGER_PERIOD))
		return ST_OK;
	t->rowed_ms = now(t);
	t->rowed_bytes = bytes;
	return conn_row(t->c, &t->x, ROW_TUNNEL_PERIODIC);
}

void
turn_carry_tick(struct turn *t)
{
	uint64_t limit = worker_option(t->c->w, OPT_TUNNEL_IDLE_TIMEOUT);
	enum status st = row(t);

	if (st == ST_OK && now(t) - t->since_ms > limit) {
		stats_add(t->c->w->role.stats, STAT_TIMEOUT_IDLE, 1);
		st = ST_TIMEOUT;
	}
	if (st != ST_OK)
		turn_carry_over(t, st);
}

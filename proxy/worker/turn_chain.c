#include "proxy/worker/exec.h"

static void
go_on(struct turn *t, enum phase phase)
{
	if (phase == PHASE_REQUEST)
		turn_open(t);
	else if (phase == PHASE_OPEN)
		turn_forward(t);
	else
		turn_reply_begin(t);
}

/* No sandbox, so no policy and no filter of one: control has judged. */
static void
go_on_exec(struct turn *t, enum phase phase)
{
	if (phase == PHASE_OPEN)
		exec_forward(t);
	else
		exec_respond(t);
}

/* A filter answers in place of the host: that goes into the ledger as a page does. */
static void
answer(struct turn *t)
{
	const char *type = "text/plain";

	if (str_eq(t->x.answer_type, STR("application/json")))
		type = "application/json";
	turn_drop_leg(t);
	if (!t->x.is_started && conn_row(t->c, &t->x, ROW_PAGE) != ST_OK)
		turn_refuse(t, ST_NO_LEDGER);
	else if (t->x.http_status < 200 || t->x.http_status > 599)
		turn_refuse(t, ST_FILTER_FAILED);
	else
		turn_answer(t, (uint16_t)t->x.http_status, type, t->x.answer);
}

void
turn_went(struct turn *t, enum phase phase, enum verdict v)
{
	switch (v) {
	case VERDICT_NEXT:
		go_on(t, phase);
		break;
	case VERDICT_HOLD:
		t->held_in = phase;
		if (phase == PHASE_REQUEST)
			turn_to(t, TURN_OPEN);
		if (t->leg != NULL)
			side_want(t->leg, false);
		break;
	case VERDICT_ANSWER:
		answer(t);
		break;
	case VERDICT_DENY:
	case VERDICT_FAIL:
		turn_refuse(t, t->x.reason == ST_OK ? ST_FILTER_FAILED : t->x.reason);
		break;
	}
}

void
turn_chain(struct turn *t, enum phase phase)
{
	conn_refresh(t->c, &t->x);
	if (turn_is_exec(t)) {
		go_on_exec(t, phase);
		return;
	}
	turn_went(t, phase, exchange_run(&t->x, phase));
}

void
turn_resume(struct turn *t)
{
	bool up = t->up.waits, down = t->down.waits;

	/* It may have ended, and the next request begun, since the filter said so. */
	if (!t->has_exchange || !t->x.is_resumed)
		return;
	t->x.is_resumed = false;
	conn_refresh(t->c, &t->x);
	t->since_ms = loop_now_ms(t->c->w->loop);
	if (t->x.is_held)
		turn_went(t, t->held_in, exchange_resume(&t->x, t->held_in));
	if (up && t->state == TURN_FORWARD)
		turn_body_resumed(t);
	if (down && t->state == TURN_FORWARD)
		turn_reply_resumed(t);
	turn_settle(t);
}

/* Shows the filters what is held with the new piece behind it. */
static enum status
sift(struct turn *t, bool is_response, struct str piece, struct str *ret_pass)
{
	struct sieve *s = is_response ? &t->down : &t->up;
	size_t pass = 0;

	if (ring_write(&s->held, piece) != piece.n)
		return ST_TOO_BIG;
	struct str view = ring_linear(&s->held);
	enum verdict v = exchange_body(&t->x, is_response, view, s->is_last, &pass);
	s->waits = v == VERDICT_HOLD;
	if (v == VERDICT_HOLD)
		return ST_AGAIN;
	if (v != VERDICT_NEXT && t->x.reason != ST_OK)
		return t->x.reason;
	if (v != VERDICT_NEXT || pass > view.n || (s->is_last && pass != view.n))
		return ST_FILTER_FAILED;
	*ret_pass = str_head(view, pass);
	return ST_OK;
}

static void
put_end(struct turn *t, bool is_response)
{
	struct sieve *s = is_response ? &t->down : &t->up;

	s->is_over = true;
	if (is_response && !t->reply_ends)
		side_put_end(t->front, t->response, s->trailers);
	if (!is_response)
		side_put_end(t->leg, t->request, s->trailers);
}

enum status
turn_put_body(struct turn *t, bool is_response, struct str piece, bool is_last)
{
	struct sieve *s = is_response ? &t->down : &t->up;
	struct side *to = is_response ? t->front : t->leg;
	unsigned need = is_response ? NEEDS_RESPONSE_BODY : NEEDS_BODY;
	bool is_sifted = ((t->needs | t->x.needs) & need) != 0;
	struct str pass = piece;

	s->is_last = s->is_last || is_last;
	if (is_sifted) {
		enum status st = sift(t, is_response, piece, &pass);
		if (st != ST_OK)
			return st;
	}
	enum status watched = exec_watch(t, is_response, pass);
	if (watched != ST_OK)
		return watched;
	if (is_response)
		t->x.bytes_down += pass.n;
	else
		t->x.bytes_up += pass.n;
	if (is_sifted) {
		if (pass.n > 0)
			side_put_copy(
				to, pass); /* a sieve's memory moves before the flush */
		ring_consume(&s->held, pass.n);
	} else if (pass.n > 0) {
		side_put_body(to, pass);
	}
	if (s->is_last)
		put_end(t, is_response);
	return ST_OK;
}

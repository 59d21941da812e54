#include "proxy/worker/turn_in.h"

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
	turn_went(t, phase, exchange_run(&t->x, phase));
}

void
turn_resume(struct conn *c)
{
	struct turn *t = c->state;
	bool up = t->up.waits, down = t->down.waits;

	/* It may have ended, and the next request begun, since the filter said so. */
	if (!t->has_exchange || !t->x.is_resumed)
		return;
	t->x.is_resumed = false;
	conn_refresh(c, &t->x);
	t->since_ms = loop_now_ms(c->w->loop);
	if (t->x.is_held)
		turn_went(t, t->held_in, exchange_resume(&t->x, t->held_in));
	if (up && t->state == TURN_FORWARD)
		turn_body_resumed(t);
	if (down && t->state == TURN_FORWARD)
		turn_reply_resumed(t);
	if (t->state != TURN_OVER)
		turn_settle(t);
}

static void
sieve_done(struct sieve *s)
{
	ring_done(&s->held);
	s->waits = s->is_last = false;
}

void
turn_sieve_done(struct turn *t)
{
	sieve_done(&t->up);
	sieve_done(&t->down);
	ring_done(&t->behind);
}

static void
put_framed(struct turn *t, struct gather *g, struct str s, bool is_chunked)
{
	bool is_view = (t->needs & (NEEDS_BODY | NEEDS_RESPONSE_BODY)) == 0;

	if (s.n == 0)
		return;
	if (is_chunked) {
		buf_clear(&t->scratch);
		h1_write_chunk_head(&t->scratch, s.n);
		gather_copy(g, str_of(t->scratch.p, t->scratch.len));
	}
	if (is_view)
		gather_view(g, s);
	else
		gather_copy(g, s); /* a sieve's memory moves before the gather ends */
	if (is_chunked)
		gather_copy(g, STR("\r\n"));
}

static void
put_end(struct turn *t, struct gather *g, bool is_response)
{
	buf_clear(&t->scratch);
	if (is_response)
		h1_write_last_chunk(&t->scratch, &t->response, &t->leg->body.trailers);
	else
		h1_write_last_chunk(&t->scratch, &t->request, &t->body.trailers);
	gather_copy(g, str_of(t->scratch.p, t->scratch.len));
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

enum status
turn_put_body(struct turn *t, bool is_response, struct gather *g, struct str piece,
	      bool is_last)
{
	struct sieve *s = is_response ? &t->down : &t->up;
	unsigned need = is_response ? NEEDS_RESPONSE_BODY : NEEDS_BODY;
	bool is_chunked = is_response ? t->reply_frame == BODY_CHUNKED
				      : t->request.body == BODY_CHUNKED;
	struct str pass = piece;

	s->is_last = s->is_last || is_last;
	if ((t->needs & need) != 0) {
		enum status st = sift(t, is_response, piece, &pass);
		if (st != ST_OK)
			return st;
	}
	if (is_response)
		t->x.bytes_down += pass.n;
	else
		t->x.bytes_up += pass.n;
	put_framed(t, g, pass, is_chunked);
	if ((t->needs & need) != 0)
		ring_consume(&s->held, pass.n);
	if (s->is_last && is_chunked)
		put_end(t, g, is_response);
	return ST_OK;
}

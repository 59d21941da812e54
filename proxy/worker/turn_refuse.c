#include "proxy/http/h1_write.h"
#include "proxy/worker/deny.h"
#include "proxy/worker/exec.h"

void
turn_drop_leg(struct turn *t)
{
	struct side *leg = t->leg;

	/* What it answered goes with it. */
	t->leg = NULL;
	t->response = t->x.response = NULL;
	side_abort(leg, ST_OK);
}

void
turn_end_exchange(struct turn *t, enum status why)
{
	if (!t->has_exchange)
		return;
	t->has_exchange = false;
	if (t->x.reason == ST_OK)
		t->x.reason = why;
	if (turn_is_exec(t)) {
		exec_ended(t, why);
		return;
	}
	conn_refresh(t->c, &t->x);
	exchange_done(&t->x);
}

/* A clean close would pass for the end of the body. */
void
turn_break(struct turn *t, enum status why)
{
	struct side *front = t->front;

	(void)!side_flush(front);
	turn_end_exchange(t, why);
	turn_over(t);
	side_abort(front, why);
}

void
turn_say(struct turn *t, struct side_msg *m, struct str body)
{
	struct side *front = t->front;
	struct head *h = m->head;

	h->has_length = true;
	h->length = body.n;
	h->body = t->request->method_id == METHOD_HEAD || body.n == 0 ? BODY_NONE
								      : BODY_LENGTH;
	m->is_whole = h->body == BODY_NONE;
	m->is_own = true;
	/* Behind what was sent of a request that a host had, or has in part, no other can
	 * be told from it. */
	m->is_last = t->is_last || (t->state != TURN_HEAD && t->state != TURN_OPEN);
	side_put_head(front, m);
	if (!m->is_whole) {
		side_put_body(front, body);
		side_put_end(front, h, NULL);
	}
	(void)!side_flush(front); /* done() sees the same */
	turn_over(t);
	side_done(front);
}

void
turn_tell(struct turn *t, enum status why, struct head *h, enum status st,
	  struct buf *body)
{
	struct side_msg m = { .head = h, .reason = str_from(status_code(why)) };
	struct str text;

	turn_end_exchange(t, why);
	t->is_answered = true;
	if (st != ST_OK || buf_finish(body, &text) != ST_OK)
		turn_break(t, why);
	else
		turn_say(t, &m, text);
}

void
turn_refuse(struct turn *t, enum status why)
{
	CLEANUP(buf_done) struct buf body = { 0 };
	struct exchange *x = &t->x;
	struct head h;

	if (turn_is_exec(t)) {
		exec_refuse(t, why);
		return;
	}
	if (t->is_answered || !t->has_exchange) {
		turn_break(t, why);
		return;
	}
	dial_cancel(t->dial);
	t->dial = NULL;
	turn_drop_leg(t);
	conn_refresh(t->c, x);
	x->reason = why;
	uint64_t id = deny_record(t->c, x);
	head_init(&h, &t->arena);
	buf_init(&body, TURN_TEXT_MAX);
	bool is_grpc = deny_is_grpc(t->request);
	if (!is_grpc)
		deny_put_json(&body, x->image, x, id);
	enum status st = is_grpc ? deny_head_grpc(&h, why, id) : deny_head(&h, why);
	x->http_status = h.status;
	turn_tell(t, why, &h, st, &body);
}

void
turn_answer(struct turn *t, uint16_t status, const char *type, struct str body)
{
	struct side_msg m = { 0 };
	struct head h;

	head_init(&h, &t->arena);
	h.status = status;
	t->x.http_status = status;
	t->x.bytes_down = body.n;
	turn_drop_leg(t);
	turn_end_exchange(t, ST_OK);
	t->is_answered = true;
	m.head = &h;
	if (head_add(&h, STR("Content-Type"), str_from(type)) != ST_OK ||
	    head_add(&h, STR("Cache-Control"), STR("no-store")) != ST_OK)
		turn_break(t, ST_NOMEM);
	else
		turn_say(t, &m, body);
}

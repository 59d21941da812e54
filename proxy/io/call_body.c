#include "proxy/io/call_body.h"

void
call_wish_put(struct buf *b, const struct call_wish *w)
{
	wire_put_str(b, w->connector);
	wire_put_str(b, w->method);
	wire_put_str(b, w->target);
	wire_put_str(b, w->type);
	buf_put_u32(b, w->deadline_ms);
	buf_put_u32(b, (uint32_t)w->answer_max);
	wire_put_str(b, w->body);
}

enum status
call_wish_get(struct str body, struct call_wish *ret_w)
{
	struct wire in = wire_from(body);
	struct call_wish w = { .connector = wire_str(&in) };

	w.method = wire_str(&in);
	w.target = wire_str(&in);
	w.type = wire_str(&in);
	w.deadline_ms = wire_u32(&in);
	w.answer_max = wire_u32(&in);
	w.body = wire_str(&in);
	if (wire_end(&in) != ST_OK || w.body.n > CALL_BODY_MAX || w.deadline_ms == 0 ||
	    w.deadline_ms > CALL_DEADLINE_MAX_MS || w.answer_max > CALL_ANSWER_MAX)
		return ST_BAD_MESSAGE;
	*ret_w = w;
	return ST_OK;
}

void
call_answer_put(struct buf *b, const struct call_answer *a)
{
	buf_put_u16(b, (uint16_t)a->st);
	buf_put_u16(b, a->http);
	wire_put_str(b, a->type);
	buf_put_u32(b, a->body_n);
}

enum status
call_answer_get(struct str body, struct call_answer *ret_a)
{
	struct wire in = wire_from(body);
	uint16_t told = wire_u16(&in);
	struct call_answer a = { .st = ST_BAD_MESSAGE, .http = wire_u16(&in) };

	a.type = wire_str(&in);
	a.body_n = wire_u32(&in);
	if (wire_end(&in) != ST_OK || told >= ST_COUNT || a.body_n > CALL_ANSWER_MAX)
		return ST_BAD_MESSAGE;
	a.st = (enum status)told;
	if (a.st == ST_OK && (a.http < 200 || a.http > 999))
		return ST_BAD_MESSAGE;
	if (a.st != ST_OK && (a.http != 0 || a.type.n > 0 || a.body_n > 0))
		return ST_BAD_MESSAGE;
	*ret_a = a;
	return ST_OK;
}

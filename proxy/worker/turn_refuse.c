#include <string.h>
#include <sys/socket.h>

#include "proxy/worker/deny.h"
#include "proxy/worker/turn_in.h"

void
turn_drop_leg(struct turn *t)
{
	leg_free(t->leg, t->c->w->loop);
	t->leg = NULL;
}

void
turn_end_exchange(struct turn *t, enum status why)
{
	if (!t->has_exchange)
		return;
	t->has_exchange = false;
	if (t->x.reason == ST_OK)
		t->x.reason = why;
	conn_refresh(t->c, &t->x);
	exchange_done(&t->x);
}

void
turn_next(struct turn *t)
{
	t->served++;
	if (t->is_last || t->is_eof) {
		(void)shutdown(t->c->io.fd, SHUT_WR);
		turn_to(t, TURN_LINGER);
		return;
	}
	h1_read_done(&t->reader);
	h1_body_done(&t->body);
	turn_sieve_done(t);
	arena_done(&t->arena);
	arena_done(&t->reply);
	buf_done(&t->scratch);
	turn_to(t, TURN_IDLE);
}

/* May another request follow on this connection? */
static bool
may_follow(const struct turn *t)
{
	bool head_read = t->state == TURN_OPEN || t->state == TURN_HEAD;

	return head_read && !t->is_last && !t->is_eof && t->request.is_persistent &&
	       h1_body_is_over(&t->body) && !t->c->w->is_draining;
}

static void
send_answer(struct turn *t, struct str text)
{
	struct gather g;

	gather_begin(&g, &t->out);
	gather_view(&g, text);
	if (gather_end(&g, loop_now_ms(t->c->w->loop)) == ST_END) {
		conn_close(t->c);
		return;
	}
	turn_to(t, TURN_FLUSH);
	if (!out_is_blocked(&t->out))
		turn_next(t);
}

/* The head alone, for HEAD: a body would be taken for the next response. */
static struct str
without_body(struct str text)
{
	const char *end = memmem(text.p, text.n, "\r\n\r\n", 4);

	return end == NULL ? text : str_head(text, (size_t)(end - text.p) + 4);
}

void
turn_refuse(struct turn *t, enum status why)
{
	struct exchange *x = &t->x;
	struct str text;

	if (t->is_answered || !t->has_exchange) {
		turn_end_exchange(t, why);
		conn_reset(t->c); /* a clean close would pass for the end of the body */
		return;
	}
	dial_cancel(t->dial);
	t->dial = NULL;
	turn_drop_leg(t);
	conn_refresh(t->c, x);
	x->reason = why;
	bool keep = may_follow(t);
	uint64_t id = deny_record(t->c, x);
	buf_clear(&t->scratch);
	deny_put_http(&t->scratch, x->image, x, id, keep);
	x->http_status = status_words(why)->http;
	turn_end_exchange(t, why);
	t->is_answered = true;
	t->is_last = t->is_last || !keep;
	if (buf_finish(&t->scratch, &text) != ST_OK)
		conn_close(t->c);
	else
		send_answer(t, t->request.method_id == METHOD_HEAD ? without_body(text)
								   : text);
}

void
turn_answer(struct turn *t, uint16_t status, const char *type, struct str body)
{
	struct str text;
	bool keep = may_follow(t), is_head = t->request.method_id == METHOD_HEAD;

	buf_clear(&t->scratch);
	buf_putf(&t->scratch,
		 "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n",
		 (unsigned)status, h1_reason(status), type, body.n);
	buf_put(&t->scratch, STR("Cache-Control: no-store\r\n"));
	if (!keep)
		buf_put(&t->scratch, STR("Connection: close\r\n"));
	buf_put(&t->scratch, STR("\r\n"));
	if (!is_head)
		buf_put(&t->scratch, body);
	t->x.http_status = status;
	t->x.bytes_down = body.n;
	turn_end_exchange(t, ST_OK);
	t->is_answered = true;
	t->is_last = t->is_last || !keep;
	if (buf_finish(&t->scratch, &text) != ST_OK)
		conn_close(t->c);
	else
		send_answer(t, text);
}

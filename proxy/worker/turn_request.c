#include "proxy/http/ws.h"
#include "proxy/worker/exec.h"
#include "proxy/worker/login.h"

static bool
same_dest(const struct dest *a, const struct dest *b)
{
	return a->port == b->port && dest_same_host(a, b);
}

/* The request's destination, and that it is the one this connection is for. */
static enum status
destination(struct turn *t)
{
	const struct conn *c = t->c;
	uint16_t port = c->way == CONN_PROXY ? 80 : c->dest.port;
	enum status st = uri_of_request(t->request, port, &t->uri);

	if (st != ST_OK)
		return st;
	if (c->way == CONN_PROXY)
		return t->uri.form == URI_ABSOLUTE ? ST_OK : ST_BAD_TARGET;
	if (t->uri.dest.port != c->dest.port || t->is_misled)
		return ST_MISMATCH;
	/* A literal that the sandbox chose is advice only: the name decides. */
	bool must_match = c->is_pinned || dest_is_name(&c->dest);
	return must_match && !same_dest(&t->uri.dest, &c->dest) ? ST_MISMATCH : ST_OK;
}

static enum status
check(struct turn *t)
{
	const struct head *h = t->request;
	enum status st = login_check(t->c, h);

	if (st == ST_OK)
		st = destination(t);
	if (st != ST_OK)
		return st;
	if (h->method_id == METHOD_TRACE || h->method_id == METHOD_TRACK ||
	    h->method_id == METHOD_CONNECT)
		return ST_METHOD_REFUSED;
	if (head_get(h, TOKEN_EXPECT) != NULL && !h->expects_continue && h->minor > 0)
		return ST_EXPECT_FAILED;
	uint64_t max = worker_option(t->c->w, OPT_LIMIT_BODY);
	if (max > 0 && h->body == BODY_LENGTH && h->length > max)
		return ST_TOO_BIG;
	return t->is_ws ? ST_OK : ws_check_request(h, &t->is_ws);
}

void
turn_describe(struct turn *t)
{
	struct exchange *x = &t->x;

	conn_exchange(t->c, x);
	t->has_exchange = true;
	x->way = WAY_HTTP;
	x->is_tls = t->is_https;
	x->method = t->request->method;
	x->request = t->request;
	x->begun_ms = t->begun_ms;
	if (t->c->dest.port != 0)
		x->dest = &t->c->dest;
}

static void
judge(struct turn *t)
{
	turn_describe(t);
	if (turn_is_exec(t)) {
		exec_begin(t);
		return;
	}
	enum status st = check(t);
	if (st != ST_OK) {
		if (t->uri.dest.port != 0)
			t->x.dest = &t->uri.dest;
		turn_refuse(t, st);
		return;
	}
	t->x.dest = &t->uri.dest;
	t->x.path = t->uri.path;
	t->x.query = t->uri.query;
	if (page_is_ours(&t->uri.dest))
		page_serve(t);
	else
		turn_chain(t, PHASE_REQUEST);
}

void
turn_on_head(void *ctx, struct side_msg *m)
{
	struct turn *t = ctx;

	t->request = m->head;
	t->is_ws = m->is_ws;
	/* A CONNECT names none. */
	t->is_misled =
		m->is_https != t->is_https && m->head->method_id != METHOD_CONNECT;
	t->request_ends = t->up.is_over = m->is_whole;
	judge(t);
}

void
turn_forward(struct turn *t)
{
	struct side_msg m = { .head = t->request,
			      .uri = &t->uri,
			      .is_https = t->is_https,
			      .is_ws = t->is_ws,
			      .is_whole = t->request_ends && !t->is_ws };

	/* A policy that came meanwhile sends it another way. */
	if (t->is_lane != (t->x.action == ACTION_CONNECTOR)) {
		turn_refuse(t, ST_RELOADED);
		return;
	}
	turn_to(t, TURN_FORWARD);
	side_put_head(t->leg, &m);
	/* What came with the head goes with it. */
	if (!t->request_ends && !t->is_ws)
		side_want(t->front, true);
}

static void
put_up(struct turn *t, struct str piece, bool is_last)
{
	enum status st = turn_put_body(t, false, piece, is_last);

	t->since_ms = loop_now_ms(t->c->w->loop);
	if (st == ST_AGAIN) {
		side_want(t->front, false);
	} else if (st != ST_OK) {
		t->is_last = true;
		turn_refuse(t, st);
	}
}

void
turn_body_resumed(struct turn *t)
{
	put_up(t, (struct str){ "", 0 }, false);
}

void
turn_on_body(void *ctx, struct str view)
{
	struct turn *t = ctx;

	t->up.counted += view.n;
	if (exec_gathers(t))
		exec_gather(t, view);
	else if (t->state == TURN_CARRY)
		turn_carry_body(t, false, view);
	else
		put_up(t, view, false);
}

void
turn_on_end(void *ctx, const struct head *trailers)
{
	struct turn *t = ctx;

	trailers = exec_trailers(t, false, trailers);
	t->up.trailers = t->x.trailers = trailers;
	if (exec_gathers(t))
		exec_gathered(t);
	else if (t->state == TURN_CARRY)
		turn_carry_end(t, false);
	else
		put_up(t, (struct str){ "", 0 }, true);
}

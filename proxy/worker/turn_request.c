#include <string.h>
#include <unistd.h>

#include "proxy/http/ws.h"
#include "proxy/worker/login.h"
#include "proxy/worker/pool.h"
#include "proxy/worker/turn_in.h"

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
	if (t->uri.dest.port != c->dest.port)
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
	t->request_ends = t->up.is_over = m->is_whole;
	judge(t);
}

/* A leg is there: the last word of the chain, then the head goes. */
static void
opened(struct turn *t, const struct kept *k)
{
	memcpy(t->x.address, k->address, sizeof k->address);
	memcpy(t->x.country, k->country, sizeof k->country);
	t->leg->events = &turn_leg_events;
	t->leg->ctx = t;
	turn_chain(t, PHASE_OPEN);
}

void
turn_forward(struct turn *t)
{
	struct side_msg m = { .head = t->request,
			      .uri = &t->uri,
			      .is_https = t->is_https,
			      .is_ws = t->is_ws,
			      .is_whole = t->request_ends && !t->is_ws };

	turn_to(t, TURN_FORWARD);
	side_put_head(t->leg, &m);
	/* What came with the head goes with it. */
	if (!t->request_ends && !t->is_ws)
		side_want(t->front, true);
}

static struct pool_key
key_of(const struct turn *t)
{
	return (struct pool_key){ .handle = t->c->limit->handle,
				  .generation = t->generation,
				  .dest = &t->uri.dest,
				  .is_https = t->is_https };
}

static void
connected(struct turn *t, struct stream *s, pool_make_fn make)
{
	struct worker *w = t->c->w;
	struct pool_key key = key_of(t);
	struct leg_start start = { .flow = &w->flow,
				   .stream = s,
				   .limits = &w->leg_limits,
				   .is_https = t->is_https };
	struct kept *k = pool_add(w->pool, &key, make, &start, &t->leg);

	if (k == NULL) {
		turn_refuse(t, ST_NOMEM);
		return;
	}
	memcpy(k->address, t->x.address, sizeof k->address);
	memcpy(k->country, t->x.country, sizeof k->country);
	opened(t, k);
}

static void
reached(void *ctx, const struct reached *r)
{
	struct turn *t = ctx;

	t->reach = NULL;
	if (r->st == ST_OK) {
		connected(t, r->stream, r->make);
	} else {
		t->x.detail = str_from(r->words);
		turn_refuse(t, r->st);
	}
	turn_settle(t);
}

static enum status
reach(struct turn *t, int fd)
{
	/* Few hosts take a WebSocket over HTTP/2, and it needs a connection of its own
	 * anyway. */
	const struct reach_to to = { .dest = &t->uri.dest,
				     .offer =
					     t->is_ws ? TLS_OFFER_H1 : TLS_OFFER_BOTH };
	struct stream plain;

	if (t->is_https)
		return reach_start(t->c->w, fd, &to, reached, t, &t->reach);
	stream_plain(&plain, fd);
	connected(t, &plain, leg_h1_new);
	return ST_OK;
}

static void
dialed(void *ctx, const struct dial_result *r)
{
	struct turn *t = ctx;

	t->dial = NULL;
	dial_note(r, &t->x);
	enum status st = r->st == ST_OK ? reach(t, r->fd) : r->st;
	if (st != ST_OK)
		turn_refuse(t, st);
	turn_settle(t);
}

/* Nothing of a request was answered, so a safe one may be asked again. */
static bool
may_repeat(const struct turn *t)
{
	enum method m = t->request->method_id;

	return (m == METHOD_GET || m == METHOD_HEAD || m == METHOD_OPTIONS) &&
	       t->request->body == BODY_NONE && !t->is_ws;
}

void
turn_open(struct turn *t)
{
	struct worker *w = t->c->w;
	struct kept *k = NULL;

	turn_to(t, TURN_OPEN);
	t->generation = w->role.generation;
	struct pool_key key = key_of(t);
	/* What can't be repeated goes only where no close is to be seen. */
	if (!t->is_retry && !(t->is_ws && t->is_https))
		k = pool_take(w->pool, &key, !may_repeat(t), &t->leg);
	if (k != NULL) {
		stats_add(w->role.stats, STAT_REUSED, 1);
		opened(t, k);
		return;
	}
	enum status st = dial_start(t->c, &t->uri.dest, WAY_HTTP, dialed, t, &t->dial);
	if (st != ST_OK)
		turn_refuse(t, st);
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
	if (t->state == TURN_CARRY)
		turn_carry_body(t, false, view);
	else
		put_up(t, view, false);
}

void
turn_on_end(void *ctx, const struct head *trailers)
{
	struct turn *t = ctx;

	t->up.trailers = t->x.trailers = trailers;
	if (t->state == TURN_CARRY)
		turn_carry_end(t, false);
	else
		put_up(t, (struct str){ "", 0 }, true);
}

#include <string.h>

#include "proxy/worker/exec.h"
#include "proxy/worker/pool.h"

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

static struct pool_key
key_of(const struct turn *t)
{
	return (struct pool_key){
		.handle = t->c->limit != NULL ? t->c->limit->handle : HANDLE_NONE,
		.generation = t->generation,
		.revision = t->revision,
		.dest = &t->uri.dest,
		.is_https = t->is_https,
		.is_ws = t->is_ws,
		.connector = t->is_lane ? t->x.connector : CONNECTOR_NONE,
		.is_exec = turn_is_exec(t),
		.conn = t->c->serial
	};
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
	/* Few hosts take a WebSocket over HTTP/2 (RFC 8441), and which do is not known
	 * before their settings are: where no connection is there that knows, HTTP/1 is
	 * sure. */
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
	return method_is_safe(t->request->method_id) && t->request->body == BODY_NONE &&
	       !t->is_ws;
}

static void
lane_opened(void *ctx, enum status st, int fd)
{
	struct turn *t = ctx;
	struct stream stream;

	t->lane = NULL;
	if (st == ST_OK) {
		stream_plain(&stream, fd);
		connected(t, &stream, leg_h2_new);
	} else {
		turn_refuse(t, st);
	}
	turn_settle(t);
}

static enum status
make(struct turn *t)
{
	if (turn_is_exec(t))
		return exec_dial(t, dialed);
	if (t->is_lane)
		return lane_open(t->c, t->x.connector, lane_opened, t, &t->lane);
	return dial_start(t->c, &t->uri.dest, WAY_HTTP, dialed, t, &t->dial);
}

/* One that is there.  What can't be repeated goes only where no close is to be seen. */
static struct kept *
find(struct turn *t)
{
	struct pool_key key = key_of(t);

	if (t->is_retry)
		return NULL;
	return pool_take(t->c->w->pool, &key, !may_repeat(t), &t->leg);
}

void
turn_open(struct turn *t)
{
	struct kept *k;

	turn_to(t, TURN_OPEN);
	t->generation = t->c->w->role.generation;
	t->revision = t->x.who == NULL ? 0 : t->x.who->revision;
	t->is_lane = t->x.action == ACTION_CONNECTOR;
	k = find(t);
	if (k != NULL) {
		stats_add(t->c->w->role.stats, STAT_REUSED, 1);
		opened(t, k);
		return;
	}
	enum status st = make(t);
	if (st != ST_OK)
		turn_refuse(t, st);
}

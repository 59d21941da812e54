#include "proxy/worker/turn_in.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "proxy/http/ws.h"
#include "proxy/worker/deny.h"
#include "proxy/worker/login.h"
#include "proxy/worker/pool.h"
#include "proxy/worker/proxy_in.h"

static struct h1_limits
limits(const struct worker *w)
{
	return (struct h1_limits){
		.fields = (size_t)worker_option(w, OPT_LIMIT_FIELDS),
		.line = (size_t)worker_option(w, OPT_LIMIT_LINE),
		.head = (size_t)worker_option(w, OPT_LIMIT_HEAD),
	};
}

/* On a proxy listener each request may as well be a CONNECT: that one is not ours. */
static bool
hand_back(struct turn *t, struct str in)
{
	struct conn *c = t->c;

	struct str word = STR("CONNECT ");

	/* As much as proxy_in needs to see, or it would come straight back. */
	if (c->way != CONN_PROXY || !str_eq(str_head(in, word.n), str_head(word, in.n)))
		return false;
	CLEANUP(buf_done) struct buf copy = { 0 };
	struct str seen;
	buf_init(&copy, in.n);
	buf_put(&copy, in);
	if (buf_finish(&copy, &seen) != ST_OK)
		conn_close(c);
	else
		proxy_in_start(c, seen);
	return true;
}

static void
begin(struct turn *t)
{
	struct h1_limits lim = limits(t->c->w);

	h1_read_done(&t->reader);
	h1_body_done(&t->body);
	/* What a refusal may tell of a head that never came whole: nothing. */
	memset(&t->request, 0, sizeof t->request);
	memset(&t->response, 0, sizeof t->response);
	memset(&t->uri, 0, sizeof t->uri);
	arena_done(&t->arena);
	arena_done(&t->reply);
	h1_read_request(&t->reader, &t->arena, &lim);
	t->is_retry = t->is_answered = t->is_ws = false;
	t->body_bytes = t->interim = 0;
	turn_to(t, TURN_HEAD);
	t->begun_ms = t->since_ms;
}

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
	enum status st = uri_of_request(&t->request, port, &t->uri);

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
	enum status st = login_check(t->c, &t->request);

	if (st == ST_OK)
		st = destination(t);
	if (st != ST_OK)
		return st;
	if (t->request.method_id == METHOD_TRACE ||
	    t->request.method_id == METHOD_TRACK ||
	    t->request.method_id == METHOD_CONNECT)
		return ST_METHOD_REFUSED;
	if (head_get(&t->request, TOKEN_EXPECT) != NULL &&
	    !t->request.expects_continue && t->request.minor > 0)
		return ST_EXPECT_FAILED;
	uint64_t max = worker_option(t->c->w, OPT_LIMIT_BODY);
	if (max > 0 && t->request.body == BODY_LENGTH && t->request.length > max)
		return ST_TOO_BIG;
	return ws_check_request(&t->request, &t->is_ws);
}

void
turn_describe(struct turn *t)
{
	struct exchange *x = &t->x;

	conn_exchange(t->c, x);
	t->has_exchange = true;
	x->way = WAY_HTTP;
	x->method = t->request.method;
	x->request = &t->request;
	x->begun_ms = t->begun_ms;
	if (t->c->dest.port != 0)
		x->dest = &t->c->dest;
}

static void
judge(struct turn *t)
{
	struct h1_limits lim = limits(t->c->w);

	turn_describe(t);
	h1_body_init(&t->body, &t->request, &lim);
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
	if (page_is_ours(&t->uri.dest)) {
		page_serve(t);
		return;
	}
	turn_chain(t, PHASE_REQUEST);
}

size_t
turn_take_head(struct turn *t, struct str in)
{
	size_t used = 0;

	if (t->state == TURN_IDLE) {
		if (hand_back(t, in))
			return in.n;
		begin(t);
	}
	enum status st = h1_read_feed(&t->reader, in, &used, &t->request);
	if (st == ST_OK) {
		judge(t);
	} else if (st != ST_AGAIN) {
		turn_describe(t);
		t->is_last =
			true; /* where the next request would start is anyone's guess */
		turn_refuse(t, st);
		return in.n;
	}
	return used;
}

/* A leg is there: the last word of the chain, then the head goes. */
static void
opened(struct turn *t)
{
	struct leg *g = t->leg;

	g->io.fn = turn_on_leg;
	g->io.ctx = t;
	g->head_seen = false;
	memcpy(t->x.address, g->address, sizeof g->address);
	memcpy(t->x.country, g->country, sizeof g->country);
	turn_chain(t, PHASE_OPEN);
}

void
turn_forward(struct turn *t)
{
	struct worker *w = t->c->w;
	struct leg *g = t->leg;
	struct h1_limits lim = limits(w);
	struct h1_frame f = h1_frame_of(&t->request);
	struct gather out;
	struct str head;

	arena_done(&t->reply); /* of a host that was asked in vain before */
	h1_read_response(&g->reader, &t->reply, &lim, t->request.method_id, t->is_ws);
	f.is_upgrade = t->is_ws;
	f.keeps_expect = t->request.expects_continue;
	buf_clear(&t->scratch);
	h1_write_request(&t->scratch, &t->request, &t->uri, 80, &f);
	gather_begin(&out, &g->out);
	if (buf_finish(&t->scratch, &head) == ST_OK)
		gather_view(&out, head);
	turn_to(t, TURN_FORWARD);
	/* A broken leg shows again when its response is read: retried or told there. */
	if (t->scratch.st != ST_OK)
		turn_refuse(t, ST_NOMEM);
	else if (gather_end(&out, loop_now_ms(w->loop)) == ST_END)
		g->out.blocked_ms = 0;
}

static void
dialed(void *ctx, const struct dial_result *r)
{
	struct turn *t = ctx;
	struct worker *w = t->c->w;

	t->dial = NULL;
	dial_note(r, &t->x);
	if (r->st != ST_OK) {
		turn_refuse(t, r->st);
	} else {
		t->leg = leg_new(w->loop, r->fd, &t->uri.dest);
		if (t->leg == NULL) {
			turn_refuse(t, ST_NOMEM);
		} else {
			t->leg->handle = t->c->limit->handle;
			t->leg->generation = t->generation;
			memcpy(t->leg->address, t->x.address, sizeof t->leg->address);
			memcpy(t->leg->country, t->x.country, sizeof t->x.country);
			opened(t);
		}
	}
	if (t->state != TURN_OVER)
		turn_settle(t);
}

/* Nothing of a request was answered, so a safe one may be asked again. */
bool
turn_may_repeat(const struct turn *t)
{
	enum method m = t->request.method_id;

	return (m == METHOD_GET || m == METHOD_HEAD || m == METHOD_OPTIONS) &&
	       t->request.body == BODY_NONE && !t->is_ws;
}

static bool
is_quiet(const struct leg *g)
{
	char c;

	return recv(g->io.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* A kept leg.  What can't be repeated goes only where no close is to be seen. */
static struct leg *
kept(struct turn *t)
{
	struct worker *w = t->c->w;
	struct leg *g = pool_take(w->pool, t->c->limit->handle, &t->uri.dest);

	while (g != NULL && !turn_may_repeat(t) && !is_quiet(g)) {
		leg_free(g, w->loop);
		g = pool_take(w->pool, t->c->limit->handle, &t->uri.dest);
	}
	return g;
}

void
turn_open(struct turn *t)
{
	struct worker *w = t->c->w;

	turn_to(t, TURN_OPEN);
	if (!t->is_retry)
		t->leg = kept(t);
	t->generation = w->role.generation;
	if (t->leg != NULL) {
		stats_add(w->role.stats, STAT_REUSED, 1);
		opened(t);
		return;
	}
	enum status st = dial_start(t->c, &t->uri.dest, WAY_HTTP, dialed, t, &t->dial);
	if (st != ST_OK)
		turn_refuse(t, st);
}

bool
turn_request_is_over(const struct turn *t)
{
	return h1_body_is_over(&t->body) && !t->up.waits;
}

/* Behind a gather to the host: counts, limits, and what went wrong. */
static void
settle_body(struct turn *t, struct gather *g, enum status st, uint64_t came)
{
	uint64_t max = worker_option(t->c->w, OPT_LIMIT_BODY);
	enum status counted;

	t->since_ms = loop_now_ms(t->c->w->loop);
	/* The answer of a host that is gone, if it sent one before, is still to be
	 * read. */
	if (gather_end(g, t->since_ms) == ST_END)
		t->is_last = true;
	counted = conn_count(t->c, came, 0);
	t->body_bytes += came;
	if (st == ST_OK)
		st = counted;
	if (st == ST_OK && max > 0 && t->body_bytes > max)
		st = ST_TOO_BIG;
	if (st == ST_OK)
		return;
	t->is_last = true;
	turn_refuse(t, st);
}

void
turn_body_resumed(struct turn *t)
{
	struct gather g;

	gather_begin(&g, &t->leg->out);
	enum status st = turn_put_body(t, false, &g, (struct str){ "", 0 }, false);
	settle_body(t, &g, st == ST_AGAIN ? ST_OK : st, 0);
}

size_t
turn_take_body(struct turn *t, struct str in)
{
	struct gather g;
	struct str payload;
	size_t used = 0, k = 0;
	uint64_t came = 0;
	enum status st = ST_OK;

	if (h1_body_is_over(&t->body) || t->up.waits || out_is_blocked(&t->leg->out))
		return 0;
	gather_begin(&g, &t->leg->out);
	while (used < in.n && st == ST_OK && !h1_body_is_over(&t->body)) {
		st = h1_body_feed(&t->body, str_skip(in, used), &k, &payload);
		if (st != ST_OK && st != ST_AGAIN && st != ST_END)
			break;
		used += k;
		if (st != ST_OK)
			continue;
		came += payload.n;
		st = turn_put_body(t, false, &g, payload, false);
	}
	if (h1_body_is_over(&t->body) && t->up.waits)
		t->up.is_last = true;
	else if (h1_body_is_over(&t->body) && (st == ST_OK || st == ST_END))
		st = turn_put_body(t, false, &g, (struct str){ "", 0 }, true);
	settle_body(t, &g, st == ST_AGAIN ? ST_OK : st, came);
	return t->state == TURN_FORWARD ? used : in.n;
}

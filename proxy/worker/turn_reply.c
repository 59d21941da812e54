#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <unistd.h>

#include "proxy/http/ws.h"
#include "proxy/worker/pool.h"
#include "proxy/worker/tunnel.h"
#include "proxy/worker/turn_in.h"

static uint64_t
now(const struct turn *t)
{
	return loop_now_ms(t->c->w->loop);
}

/* The host failed.  Before the response began that can be told; after, only shown. */
static void
host_failed(struct turn *t, enum status why)
{
	if (!t->is_answered) {
		turn_refuse(t, why);
		return;
	}
	turn_end_exchange(t, why);
	conn_reset(t->c); /* a clean close would pass for the end of the body */
}

/* A kept connection that its host closed as the request went out: nothing of this
 * request was answered, so a safe one may be asked again, once, on a new connection. */
static bool
may_retry(const struct turn *t)
{
	return t->leg->served > 0 && !t->is_retry && !t->is_answered &&
	       !h1_read_has_begun(&t->leg->reader) && turn_may_repeat(t);
}

/* How the client gets the body, whatever way it came. */
static enum body_kind
frame_for_client(const struct turn *t)
{
	switch (t->response.body) {
	case BODY_CHUNKED:
	case BODY_UNTIL_CLOSE:
		return t->request.minor > 0 ? BODY_CHUNKED : BODY_UNTIL_CLOSE;
	case BODY_NONE:
	case BODY_LENGTH:
	case BODY_TUNNEL:
		break;
	}
	return t->response.body;
}

static bool
keeps_client(const struct turn *t)
{
	const struct worker *w = t->c->w;

	return t->request.is_persistent && !t->is_last && !t->is_eof &&
	       t->reply_frame != BODY_UNTIL_CLOSE && !w->is_draining &&
	       t->served + 1 < worker_option(w, OPT_LIMIT_KEEPALIVE);
}

static void
put_head(struct turn *t, struct gather *g, const struct h1_frame *f)
{
	buf_clear(&t->scratch);
	h1_write_response(&t->scratch, &t->response, f);
	if (t->scratch.st == ST_OK)
		gather_copy(g, str_of(t->scratch.p, t->scratch.len));
	else
		g->st = ST_NOMEM;
}

/* 1xx: passed on to clients that know of it; the final response is still to come. */
static enum status
interim(struct turn *t, struct gather *g)
{
	struct worker *w = t->c->w;
	struct h1_limits lim = t->leg->reader.limits;
	struct h1_frame f = h1_frame_of(&t->response);

	if (++t->interim > TURN_INTERIM_MAX)
		return ST_UPSTREAM_BAD;
	if (t->request.minor > 0)
		put_head(t, g, &f);
	t->since_ms = loop_now_ms(w->loop);
	h1_read_done(&t->leg->reader);
	arena_done(&t->reply);
	h1_read_response(&t->leg->reader, &t->reply, &lim, t->request.method_id,
			 t->is_ws);
	return ST_OK;
}

/* The chain has let the response's head pass: it goes to the client. */
static void
begin_reply(struct turn *t, struct gather *g)
{
	struct h1_limits lim = t->leg->reader.limits;
	struct h1_frame f = h1_frame_of(&t->response);

	h1_body_init(&t->leg->body, &t->response, &lim);
	t->leg->head_seen = true;
	t->reply_frame = (uint8_t)frame_for_client(t);
	f.body = (enum body_kind)t->reply_frame;
	f.is_close = !keeps_client(t) || !turn_request_is_over(t);
	if (f.is_close)
		t->is_last = true;
	put_head(t, g, &f);
	t->is_answered = true;
}

/* False: a filter holds it, or it goes nowhere. */
static bool
final_head(struct turn *t, struct gather *g)
{
	enum verdict v;

	t->x.response = &t->response;
	t->x.http_status = t->response.status;
	conn_refresh(t->c, &t->x);
	v = exchange_run(&t->x, PHASE_RESPONSE);
	if (v == VERDICT_NEXT) {
		begin_reply(t, g);
		return true;
	}
	if (gather_end(g, now(t)) == ST_END) /* interim heads */
		t->is_last = true;
	turn_went(t, PHASE_RESPONSE, v);
	return false;
}

/* 101: from here on both ends are a tunnel. */
static void
upgrade(struct turn *t, struct gather *g, struct str rest)
{
	CLEANUP(buf_done) struct buf first = { 0 };
	CLEANUP(buf_done) struct buf ahead = { 0 };
	uint8_t digest[WS_DIGEST];
	struct h1_frame f = h1_frame_of(&t->response);
	struct conn *c = t->c;
	struct str for_client, for_host;

	buf_init(&first, TURN_SCRATCH_MAX);
	buf_init(&ahead, TURN_SCRATCH_MAX);
	ws_put_digest_input(&first, &t->request);
	(void)SHA1((const unsigned char *)first.p, first.len, digest);
	if (!t->is_ws || first.st != ST_OK ||
	    !ws_check_response(&t->response, digest) ||
	    gather_end(g, now(t)) != ST_OK) {
		host_failed(t, ST_UPSTREAM_BAD);
		return;
	}
	f.is_upgrade = true;
	buf_clear(&first);
	h1_write_response(&first, &t->response, &f);
	buf_put(&first, rest);
	buf_put(&ahead, ring_linear(&t->ahead));
	int fd = fcntl(t->leg->io.fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0 || buf_finish(&first, &for_client) != ST_OK ||
	    buf_finish(&ahead, &for_host) != ST_OK) {
		if (fd >= 0)
			(void)close(fd);
		host_failed(t, ST_NOMEM);
		return;
	}
	t->x.http_status = 101;
	c->dest = t->uri.dest;
	struct exchange x = t->x;
	x.dest = &c->dest;
	t->has_exchange = false; /* the tunnel ends it */
	x.method = x.path = x.query = (struct str){ "", 0 };
	x.request = x.response = NULL;
	tunnel_adopt(c, &x, fd, for_host, for_client);
}

/* One head of the host is complete.  False: nothing of this reply may be taken now. */
static bool
take_reply_head(struct turn *t, struct gather *g, struct str rest)
{
	enum status st;

	if (t->response.status == 101) {
		upgrade(t, g, rest);
		return false;
	}
	if (t->response.status >= 200)
		return final_head(t, g);
	st = interim(t, g);
	if (st != ST_OK)
		host_failed(t, st);
	return st == ST_OK;
}

static enum status
last_of_reply(struct turn *t, struct gather *g)
{
	enum status st;

	if (t->down.waits) {
		t->down.is_last = true;
		return ST_AGAIN;
	}
	st = turn_put_body(t, true, g, (struct str){ "", 0 }, true);
	return st == ST_OK ? ST_END : st;
}

/* ST_AGAIN: more is to come; ST_END: the response is complete; else what is wrong. */
static enum status
take_reply_body(struct turn *t, struct gather *g, struct str *in)
{
	struct str payload;
	enum status st = ST_OK;
	size_t k = 0;

	while (st == ST_OK) {
		st = h1_body_feed(&t->leg->body, *in, &k, &payload);
		if (st != ST_OK && st != ST_AGAIN && st != ST_END)
			return ST_UPSTREAM_BAD;
		*in = str_skip(*in, k);
		if (st == ST_OK)
			st = turn_put_body(t, true, g, payload, false);
		else if (st == ST_END)
			return last_of_reply(t, g);
	}
	return st;
}

static void
settle_reply(struct turn *t, struct gather *g, enum status st, uint64_t down)
{
	bool gone = gather_end(g, now(t)) == ST_END;
	enum status counted = conn_count(t->c, 0, down);

	t->since_ms = now(t);
	if (counted != ST_OK)
		stats_add(t->c->w->role.stats, STAT_LIMIT_BYTES, 1);
	if (gone || counted != ST_OK) {
		turn_end_exchange(t, gone ? ST_CLIENT_GONE : counted);
		conn_reset(t->c);
	} else if (st == ST_END) {
		turn_finish(t);
	} else if (st != ST_AGAIN) {
		host_failed(t, st);
	}
}

/* Returns how much it took. */
static size_t
take_reply(struct turn *t, struct str in)
{
	struct gather g;
	enum status st = ST_OK;
	uint64_t before = t->x.bytes_down;
	size_t k = 0, all = in.n;

	gather_begin(&g, &t->out);
	while (st == ST_OK && !t->leg->head_seen) {
		st = h1_read_feed(&t->leg->reader, in, &k, &t->response);
		if (st != ST_OK && st != ST_AGAIN)
			break;
		in = str_skip(in, k);
		if (st == ST_OK && !take_reply_head(t, &g, in))
			return all - in.n;
	}
	if (st == ST_OK)
		st = take_reply_body(t, &g, &in);
	if (st == ST_END && in.n > 0)
		t->leg->is_clean = false; /* more than was asked for */
	settle_reply(t, &g, st, t->x.bytes_down - before);
	return all - in.n;
}

void
turn_reply_begin(struct turn *t)
{
	struct gather g;

	gather_begin(&g, &t->out);
	begin_reply(t, &g);
	if (gather_end(&g, now(t)) == ST_END) {
		turn_end_exchange(t, ST_CLIENT_GONE);
		conn_close(t->c);
	} else {
		(void)take_reply(t, (struct str){ "", 0 }); /* it may have no body */
	}
}

bool
turn_reply_waits(const struct turn *t)
{
	return t->x.is_held || t->down.waits || !ring_is_empty(&t->behind);
}

void
turn_feed_behind(struct turn *t)
{
	size_t used = 1;

	while (t->state == TURN_FORWARD && used > 0 && !ring_is_empty(&t->behind) &&
	       !t->x.is_held && !t->down.waits && !out_is_blocked(&t->out)) {
		used = take_reply(t, ring_linear(&t->behind));
		if (t->state == TURN_FORWARD)
			ring_consume(&t->behind, used);
	}
}

/* A body that the host's close ended: the filters have yet to see its end. */
static void
end_reply(struct turn *t)
{
	struct gather g;
	uint64_t before = t->x.bytes_down;

	gather_begin(&g, &t->out);
	enum status st = last_of_reply(t, &g);
	settle_reply(t, &g, st, t->x.bytes_down - before);
}

void
turn_reply_resumed(struct turn *t)
{
	struct gather g;
	uint64_t before = t->x.bytes_down;

	gather_begin(&g, &t->out);
	enum status st = turn_put_body(t, true, &g, (struct str){ "", 0 }, false);
	if (st == ST_OK)
		st = t->down.is_last ? ST_END : ST_AGAIN;
	settle_reply(t, &g, st, t->x.bytes_down - before);
	if (t->state == TURN_FORWARD && !t->down.waits)
		(void)take_reply(t, (struct str){ "", 0 }); /* all of it may be here */
}

static void
host_closed(struct turn *t, enum status why)
{
	t->leg->is_eof = true;
	if (may_retry(t)) {
		turn_drop_leg(t);
		t->is_retry = true;
		turn_open(t);
	} else if (why == ST_OK && t->leg->head_seen &&
		   h1_body_may_close(&t->leg->body)) {
		end_reply(t);
	} else {
		host_failed(t, ST_UPSTREAM_CLOSED);
	}
}

static void
read_leg(struct turn *t)
{
	struct worker *w = t->c->w;
	ssize_t n = read(t->leg->io.fd, w->space, WORKER_SPACE);

	if (n > 0) {
		struct str in = str_of(w->space, (size_t)n);
		struct str rest = str_skip(in, take_reply(t, in));
		if (t->state == TURN_FORWARD && ring_write(&t->behind, rest) != rest.n)
			host_failed(t, ST_NOMEM);
	} else if (n == 0) {
		host_closed(t, ST_OK);
	} else if (errno != EAGAIN && errno != EINTR) {
		host_closed(t, ST_UPSTREAM_CLOSED);
	}
}

void
turn_on_leg(void *ctx, unsigned events)
{
	struct turn *t = ctx;

	if ((events & LOOP_WRITE) != 0 && out_resume(&t->leg->out, now(t)) == ST_END) {
		ring_done(
			&t->leg->out.held); /* it may have answered before it closed */
		t->is_last = true;
	}
	if ((events & LOOP_READ) != 0 && t->state == TURN_FORWARD)
		read_leg(t);
	if (t->state != TURN_OVER)
		turn_settle(t);
}

void
turn_finish(struct turn *t)
{
	struct worker *w = t->c->w;
	struct leg *g = t->leg;
	bool request_over = turn_request_is_over(t);

	turn_end_exchange(t, ST_OK);
	g->served++;
	if (request_over && g->is_clean && !g->is_eof && t->response.is_persistent &&
	    g->body.kind != BODY_UNTIL_CLOSE && !out_is_blocked(&g->out) &&
	    g->generation == w->role.generation && t->c->limit->handle == g->handle) {
		h1_read_done(&g->reader);
		h1_body_done(&g->body);
		t->leg = NULL;
		pool_give(w->pool, g, now(t));
	} else {
		turn_drop_leg(t);
	}
	if (!request_over || t->reply_frame == BODY_UNTIL_CLOSE)
		t->is_last = true;
	turn_to(t, TURN_FLUSH);
	if (!out_is_blocked(&t->out))
		turn_next(t);
}

#include "proxy/http/h2.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/base/num.h"
#include "proxy/http/h2_in.h"

enum { FIRST_UNKNOWN = NGHTTP2_CONTINUATION + 1 };

/* What was in a block is gone when the block is. */
static void
wipe_free(void *p, void *ctx)
{
	(void)ctx;
	if (p == NULL)
		return;
	explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

static void *
wipe_malloc(size_t n, void *ctx)
{
	(void)ctx;
	return malloc(n);
}

static void *
wipe_calloc(size_t n, size_t size, void *ctx)
{
	(void)ctx;
	return calloc(n, size);
}

/* Never in place: what realloc() leaves behind would not be wiped. */
static void *
wipe_realloc(void *p, size_t n, void *ctx)
{
	void *q = malloc(n);

	if (q == NULL || p == NULL)
		return q;
	memcpy(q, p, num_min(n, malloc_usable_size(p)));
	wipe_free(p, ctx);
	return q;
}

void
h2_fail(struct h2 *h, enum status why, uint32_t code)
{
	if (h->why != ST_OK)
		return;
	h->why = why;
	h->is_closing = true;
	/* Without memory for a GOAWAY the connection just closes. */
	(void)nghttp2_session_terminate_session(h->session, code);
}

struct h2_stream *
h2_stream_new(struct h2 *h, int32_t id)
{
	struct h2_stream *s = calloc(1, sizeof *s);

	if (s == NULL)
		return NULL;
	s->h = h;
	s->id = id;
	arena_init(&s->arena, 3 * h->limits.head.head + H2_HEAD_SLACK);
	arena_init(&s->trailers_arena, 3 * h->limits.head.head + H2_HEAD_SLACK);
	ring_init(&s->held, 1);
	list_append(&h->streams, &s->link);
	h->streams_n++;
	return s;
}

void
h2_drop_held(struct h2_stream *s)
{
	if (s->h->limits.wipes && s->held.p != NULL)
		explicit_bzero(s->held.p, s->held.cap);
	ring_done(&s->held);
}

void
h2_stream_free(struct h2_stream *s)
{
	struct h2 *h = s->h;

	h->heads -= s->heads;
	h->streams_n--;
	list_remove(&s->link);
	h2_drop_held(s);
	arena_done(&s->arena);
	arena_done(&s->trailers_arena);
	free(s);
}

void
h2_emit_closed(struct h2_stream *s, uint32_t code)
{
	struct h2 *h = s->h;

	if (s->is_known)
		h->events.closed(h->ctx, s, code);
	h2_stream_free(s);
}

static enum status
submit_settings(struct h2 *h)
{
	const nghttp2_settings_entry all[] = {
		/* The first, and left out where the usual 4096 is fine. */
		{ NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0 },
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
		  h->is_server ? h->limits.streams : 0 },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)h->limits.window },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
		  (uint32_t)h->limits.head.head },
		{ h->is_server ? NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL
			       : NGHTTP2_SETTINGS_ENABLE_PUSH,
		  h->is_server },
	};

	size_t from = h->limits.wipes && !h->is_server ? 0 : 1;
	if (nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, all + from,
				    COUNT_OF(all) - from) != 0)
		return ST_NOMEM;
	/* Credit is told when half of a window has gone on: of twice as much, that half
	 * is never needed for streams that stand still. */
	size_t window = num_min(2 * h->limits.connection, INT32_MAX);
	if (nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0,
						  (int32_t)window) != 0)
		return ST_NOMEM;
	return ST_OK;
}

static enum status
new_session(struct h2 *h, const nghttp2_session_callbacks *c, const nghttp2_option *o)
{
	nghttp2_mem *mem = h->limits.wipes ? &h->mem : NULL;
	int rv = h->is_server ? nghttp2_session_server_new3(&h->session, c, h, o, mem)
			      : nghttp2_session_client_new3(&h->session, c, h, o, mem);

	if (rv != 0)
		return ST_NOMEM;
	return submit_settings(h);
}

static enum status
new_option(const struct h2 *h, nghttp2_option **ret_o)
{
	nghttp2_option *o;

	if (nghttp2_option_new(&o) != 0)
		return ST_NOMEM;
	nghttp2_option_set_no_auto_window_update(o, 1);
	/* These rules are ours, h2_flood.h: the first has no clock of its own then, and
	 * the second counts frames, where nghttp2 counts reads that begin within one. */
	nghttp2_option_set_stream_reset_rate_limit(o, UINT32_MAX, UINT32_MAX);
	nghttp2_option_set_max_continuations(o, SIZE_MAX);
	/* So that frames which nobody knows are told at all. */
	for (unsigned type = FIRST_UNKNOWN; type <= UINT8_MAX; type++)
		nghttp2_option_set_user_recv_extension_type(o, (uint8_t)type);
	nghttp2_option_set_max_reserved_remote_streams(o, 0);
	nghttp2_option_set_peer_max_concurrent_streams(o, h->limits.streams);
	nghttp2_option_set_max_send_header_block_length(o, 4 * h->limits.head.head);
	*ret_o = o;
	return ST_OK;
}

static enum status
start(struct h2 *h)
{
	nghttp2_session_callbacks *c;
	nghttp2_option *o = NULL;

	if (nghttp2_session_callbacks_new(&c) != 0)
		return ST_NOMEM;
	h2_set_callbacks(c);
	enum status st = new_option(h, &o);
	if (st == ST_OK)
		st = new_session(h, c, o);
	nghttp2_option_del(o);
	nghttp2_session_callbacks_del(c);
	return st;
}

struct h2 *
h2_new(enum h2_role role, const struct h2_limits *lim, const struct h2_events *ev,
       void *ctx)
{
	struct h2 *h = calloc(1, sizeof *h);

	if (h == NULL)
		return NULL;
	h->is_server = role == H2_SERVER;
	h->limits = *lim;
	h->events = *ev;
	h->ctx = ctx;
	h->last_id = -1;
	h->mem = (nghttp2_mem){ NULL, wipe_malloc, wipe_free, wipe_calloc,
				wipe_realloc };
	list_init(&h->streams);
	h2_flood_init(&h->flood);
	buf_init(&h->out, SIZE_MAX / 2);
	if (start(h) == ST_OK)
		return h;
	h2_free(h);
	return NULL;
}

static void
drop_out(struct h2 *h)
{
	if (h->limits.wipes && h->out.p != NULL)
		explicit_bzero(h->out.p, h->out.len);
	buf_done(&h->out);
	h->out_sent = 0;
}

/* A buf that grows may leave its old memory behind: not where that must be wiped. */
static void
move_out(struct h2 *h, size_t n)
{
	struct buf more;

	buf_init(&more, SIZE_MAX / 2);
	(void)buf_space(&more, h->out.len + n + (size_t)2 * H2_BATCH);
	buf_put(&more, str_of(h->out.p, h->out.len));
	if (h->out.p != NULL)
		explicit_bzero(h->out.p, h->out.len);
	buf_done(&h->out);
	h->out = more;
}

void
h2_out_put(struct h2 *h, struct str s)
{
	if (h->limits.wipes && s.n > h->out.cap - h->out.len)
		move_out(h, s.n);
	buf_put(&h->out, s);
}

void
h2_free(struct h2 *h)
{
	if (h == NULL)
		return;
	/* First, as it may still tell of its streams. */
	nghttp2_session_del(h->session);
	list_each_safe (it, &h->streams)
		h2_stream_free(LIST_OF(it, struct h2_stream, link));
	drop_out(h);
	free(h);
}

static enum status
fault(const struct h2 *h, enum status st)
{
	return st == ST_BAD_REQUEST && !h->is_server ? ST_UPSTREAM_BAD : st;
}

/* What nghttp2 found by itself: a GOAWAY of its own is under way, or nothing will be. */
static enum status
outcome(struct h2 *h, ssize_t rv)
{
	if (h->why != ST_OK)
		return fault(h, h->why);
	size_t waiting = nghttp2_session_get_outbound_queue_size(h->session);
	if (rv == NGHTTP2_ERR_NOMEM)
		h2_fail(h, ST_NOMEM, H2_INTERNAL_ERROR);
	else if (rv == NGHTTP2_ERR_FLOODED || (rv >= 0 && waiting > H2_QUEUE_MAX))
		h2_fail(h, ST_LIMIT_RATE, H2_ENHANCE_YOUR_CALM);
	else if (rv < 0)
		h2_fail(h, ST_BAD_REQUEST, H2_PROTOCOL_ERROR);
	else if (!nghttp2_session_want_read(h->session))
		h->why = h->is_closing ? ST_END : ST_BAD_REQUEST;
	return fault(h, h->why);
}

enum status
h2_feed(struct h2 *h, struct str in, uint64_t now_ms)
{
	h->now_ms = now_ms;
	if (h->why != ST_OK)
		return fault(h, h->why);
	return outcome(
		h, nghttp2_session_mem_recv(h->session, (const uint8_t *)in.p, in.n));
}

void
h2_close(struct h2 *h)
{
	h->is_closing = true;
	list_each_safe (it, &h->streams) {
		struct h2_stream *s = LIST_OF(it, struct h2_stream, link);
		(void)nghttp2_session_set_stream_user_data(h->session, s->id, NULL);
		h2_emit_closed(s, H2_CONNECT_ERROR);
	}
}

struct str
h2_pending(struct h2 *h, uint64_t now_ms)
{
	const uint8_t *p;
	ssize_t n = 1;

	h->now_ms = now_ms;
	if (h->out_sent == h->out.len)
		drop_out(h);
	while (n > 0 && h->out.len < H2_BATCH && h->out_sent == 0) {
		n = nghttp2_session_mem_send(h->session, &p);
		if (n < 0)
			h2_fail(h, ST_NOMEM, H2_INTERNAL_ERROR);
		else
			h2_out_put(h, str_of(p, (size_t)n));
	}
	if (h->out.st != ST_OK)
		h2_fail(h, ST_NOMEM, H2_INTERNAL_ERROR);
	return str_skip(str_of(h->out.p, h->out.len), h->out_sent);
}

void
h2_sent(struct h2 *h, size_t n)
{
	need(n <= h->out.len - h->out_sent);
	h->out_sent += n;
}

bool
h2_is_over(const struct h2 *h)
{
	return h->out_sent == h->out.len && !nghttp2_session_want_write(h->session) &&
	       (h->why != ST_OK || !nghttp2_session_want_read(h->session));
}

bool
h2_has_output(const struct h2 *h)
{
	return h->out_sent < h->out.len || nghttp2_session_want_write(h->session);
}

uint64_t
h2_head_since(const struct h2 *h)
{
	return h->head_ms;
}

size_t
h2_streams(const struct h2 *h)
{
	return h->streams_n;
}

/*
 * RFC 9113 section 6.8: first say it, and when the peer has surely read that (it answers
 * the PING), say which request was the last.
 */
void
h2_goaway(struct h2 *h)
{
	if (h->is_draining || h->why != ST_OK)
		return;
	h->is_draining = h->is_closing = true;
	if (!h->is_server)
		return;
	(void)nghttp2_submit_shutdown_notice(h->session);
	(void)nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, NULL);
}

bool
h2_is_closing(const struct h2 *h)
{
	return h->is_closing;
}

uint32_t
h2_most_streams(const struct h2 *h)
{
	uint32_t most = nghttp2_session_get_remote_settings(
		h->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

	return most < h->limits.streams ? most : h->limits.streams;
}

bool
h2_may_request(const struct h2 *h)
{
	return !h->is_closing && h->streams_n < h2_most_streams(h) &&
	       nghttp2_session_check_request_allowed(h->session);
}

bool
h2_has_begun(const struct h2 *h)
{
	return h->has_begun;
}

bool
h2_refuses_ws(const struct h2 *h)
{
	return h->has_begun &&
	       nghttp2_session_get_remote_settings(
		       h->session, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) != 1;
}

void
h2_own(struct h2_stream *s, void *owner)
{
	s->owner = owner;
}

void *
h2_owner(const struct h2_stream *s)
{
	return s->owner;
}

void
h2_keep(struct h2_stream *s, const struct head *h, struct arena *ret_a,
	struct head *ret_h)
{
	struct arena mine = s->arena;

	*ret_h = *h;
	ret_h->arena = ret_a;
	arena_init(&s->arena, mine.max);
	head_init(&s->head, &s->arena);
	*ret_a = mine;
}

void
h2_credit(struct h2_stream *s, size_t n)
{
	if (s->is_ours) /* a reset gave all of it back */
		return;
	need(n <= s->uncredited);
	s->uncredited -= n;
	if (n > 0)
		(void)nghttp2_session_consume(s->h->session, s->id, n);
}

void
h2_reset(struct h2_stream *s, uint32_t code)
{
	if (s->is_ours)
		return;
	h2_credit(s, s->uncredited);
	s->is_ours = s->is_dead = true;
	h2_drop_held(s);
	s->lent = (struct str){ NULL, 0 };
	(void)nghttp2_submit_rst_stream(s->h->session, NGHTTP2_FLAG_NONE, s->id, code);
}

void
h2_leave(struct h2_stream *s)
{
	s->is_dead = s->is_leaving = true;
	h2_credit(s, s->uncredited);
	if (s->is_out_whole)
		h2_our_end(s);
}

bool
h2_expire(struct h2 *h, uint64_t now_ms)
{
	bool was_any = false;

	list_each (it, &h->streams) {
		struct h2_stream *s = LIST_OF(it, struct h2_stream, link);
		bool waits = s->is_leaving && s->is_out_whole && !s->is_in_whole;
		if (!waits || s->is_ours || now_ms - s->left_ms < H2_LEFT_MS)
			continue;
		h2_reset(s, H2_NO_ERROR);
		was_any = true;
	}
	return was_any;
}

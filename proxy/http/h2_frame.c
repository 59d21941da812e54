#include "proxy/http/h2_in.h"

static struct h2_stream *
find(struct h2 *h, int32_t id)
{
	return nghttp2_session_get_stream_user_data(h->session, id);
}

static int
flood(struct h2 *h)
{
	h2_fail(h, ST_LIMIT_RATE, H2_ENHANCE_YOUR_CALM);
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* Of a frame whose header is all that is known yet. */
static bool
ends_something(const nghttp2_frame_hd *hd)
{
	if (hd->type == NGHTTP2_CONTINUATION)
		return hd->flags & NGHTTP2_FLAG_END_HEADERS;
	return hd->flags & NGHTTP2_FLAG_END_STREAM;
}

/* Is this what can be sent for ever without meaning anything? */
static bool
is_idle(const struct h2 *h, const nghttp2_frame_hd *hd)
{
	switch (hd->type) {
	case NGHTTP2_DATA:
	case NGHTTP2_HEADERS:
	case NGHTTP2_CONTINUATION:
		return false;
	case NGHTTP2_RST_STREAM: /* of a server that is: the other rule counts it */
		return !h->is_server;
	default:
		return true;
	}
}

/*
 * RFC 9113 section 5.1.1: ids that were left out are closed for good.  One range of them
 * is remembered: nobody who leaves out more of them means well.
 */
static bool
is_backwards(struct h2 *h, int32_t id)
{
	if (!h->is_server || id % 2 == 0)
		return false;
	if (id <= h->last_id)
		return id >= h->skipped_from && id < h->skipped_to;
	if (id > h->last_id + 2) {
		h->skipped_from = h->last_id + 1;
		h->skipped_to = id;
	}
	h->last_id = id;
	return false;
}

static int
on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *ctx)
{
	struct h2 *h = ctx;

	/* Nothing is awaited any more: what comes all the same must not be heard or not
	 * as its bytes happen to arrive. */
	if (h->is_closing && !nghttp2_session_want_read(session)) {
		h->why = ST_END;
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (hd->type != NGHTTP2_CONTINUATION)
		h->head_ms = 0; /* the one before is over, well or not */
	if (!h2_flood_part(&h->flood, hd->type == NGHTTP2_CONTINUATION))
		return flood(h);
	if (is_idle(h, hd) && !h2_flood_idle(&h->flood, h->now_ms))
		return flood(h);
	if (hd->type == NGHTTP2_RST_STREAM && h->is_server &&
	    !h2_flood_reset(&h->flood, h->now_ms))
		return flood(h);
	if (hd->type == NGHTTP2_HEADERS || hd->type == NGHTTP2_CONTINUATION) {
		bool is_empty = hd->length == 0 && !ends_something(hd);
		if (hd->type == NGHTTP2_HEADERS)
			h->head_ms = h->now_ms;
		if (hd->type == NGHTTP2_HEADERS && is_backwards(h, hd->stream_id)) {
			h2_fail(h, ST_BAD_REQUEST, H2_PROTOCOL_ERROR);
			return NGHTTP2_ERR_CALLBACK_FAILURE;
		}
		return h2_flood_empty(&h->flood, is_empty) ? 0 : flood(h);
	}
	return 0;
}

/* Padding isn't payload: known when the frame is complete. */
static int
judge_data(struct h2 *h, const nghttp2_data *d)
{
	bool is_empty = d->hd.length == d->padlen;

	if (!is_empty)
		h2_flood_earn(&h->flood);
	return h2_flood_empty(&h->flood, is_empty && !ends_something(&d->hd))
		       ? 0
		       : flood(h);
}

/* A new request: refused while too much of others is held. */
static int
begin_request(struct h2 *h, int32_t id)
{
	struct h2_stream *s = NULL;

	h2_flood_earn(&h->flood);
	if (h->heads < h->limits.heads)
		s = h2_stream_new(h, id);
	if (s == NULL) {
		(void)nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, id,
						H2_REFUSED_STREAM);
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	(void)nghttp2_session_set_stream_user_data(h->session, id, s);
	h2_head_begin(s);
	return 0;
}

static int
on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
	struct h2 *h = ctx;

	(void)session;
	if (frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	if (frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		return begin_request(h, frame->hd.stream_id);
	struct h2_stream *s = find(h, frame->hd.stream_id);
	if (s != NULL)
		h2_head_begin(s);
	return 0;
}

static struct str
view_of(nghttp2_rcbuf *text)
{
	nghttp2_vec v = nghttp2_rcbuf_get_buf(text);

	return str_of(v.base, v.len);
}

static int
on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
	  nghttp2_rcbuf *value, uint8_t flags, void *ctx)
{
	struct h2 *h = ctx;
	struct h2_stream *s = find(h, frame->hd.stream_id);

	(void)session;
	(void)flags;
	if (s == NULL)
		return 0;
	enum status st = h2_head_field(s, view_of(name), view_of(value));
	if (st == ST_OK)
		return 0;
	h2_fail(h, st, st == ST_NOMEM ? H2_INTERNAL_ERROR : H2_ENHANCE_YOUR_CALM);
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* nghttp2 would leave such a field out; to us it is an error, as in HTTP/1. */
static int
on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
		  nghttp2_rcbuf *name, nghttp2_rcbuf *value, uint8_t flags, void *ctx)
{
	(void)name;
	(void)value;
	(void)flags;
	(void)ctx;
	(void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
					NGHTTP2_PROTOCOL_ERROR);
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* Nobody waits for it: a sender that doesn't notice is told when it was much. */
static void
drop(struct h2_stream *s, size_t n)
{
	s->dropped += n;
	if (s->is_out_whole && s->dropped > s->h->limits.window)
		h2_reset(s, H2_NO_ERROR);
}

static int
on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *p,
	      size_t n, void *ctx)
{
	struct h2 *h = ctx;
	struct h2_stream *s = find(h, id);

	(void)flags;
	if (s == NULL || s->is_dead || n == 0) {
		(void)nghttp2_session_consume(session, id, n);
		if (s != NULL && s->is_leaving)
			drop(s, n);
		return 0;
	}
	s->uncredited += n;
	h->events.body(h->ctx, s, str_of(p, n));
	return 0;
}

static void
end_of_body(struct h2 *h, int32_t id)
{
	struct h2_stream *s = find(h, id);

	if (s == NULL || s->is_in_whole)
		return;
	s->is_in_whole = true;
	if (!s->is_dead)
		h->events.end(h->ctx, s, NULL);
}

/* The peer has seen our notice: what it sends from now on it knows to be refused. */
static void
on_ping_ack(struct h2 *h)
{
	if (!h->is_draining || h->has_final_goaway)
		return;
	h->has_final_goaway = true;
	(void)nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
				    nghttp2_session_get_last_proc_stream_id(h->session),
				    H2_NO_ERROR, NULL, 0);
}

static int
on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
	struct h2 *h = ctx;
	bool is_end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
	struct h2_stream *s;

	(void)session;
	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		h->head_ms = 0;
		s = find(h, frame->hd.stream_id);
		if (s != NULL)
			h2_head_end(s, is_end);
		return 0;
	case NGHTTP2_DATA:
		if (is_end)
			end_of_body(h, frame->hd.stream_id);
		return judge_data(h, &frame->data);
	case NGHTTP2_SETTINGS:
		h->has_begun = true;
		return 0;
	case NGHTTP2_PING:
		if (frame->hd.flags & NGHTTP2_FLAG_ACK)
			on_ping_ack(h);
		return 0;
	case NGHTTP2_GOAWAY:
		h->is_closing = true;
		return 0;
	default:
		return 0;
	}
}

static int
on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *ctx)
{
	struct h2_stream *s = nghttp2_session_get_stream_user_data(session, id);

	(void)ctx;
	if (s == NULL)
		return 0;
	(void)nghttp2_session_set_stream_user_data(session, id, NULL);
	if (s->uncredited > 0)
		(void)nghttp2_session_consume_connection(session, s->uncredited);
	s->uncredited = 0;
	h2_emit_closed(s, code);
	return 0;
}

void
h2_our_end(struct h2_stream *s)
{
	struct h2 *h = s->h;

	s->is_out_whole = true;
	if (!h->is_server || !s->is_leaving || s->is_in_whole)
		return;
	s->left_ms = h->now_ms;
	/* What is no message has nothing that could be wrong with it. */
	if (s->is_ws || s->asked == METHOD_CONNECT || s->dropped > h->limits.window)
		h2_reset(s, H2_NO_ERROR);
}

static int
on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
	struct h2 *h = ctx;
	struct h2_stream *s;

	(void)session;
	if (frame->hd.type == NGHTTP2_DATA)
		h2_flood_earn(&h->flood);
	if (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) {
		s = find(h, frame->hd.stream_id);
		if (s != NULL && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
			h2_our_end(s);
		return 0;
	}
	if (frame->hd.type != NGHTTP2_RST_STREAM || !h->is_server)
		return 0;
	s = find(h, frame->hd.stream_id);
	if ((s == NULL || !s->is_ours) && !h2_flood_reset(&h->flood, h->now_ms))
		h2_fail(h, ST_LIMIT_RATE, H2_ENHANCE_YOUR_CALM);
	return 0;
}

/* Frames that nobody knows are ignored (RFC 9113 section 5.5); they were counted. */
static int
on_unknown(nghttp2_session *session, void **payload, const nghttp2_frame_hd *hd,
	   void *ctx)
{
	(void)session;
	(void)payload;
	(void)hd;
	(void)ctx;
	return NGHTTP2_ERR_CANCEL;
}

void
h2_set_callbacks(nghttp2_session_callbacks *c)
{
	nghttp2_session_callbacks_set_on_begin_frame_callback(c, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback2(c, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback2(c, on_invalid_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data_chunk);
	nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame_recv);
	nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(c, on_frame_send);
	nghttp2_session_callbacks_set_unpack_extension_callback(c, on_unknown);
	nghttp2_session_callbacks_set_send_data_callback(c, h2_out_frame);
}

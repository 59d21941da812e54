#include <openssl/sha.h>

#include "proxy/base/enc.h"
#include "proxy/flow/front_h1_in.h"
#include "proxy/flow/h1_put.h"
#include "proxy/http/h1_write.h"
#include "proxy/http/ws.h"

static uint64_t
now(const struct front_h1 *f)
{
	return loop_now_ms(f->front.flow->loop);
}

static struct h1_put
put_of(struct front_h1 *f)
{
	return (struct h1_put){ .gather = &f->front.flow->gather,
				.out = &f->out,
				.scratch = &f->scratch,
				.is_chunked = !f->is_carried &&
					      f->reply_frame == BODY_CHUNKED };
}

/* How the client gets the body, whatever way it came. */
static enum body_kind
frame_of(const struct front_h1 *f, const struct head *h)
{
	switch (h->body) {
	case BODY_CHUNKED:
	case BODY_UNTIL_CLOSE:
		return f->request.minor > 0 ? BODY_CHUNKED : BODY_UNTIL_CLOSE;
	case BODY_NONE:
	case BODY_LENGTH:
	case BODY_TUNNEL:
		break;
	}
	return h->body;
}

/* May another request follow behind this answer? */
static bool
keeps(const struct front_h1 *f)
{
	return f->request.is_persistent && !f->is_last && !f->is_eof && f->is_whole &&
	       f->reply_frame != BODY_UNTIL_CLOSE && !f->front.is_draining &&
	       f->served + 1 < f->front.limits->requests;
}

static void
write_head(struct front_h1 *f, const struct side_msg *m, struct h1_frame *frame)
{
	struct h1_put put = put_of(f);

	frame->reason = m->reason;
	frame->is_own = m->is_own;
	buf_clear(&f->scratch);
	h1_write_response(&f->scratch, m->head, frame);
	h1_put_scratch(&put);
}

/* A host that spoke HTTP/2 was never asked for this digest (RFC 8441 section 5). */
static enum status
add_accept(struct front_h1 *f, struct head *h)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	uint8_t digest[WS_DIGEST];
	struct str text;

	if (head_get(h, TOKEN_SEC_WEBSOCKET_ACCEPT) != NULL)
		return ST_OK;
	buf_init(&b, 128);
	ws_put_digest_input(&b, &f->request);
	enum status st = buf_finish(&b, &text);
	if (st != ST_OK)
		return st;
	(void)SHA1((const unsigned char *)text.p, text.n, digest);
	buf_clear(&b);
	enc_put_base64(&b, str_of(digest, sizeof digest));
	st = buf_finish(&b, &text);
	return st == ST_OK ? head_add(h, STR("Sec-WebSocket-Accept"), text) : st;
}

/* Behind this both ways are bare bytes. */
static void
put_accept(struct front_h1 *f, const struct side_msg *m)
{
	struct h1_frame frame = { .body = BODY_TUNNEL, .is_upgrade = true };
	struct h1_put put = put_of(f);
	enum status st = add_accept(f, m->head);

	if (st != ST_OK)
		h1_put_fail(&put, st);
	write_head(f, m, &frame);
	f->is_carried = f->is_last = true;
	f->is_whole = false;
}

static void
put_head(struct side *s, const struct side_msg *m)
{
	struct front_h1 *f = front_h1_of_side(s);
	struct h1_frame frame = h1_frame_of(m->head);

	if (m->head->status == 101) {
		put_accept(f, m);
	} else if (m->head->status < 200) {
		if (f->request.minor > 0)
			write_head(f, m, &frame);
	} else {
		f->reply_frame = (uint8_t)frame_of(f, m->head);
		f->is_last = f->is_last || m->is_last;
		f->is_last = !keeps(f);
		frame.body = (enum body_kind)f->reply_frame;
		frame.is_close = f->is_last;
		write_head(f, m, &frame);
		f->is_put = m->is_whole;
	}
}

static void
put_body(struct side *s, struct str view)
{
	struct h1_put put = put_of(front_h1_of_side(s));

	h1_put_body(&put, view);
}

static void
put_copy(struct side *s, struct str bytes)
{
	struct h1_put put = put_of(front_h1_of_side(s));

	h1_put_copy(&put, bytes);
}

static void
put_end(struct side *s, const struct head *of, const struct head *trailers)
{
	struct front_h1 *f = front_h1_of_side(s);
	struct h1_put put = put_of(f);

	f->is_put = true;
	h1_put_end(&put, of, trailers);
}

/* The end of a tunnel's way back is our FIN. */
static void
shut(struct front_h1 *f)
{
	if (!f->is_carried || !f->is_put || f->is_shut)
		return;
	f->is_shut = true;
	(void)!stream_shutdown(f->front.stream);
}

static enum status
flush(struct side *s)
{
	struct front_h1 *f = front_h1_of_side(s);
	enum status st = gather_end(&f->front.flow->gather, &f->out, now(f));

	s->is_blocked = st == ST_AGAIN;
	s->blocked_ms = f->out.blocked_ms;
	if (st == ST_OK)
		shut(f);
	if (st == ST_AGAIN)
		front_h1_arm(f);
	return st;
}

static void
want(struct side *s, bool reads)
{
	struct front_h1 *f = front_h1_of_side(s);

	if (s->wants == reads)
		return;
	s->wants = reads;
	front_h1_arm(f);
}

static bool
deliver(struct side *s)
{
	struct front_h1 *f = front_h1_of_side(s);
	bool waits = !ring_is_empty(&f->ahead);

	if (!s->wants || !f->is_open || f->is_gone || f->state != FRONT_H1_BODY)
		return false;
	if (waits) {
		size_t used = front_h1_feed(f, ring_linear(&f->ahead), true);
		if (f->state == FRONT_H1_OVER)
			return true;
		ring_consume(&f->ahead, used); /* views of it wait for the flush */
		waits = used > 0;
	} else if (!f->is_carried && !f->is_whole && h1_body_is_over(&f->body)) {
		(void)front_h1_take_body(f, (struct str){ "", 0 });
		waits = true;
	}
	if (f->is_open && f->state == FRONT_H1_BODY)
		front_h1_look_at_end(f);
	front_h1_arm(f);
	return waits;
}

/* The answer is whole, or there is nobody to give it to. */
static void
done(struct side *s)
{
	struct front_h1 *f = front_h1_of_side(s);

	if (!f->is_open)
		return;
	f->is_open = false;
	if (f->is_gone) {
		front_h1_over(f, f->is_stalled);
		return;
	}
	enum status st = flush(s);
	if (st != ST_OK && st != ST_AGAIN) {
		front_h1_over(f, false);
		return;
	}
	if (!f->is_put || !f->is_whole || f->reply_frame == BODY_UNTIL_CLOSE)
		f->is_last = true;
	front_h1_to(f, FRONT_H1_FLUSH);
	if (!out_is_blocked(&f->out))
		front_h1_next(f);
	front_h1_arm(f);
}

static void
front_h1_abort(struct side *s, enum status why)
{
	struct front_h1 *f = front_h1_of_side(s);

	(void)why;
	if (f->is_open)
		front_h1_over(f, true);
}

const struct side_class front_h1_side = {
	.name = "h1",
	.put_head = put_head,
	.put_body = put_body,
	.put_copy = put_copy,
	.put_end = put_end,
	.flush = flush,
	.want = want,
	.deliver = deliver,
	.done = done,
	.abort = front_h1_abort,
};

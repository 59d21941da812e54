#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include "proxy/base/enc.h"
#include "proxy/base/num.h"
#include "proxy/flow/h1_put.h"
#include "proxy/flow/leg_h1_in.h"
#include "proxy/http/h1_write.h"

enum { WS_KEY_BYTES = 16 };

static uint64_t
now(const struct leg_h1 *g)
{
	return loop_now_ms(g->leg.flow->loop);
}

static struct h1_put
put_of(struct leg_h1 *g)
{
	return (struct h1_put){ .gather = &g->leg.flow->gather,
				.out = &g->out,
				.scratch = &g->scratch,
				.is_chunked = !g->is_carried &&
					      (g->asked_frame == BODY_CHUNKED ||
					       g->asked_frame == BODY_UNTIL_CLOSE) };
}

/* A client that spoke HTTP/2 had no need of a key (RFC 8441 section 5). */
static enum status
add_key(struct head *h)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	uint8_t key[WS_KEY_BYTES];
	struct str text;

	if (head_get(h, TOKEN_SEC_WEBSOCKET_KEY) != NULL)
		return ST_OK;
	if (RAND_bytes(key, sizeof key) != 1)
		return ST_SYSTEM;
	buf_init(&b, 64);
	enc_put_base64(&b, str_of(key, sizeof key));
	enum status st = buf_finish(&b, &text);
	return st == ST_OK ? head_add(h, STR("Sec-WebSocket-Key"), text) : st;
}

/* What a host that accepts must answer with. */
static enum status
keep_digest(struct leg_h1 *g, struct head *h)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text;
	enum status st = add_key(h);

	if (st != ST_OK)
		return st;
	buf_init(&b, LEG_H1_SCRATCH_MAX);
	ws_put_digest_input(&b, h);
	st = buf_finish(&b, &text);
	if (st == ST_OK)
		(void)SHA1((const unsigned char *)text.p, text.n, g->digest);
	return st;
}

/* Credentials never come into a buf, which leaves copies behind as it grows. */
static void
put_fields(struct gather *to, struct str text, const struct side_msg *m)
{
	struct str end = STR("\r\n");

	gather_copy(to, str_head(text, text.n - end.n));
	for (size_t i = 0; i < m->last_n; i++) {
		gather_copy(to, m->last[i].name);
		gather_copy(to, STR(": "));
		gather_copy(to, m->last[i].value);
		gather_copy(to, end);
	}
	gather_copy(to, end);
}

/* A credential may stand in the target.  What would grow would leave a copy behind. */
static void
write_request(struct leg_h1 *g, const struct side_msg *m, const struct h1_frame *frame)
{
	uint16_t port = g->leg.is_https ? 443 : 80;

	buf_clear(&g->scratch);
	if (g->leg.flow->gather.wipes)
		(void)buf_space(&g->scratch, num_min(2 * g->leg.flow->limits.head,
						     LEG_H1_SCRATCH_MAX));
	h1_write_request(&g->scratch, m->head, m->uri, port, frame);
}

static void
put_head(struct side *s, const struct side_msg *m)
{
	struct leg_h1 *g = leg_h1_of_side(s);
	struct h1_frame frame = h1_frame_of(m->head);
	enum status st = m->is_ws ? keep_digest(g, m->head) : ST_OK;
	struct h1_put put = put_of(g);
	struct str text;

	g->asked = m->head->method_id;
	g->is_ws = frame.is_upgrade = m->is_ws;
	h1_read_response(&g->reader, &g->arena, &g->leg.flow->limits, g->asked,
			 g->is_ws);
	g->is_asked = true;
	g->is_put = m->is_whole || m->is_ws; /* until its 101 */
	if (m->is_ws)
		frame.body = BODY_NONE;
	g->asked_frame = (uint8_t)frame.body;
	frame.keeps_expect = m->head->expects_continue;
	write_request(g, m, &frame);
	if (st != ST_OK || buf_finish(&g->scratch, &text) != ST_OK)
		h1_put_fail(&put, st != ST_OK ? st : ST_NOMEM);
	else
		put_fields(h1_put_to(&put), text, m);
	if (g->leg.flow->gather.wipes)
		OPENSSL_cleanse(g->scratch.p, g->scratch.len);
}

static void
put_body(struct side *s, struct str view)
{
	struct h1_put put = put_of(leg_h1_of_side(s));

	h1_put_body(&put, view);
}

static void
put_copy(struct side *s, struct str bytes)
{
	struct h1_put put = put_of(leg_h1_of_side(s));

	h1_put_copy(&put, bytes);
}

static void
put_end(struct side *s, const struct head *of, const struct head *trailers)
{
	struct leg_h1 *g = leg_h1_of_side(s);
	struct h1_put put = put_of(g);

	g->is_put = true;
	h1_put_end(&put, of, trailers);
}

static enum status
flush(struct side *s)
{
	struct leg_h1 *g = leg_h1_of_side(s);
	enum status st = gather_end(&g->leg.flow->gather, &g->out, now(g));

	s->is_blocked = st == ST_AGAIN;
	s->blocked_ms = g->out.blocked_ms;
	if (st == ST_AGAIN)
		leg_h1_arm(g);
	/* The end of a tunnel's way out is our FIN. */
	if (st == ST_OK && g->is_carried && g->is_put && !g->is_shut) {
		g->is_shut = true;
		(void)!stream_shutdown(&g->leg.stream);
	}
	return st;
}

static void
want(struct side *s, bool reads)
{
	struct leg_h1 *g = leg_h1_of_side(s);

	s->wants = reads;
	leg_h1_arm(g);
}

static bool
deliver(struct side *s)
{
	struct leg_h1 *g = leg_h1_of_side(s);
	uint32_t serial = g->serial;
	bool given = false;

	if (!s->wants || !g->is_open || g->is_gone)
		return false;
	if (!ring_is_empty(&g->behind)) {
		size_t used = leg_h1_feed(g, ring_linear(&g->behind));
		if (!g->is_open || g->serial != serial || g->is_gone)
			return true;
		ring_consume(&g->behind, used); /* views of it wait for the flush */
		given = used > 0;
	} else if (g->head_seen && !g->is_carried && !g->is_whole &&
		   h1_body_is_over(&g->body)) {
		(void)leg_h1_feed(g, (struct str){ "", 0 });
		given = true;
	}
	if (g->is_open && g->serial == serial)
		leg_h1_look_at_end(g);
	leg_h1_arm(g);
	return given;
}

/* Nothing is left over on either way. */
static bool
is_fit(const struct leg_h1 *g)
{
	return g->is_whole && g->is_put && g->is_clean && !g->is_eof && !g->is_gone &&
	       !g->is_carried && g->response.is_persistent &&
	       g->body.kind != BODY_UNTIL_CLOSE && g->out.st == ST_OK &&
	       ring_is_empty(&g->behind) && !out_is_blocked(&g->out);
}

static void
done(struct side *s)
{
	struct leg_h1 *g = leg_h1_of_side(s);

	if (!g->is_open)
		return;
	(void)!flush(s);
	leg_h1_settle(g, is_fit(g));
}

static void
leg_h1_abort(struct side *s, enum status why)
{
	struct leg_h1 *g = leg_h1_of_side(s);

	(void)why;
	if (!g->is_open)
		return;
	out_done(&g->out, &g->leg.flow->gather); /* its views are nobody's now */
	leg_h1_settle(g, false);
}

const struct side_class leg_h1_side = {
	.name = "h1",
	.put_head = put_head,
	.put_body = put_body,
	.put_copy = put_copy,
	.put_end = put_end,
	.flush = flush,
	.want = want,
	.deliver = deliver,
	.done = done,
	.abort = leg_h1_abort,
};

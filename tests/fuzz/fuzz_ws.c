/*
 * An upgrade that is taken is a WebSocket and nothing else: written upstream it is
 * taken again with the same key.  Of the answers only a 101 with exactly the digest
 * opens the tunnel.
 *
 * Input: a request head and, behind it, the answer; the digest is a fixed one, so that
 * a corpus can hold an answer that fits.
 */
#include <string.h>

#include "proxy/base/enc.h"
#include "proxy/http/h1_write.h"
#include "proxy/http/ws.h"
#include "tests/fuzz/h1_feed.h"

static const struct h1_limits limits = { 40, 4000, 8000 };
static const uint8_t digest[WS_DIGEST] = "twenty bytes digest";

static struct str
key_of(const struct head *h)
{
	const struct field *f = head_get(h, TOKEN_SEC_WEBSOCKET_KEY);

	need(f != NULL && head_count(h, TOKEN_SEC_WEBSOCKET_KEY) == 1);
	return f->value;
}

static void
need_same_upstream(const struct head *h)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct arena a;
	struct h1_read r;
	struct head again;
	struct uri u;
	struct h1_frame f = h1_frame_of(h);
	bool is_ws = false;
	size_t used;

	buf_init(&b, 1 << 16);
	if (uri_of_request(h, 80, &u) != ST_OK)
		return;
	arena_init(&a, 1 << 18);
	f.is_upgrade = true;
	h1_write_request(&b, h, &u, 80, &f);
	need(b.st == ST_OK);
	h1_read_request(&r, &a, &limits);
	need(h1_feed(&r, str_of(b.p, b.len), SIZE_MAX, &used, &again) == ST_OK);
	need(ws_check_request(&again, &is_ws) == ST_OK && is_ws);
	need(str_eq(key_of(h), key_of(&again)));
	arena_done(&a);
}

static void
need_digest_input(const struct head *h)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 100);
	ws_put_digest_input(&b, h);
	need(b.st == ST_OK && b.len == 24 + 36);
	need(str_eq(str_of(b.p, 24), key_of(h)));
}

static void
check_answer(struct arena *a, struct str in)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct h1_read r;
	struct head h;
	uint8_t other[WS_DIGEST];
	size_t used;

	buf_init(&b, 64);
	h1_read_response(&r, a, &limits, METHOD_GET, true);
	if (h1_feed(&r, in, SIZE_MAX, &used, &h) != ST_OK ||
	    !ws_check_response(&h, digest))
		return;
	need(h.status == 101 && h.body == BODY_TUNNEL);
	enc_put_base64(&b, str_of(digest, sizeof digest));
	need(str_eq(head_get(&h, TOKEN_SEC_WEBSOCKET_ACCEPT)->value,
		    str_of(b.p, b.len)));
	memcpy(other, digest, sizeof other);
	other[used % sizeof other] ^= 1;
	need(!ws_check_response(&h, other));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = str_of(data, size);
	struct arena a;
	struct h1_read r;
	struct head h;
	bool is_ws = false;
	size_t used = 0;

	arena_init(&a, 1 << 18);
	h1_read_request(&r, &a, &limits);
	if (h1_feed(&r, in, SIZE_MAX, &used, &h) == ST_OK) {
		enum status st = ws_check_request(&h, &is_ws);
		need(st == ST_OK || (st == ST_BAD_UPGRADE && !is_ws));
		if (is_ws) {
			need(h.method_id == METHOD_GET && h.body == BODY_NONE);
			need_digest_input(&h);
			need_same_upstream(&h);
		}
		check_answer(&a, str_skip(in, used));
	}
	arena_done(&a);
	return 0;
}

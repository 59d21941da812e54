#include "proxy/http/ws.h"

#include "proxy/base/buf.h"
#include "proxy/base/enc.h"

enum { KEY_BYTES = 16 };

static bool
is_only(const struct head *h, enum token t, struct str value)
{
	const struct field *f = head_get(h, t);

	return f != NULL && head_count(h, t) == 1 && str_ieq(f->value, value);
}

/* 16 bytes in base64 with its padding: 24 characters. */
static bool
has_key(const struct head *h)
{
	const struct field *f = head_get(h, TOKEN_SEC_WEBSOCKET_KEY);
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, KEY_BYTES + 2);
	return f != NULL && head_count(h, TOKEN_SEC_WEBSOCKET_KEY) == 1 &&
	       f->value.n == 24 && enc_get_base64(&b, f->value) && b.len == KEY_BYTES;
}

enum status
ws_check_request(const struct head *h, bool *ret_is_ws)
{
	bool is_asked = h->minor == 1 &&
			head_lists(h, TOKEN_CONNECTION, STR("upgrade")) &&
			head_lists(h, TOKEN_UPGRADE, STR("websocket"));

	if (is_asked &&
	    (h->method_id != METHOD_GET || h->body != BODY_NONE ||
	     !is_only(h, TOKEN_UPGRADE, STR("websocket")) ||
	     !is_only(h, TOKEN_SEC_WEBSOCKET_VERSION, STR("13")) || !has_key(h)))
		return ST_BAD_UPGRADE;
	*ret_is_ws = is_asked;
	return ST_OK;
}

void
ws_put_digest_input(struct buf *b, const struct head *request)
{
	const struct field *key = head_get(request, TOKEN_SEC_WEBSOCKET_KEY);

	need(key != NULL);
	buf_put(b, key->value);
	buf_put(b, STR("258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
}

bool
ws_check_response(const struct head *response, const uint8_t digest[WS_DIGEST])
{
	const struct field *f = head_get(response, TOKEN_SEC_WEBSOCKET_ACCEPT);
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str want;

	buf_init(&b, 64);
	enc_put_base64(&b, str_of(digest, WS_DIGEST));
	return f != NULL && buf_finish(&b, &want) == ST_OK && str_eq(f->value, want) &&
	       head_count(response, TOKEN_SEC_WEBSOCKET_ACCEPT) == 1 &&
	       response->status == 101 &&
	       head_lists(response, TOKEN_CONNECTION, STR("upgrade")) &&
	       is_only(response, TOKEN_UPGRADE, STR("websocket"));
}

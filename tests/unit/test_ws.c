#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "h1_feed.h"
#include "proxy/http/ws.h"

static void
only_a_whole_websocket_handshake_is_one(void **state)
{
#define WS     "Upgrade: websocket\r\nConnection: Upgrade\r\n"
#define WS_KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define WS_VER "Sec-WebSocket-Version: 13\r\n"
	static const struct {
		const char *text;
		enum status want;
		bool is_ws;
	} rows[] = {
		{ GET WS WS_KEY WS_VER "\r\n", ST_OK, true },
		{ GET WS_KEY WS_VER "Upgrade: websocket\r\n\r\n", ST_OK, false },
		{ GET "Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n", ST_OK, false },
		{ GET "Upgrade: websocket, h2c\r\nConnection: Upgrade\r\n" WS_KEY WS_VER
		      "\r\n",
		  ST_BAD_UPGRADE, false },
		{ GET WS WS_VER "\r\n", ST_BAD_UPGRADE, false },
		{ GET WS WS_KEY "\r\n", ST_BAD_UPGRADE, false },
		{ GET WS WS_KEY "Sec-WebSocket-Version: 8\r\n\r\n", ST_BAD_UPGRADE,
		  false },
		{ GET WS WS_VER "Sec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\n\r\n",
		  ST_BAD_UPGRADE, false },
		{ "POST / HTTP/1.1\r\nHost: a.b\r\n" WS WS_KEY WS_VER "\r\n",
		  ST_BAD_UPGRADE, false },
		{ GET WS WS_KEY WS_VER "Content-Length: 1\r\n\r\n", ST_BAD_UPGRADE,
		  false },
	};
	struct head h;
	size_t used = 0;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a;
		bool is_ws = false;
		arena_init(&a, 1 << 20);
		assert_int_equal(request(&a, str_from(rows[i].text), 9, &used, &h),
				 ST_OK);
		assert_int_equal(ws_check_request(&h, &is_ws), rows[i].want);
		assert_int_equal(is_ws, rows[i].is_ws);
		arena_done(&a);
	}
}

/* The example of RFC 6455 section 1.3. */
static void
only_the_right_accept_opens_a_websocket(void **state)
{
	static const uint8_t digest[WS_DIGEST] = { 0xb3, 0x7a, 0x4f, 0x2c, 0xc0,
						   0x62, 0x4f, 0x16, 0x90, 0xf6,
						   0x46, 0x06, 0xcf, 0x38, 0x59,
						   0x45, 0xb2, 0xbe, 0xc4, 0xea };
	static const struct {
		const char *text;
		bool want;
	} rows[] = {
		{ "HTTP/1.1 101 x\r\n" WS
		  "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
		  true },
		{ "HTTP/1.1 101 x\r\n" WS
		  "Sec-WebSocket-Accept: S3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
		  false },
		{ "HTTP/1.1 101 x\r\n" WS "\r\n", false },
		{ "HTTP/1.1 101 x\r\nConnection: upgrade\r\n"
		  "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
		  false },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a;
		struct h1_read r;
		struct head h;
		size_t used = 0;
		arena_init(&a, 1 << 20);
		h1_read_response(&r, &a, &limits, METHOD_GET, true);
		assert_int_equal(feed(&r, str_from(rows[i].text), 11, &used, &h),
				 ST_OK);
		assert_int_equal(ws_check_response(&h, digest), rows[i].want);
		arena_done(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_whole_websocket_handshake_is_one),
		cmocka_unit_test(only_the_right_accept_opens_a_websocket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/http/h1_read.h"
#include "proxy/http/h1_write.h"

static const struct h1_limits limits = { 100, 16384, 65536 };

static struct head
read_head(struct arena *a, const char *text, bool is_response, enum method asked)
{
	struct h1_read r;
	struct head h;
	size_t used = 0;

	arena_init(a, 1 << 20);
	if (is_response)
		h1_read_response(&r, a, &limits, asked, true);
	else
		h1_read_request(&r, a, &limits);
	assert_int_equal(h1_read_feed(&r, str_from(text), &used, &h), ST_OK);
	h1_read_done(&r);
	return h;
}

static void
expect_request(const char *in, const struct h1_frame *over, const char *want)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct arena a;
	struct head h = read_head(&a, in, false, METHOD_OTHER);
	struct h1_frame f = h1_frame_of(&h);
	struct uri u;

	if (over != NULL)
		f = *over;
	buf_init(&b, 4096);
	assert_int_equal(uri_of_request(&h, 80, &u), ST_OK);
	h1_write_request(&b, &h, &u, 80, &f);
	assert_string_equal(buf_cstr(&b), want);
	arena_done(&a);
}

static void
expect_response(const char *in, enum method asked, const struct h1_frame *over,
		const char *want)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct arena a;
	struct head h = read_head(&a, in, true, asked);
	struct h1_frame f = h1_frame_of(&h);

	if (over != NULL)
		f = *over;
	buf_init(&b, 4096);
	h1_write_response(&b, &h, &f);
	assert_string_equal(buf_cstr(&b), want);
	arena_done(&a);
}

static void
a_request_is_written_anew(void **state)
{
	(void)state;
	expect_request("GET http://OK.test:80/a?b HTTP/1.1\r\nUser-Agent:  x \r\nHost: "
		       "ok.test.\r\n\r\n",
		       NULL,
		       "GET /a?b HTTP/1.1\r\nHost: ok.test\r\nUser-Agent: x\r\n\r\n");
	expect_request(
		"POST / HTTP/1.1\r\nHost: ok.test:8080\r\nContent-Length: 3\r\n\r\n",
		NULL,
		"POST / HTTP/1.1\r\nHost: ok.test:8080\r\nContent-Length: 3\r\n\r\n");
	expect_request("POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: "
		       "CHUNKED\r\n\r\n",
		       NULL,
		       "POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: "
		       "chunked\r\n\r\n");
	expect_request("OPTIONS http://ok.test HTTP/1.0\r\n\r\n", NULL,
		       "OPTIONS * HTTP/1.1\r\nHost: ok.test\r\n\r\n");
}

static void
what_belongs_to_one_connection_stays_there(void **state)
{
	expect_request(
		"GET / HTTP/1.1\r\nHost: ok.test\r\nConnection: close, X-Hop, "
		"authorization, host, content-length\r\nX-Hop: 1\r\nAuthorization: "
		"a\r\n"
		"Keep-Alive: 1\r\nProxy-Connection: x\r\nProxy-Authorization: y\r\n"
		"Proxy-X: z\r\nUpgrade: h2c\r\nHTTP2-Settings: q\r\nTE: gzip\r\n"
		"Content-Length: 2\r\n\r\n",
		NULL,
		"GET / HTTP/1.1\r\nHost: ok.test\r\nAuthorization: a\r\n"
		"Content-Length: 2\r\n\r\n");
	(void)state;
	expect_response(
		"HTTP/1.1 200 Whatever\r\nAlt-Svc: h3\r\nSet-Cookie: a\r\n"
		"Set-Cookie: b\r\nConnection: x\r\nX: 1\r\nProxy-Authenticate: z\r\n"
		"Location: /\r\nContent-Length: 2\r\n\r\n",
		METHOD_GET, NULL,
		"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nLocation: /\r\n"
		"Content-Length: 2\r\n\r\n");
}

static void
te_trailers_and_expect_go_on_when_asked(void **state)
{
	struct h1_frame f = { .is_close = true, .keeps_expect = true };
	const char *in = "GET / HTTP/1.1\r\nHost: ok.test\r\nTE: gzip, trailers\r\n"
			 "Expect: 100-continue\r\n\r\n";

	(void)state;
	expect_request(in, &f,
		       "GET / HTTP/1.1\r\nHost: ok.test\r\nExpect: 100-continue\r\n"
		       "TE: trailers\r\nConnection: close, TE\r\n\r\n");
	f = (struct h1_frame){ .keeps_expect = false };
	expect_request(in, &f,
		       "GET / HTTP/1.1\r\nHost: ok.test\r\nTE: trailers\r\nConnection: "
		       "TE\r\n\r\n");
}

static void
an_upgrade_goes_on_only_when_asked(void **state)
{
	struct h1_frame f = { .is_upgrade = true };
	const char *in = "GET /ws HTTP/1.1\r\nHost: ok.test\r\nConnection: Upgrade\r\n"
			 "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n";

	(void)state;
	expect_request(in, NULL,
		       "GET /ws HTTP/1.1\r\nHost: ok.test\r\nSec-WebSocket-Version: "
		       "13\r\n\r\n");
	expect_request(
		in, &f,
		"GET /ws HTTP/1.1\r\nHost: ok.test\r\nSec-WebSocket-Version: 13\r\n"
		"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
	expect_response(
		"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
		METHOD_GET, &f,
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
		"Connection: Upgrade\r\n\r\n");
}

static void
a_parent_proxy_gets_the_absolute_form(void **state)
{
	struct h1_frame f = { .is_absolute = true };

	(void)state;
	expect_request("GET /a HTTP/1.1\r\nHost: ok.test\r\n\r\n", &f,
		       "GET http://ok.test:80/a HTTP/1.1\r\nHost: ok.test\r\n\r\n");
	expect_request("OPTIONS * HTTP/1.1\r\nHost: ok.test\r\n\r\n", &f,
		       "OPTIONS http://ok.test:80 HTTP/1.1\r\nHost: ok.test\r\n\r\n");
	expect_request("CONNECT [2606::1]:443 HTTP/1.0\r\n\r\n", NULL,
		       "CONNECT [2606::1]:443 HTTP/1.1\r\nHost: [2606::1]:443\r\n\r\n");
}

static void
a_length_without_a_body_is_kept_only_where_it_describes_one(void **state)
{
	struct h1_frame close = { .body = BODY_UNTIL_CLOSE, .is_close = true };

	(void)state;
	expect_response("HTTP/1.1 200 x\r\nContent-Length: 7\r\n\r\n", METHOD_HEAD,
			NULL, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n");
	expect_response("HTTP/1.1 304 x\r\nContent-Length: 7\r\n\r\n", METHOD_GET, NULL,
			"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n");
	expect_response("HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n", METHOD_GET, NULL,
			"HTTP/1.1 204 No Content\r\n\r\n");
	expect_response("HTTP/1.1 299 x\r\nTransfer-Encoding: chunked\r\n\r\n",
			METHOD_GET, &close,
			"HTTP/1.1 299 \r\nConnection: close\r\n\r\n");
}

static void
trailers_lose_what_must_not_come_late(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct arena a;
	struct head of =
		read_head(&a,
			  "POST / HTTP/1.1\r\nHost: a.b\r\nConnection: X-Named\r\n"
			  "Transfer-Encoding: chunked\r\n\r\n",
			  false, METHOD_OTHER);
	struct head t;
	static const char *const names[] = {
		"Grpc-Status", "Content-Length", "Host",    "X-Named", "Authorization",
		"Set-Cookie",  "Content-Type",   "Proxy-X", "X-Last"
	};

	(void)state;
	head_init(&t, &a);
	for (size_t i = 0; i < COUNT_OF(names); i++)
		assert_int_equal(head_add(&t, str_from(names[i]), STR("0")), ST_OK);
	buf_init(&b, 4096);
	h1_write_chunk_head(&b, 26);
	buf_put(&b, STR("\r\n"));
	h1_write_last_chunk(&b, &of, &t);
	assert_string_equal(buf_cstr(&b),
			    "1a\r\n\r\n0\r\nGrpc-Status: 0\r\nX-Last: 0\r\n\r\n");
	buf_clear(&b);
	h1_write_last_chunk(&b, &of, NULL);
	assert_string_equal(buf_cstr(&b), "0\r\n\r\n");
	arena_done(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_written_anew),
		cmocka_unit_test(what_belongs_to_one_connection_stays_there),
		cmocka_unit_test(te_trailers_and_expect_go_on_when_asked),
		cmocka_unit_test(an_upgrade_goes_on_only_when_asked),
		cmocka_unit_test(a_parent_proxy_gets_the_absolute_form),
		cmocka_unit_test(
			a_length_without_a_body_is_kept_only_where_it_describes_one),
		cmocka_unit_test(trailers_lose_what_must_not_come_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

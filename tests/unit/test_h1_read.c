#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "h1_feed.h"

struct row {
	const char *text;
	enum status want;
};

static void
expect_requests(const struct row *rows, size_t n)
{
	struct head h;
	size_t used = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t step = 1; step < 4; step++) {
			struct arena a;
			arena_init(&a, 1 << 20);
			enum status st =
				request(&a, str_from(rows[i].text),
					step == 3 ? SIZE_MAX : step, &used, &h);
			arena_done(&a);
			if (st != rows[i].want)
				fail_msg("row %zu: %s, not %s: %s", i, status_code(st),
					 status_code(rows[i].want), rows[i].text);
		}
}

static void
a_request_is_taken_apart(void **state)
{
	struct arena a;
	struct head h;
	size_t used = 0;
	struct str in = STR("POST /a?b HTTP/1.1\r\nHost: ok.test\r\nX-A:  b c \t\r\n"
			    "Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello");

	(void)state;
	arena_init(&a, 1 << 20);
	assert_int_equal(request(&a, in, SIZE_MAX, &used, &h), ST_OK);
	assert_int_equal(used, in.n - 5);
	assert_int_equal(h.method_id, METHOD_POST);
	assert_true(str_eq(h.target, STR("/a?b")));
	assert_true(str_eq(head_find(&h, STR("x-a"))->value, STR("b c")));
	assert_int_equal(h.body, BODY_LENGTH);
	assert_int_equal(h.length, 5);
	assert_true(h.is_persistent && h.expects_continue && h.minor == 1);
	arena_done(&a);
}

static void
well_formed_requests_pass(void **state)
{
	static const struct row rows[] = {
		{ GET "\r\n", ST_OK },
		{ "\r\n" GET "\r\n", ST_OK },
		{ "GET / HTTP/1.0\r\n\r\n", ST_OK },
		{ "get / HTTP/1.1\r\nhost: a.b\r\n\r\n", ST_OK },
		{ GET "X-Empty:\r\n\r\n", ST_OK },
		{ GET "X-Utf8: \xc3\xb6\r\n\r\n", ST_OK },
		{ GET "x_y.z: 1\r\n\r\n", ST_OK },
		{ GET "Transfer-Encoding: Chunked\r\n\r\n", ST_OK },
		{ GET "Content-Length: 9223372036854775807\r\n\r\n", ST_OK },
		{ "CONNECT ok.test:443 HTTP/1.0\r\n\r\n", ST_OK },
		{ "GET / HTTP/1.0\r\nExpect: x\r\n\r\n", ST_OK },
		{ GET "\r", ST_AGAIN },
	};

	(void)state;
	expect_requests(rows, COUNT_OF(rows));
}

static void
an_ambiguous_length_is_an_error(void **state)
{
	static const struct row rows[] = {
		{ GET "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		  ST_BAD_FRAMING },
		{ GET "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
		  ST_BAD_FRAMING },
		{ GET "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
		  ST_BAD_FRAMING },
		{ GET "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
		  ST_BAD_FRAMING },
		{ GET "Content-Length: 5, 5\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Content-Length: 5,6\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Content-Length:\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Content-Length: +5\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Content-Length: -5\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Content-Length: -0\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Content-Length: 05\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Content-Length: 0x5\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Content-Length: 5 0\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Content-Length: 5_0\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Content-Length: 1e2\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Content-Length: 9223372036854775808\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Content-Length: 18446744073709551616\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Content-Length: 5\x0b\r\n\r\n", ST_BAD_HEADER },
		{ GET "Transfer-Encoding: xchunked\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Transfer-Encoding: chunked, chunked\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Transfer-Encoding: gzip, chunked\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Transfer-Encoding: identity\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Transfer-Encoding: chunked;a=b\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Transfer-Encoding: \"chunked\"\r\n\r\n", ST_BAD_FRAMING },
		{ GET "Transfer-Encoding:\r\n\r\n", ST_BAD_FRAMING },
		{ GET
		  "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		  ST_BAD_FRAMING },
		{ "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
		  ST_BAD_FRAMING },
		{ "CONNECT a.b:1 HTTP/1.1\r\nHost: a.b\r\nContent-Length: 0\r\n\r\n",
		  ST_BAD_FRAMING },
		{ "CONNECT a.b:1 HTTP/1.1\r\nHost: a.b\r\nTransfer-Encoding: "
		  "chunked\r\n\r\n",
		  ST_BAD_FRAMING },
	};

	(void)state;
	expect_requests(rows, COUNT_OF(rows));
}

static void
a_malformed_field_is_an_error(void **state)
{
	static const struct row rows[] = {
		{ GET "Transfer-Encoding : chunked\r\n\r\n", ST_BAD_HEADER },
		{ GET "Transfer_Encoding: chunked\r\n\r\n", ST_BAD_HEADER },
		{ GET "Content.Length: 5\r\n\r\n", ST_BAD_HEADER },
		{ GET "Transfer-\r\nEncoding: chunked\r\n\r\n", ST_BAD_HEADER },
		{ "GET / HTTP/1.1\r\n Host: ok.test\r\n\r\n", ST_BAD_HEADER },
		{ GET "X: a\r\n b\r\n\r\n", ST_BAD_HEADER },
		{ GET "X: a\r\n\tb\r\n\r\n", ST_BAD_HEADER },
		{ GET "Transfer-Encoding\x85: chunked\r\n\r\n", ST_BAD_HEADER },
		{ GET "X(y): 1\r\n\r\n", ST_BAD_HEADER },
		{ GET ": x\r\n\r\n", ST_BAD_HEADER },
		{ GET "no colon\r\n\r\n", ST_BAD_HEADER },
		{ GET "X: a\x7f\r\n\r\n", ST_BAD_HEADER },
		{ GET "X: a\nY: b\r\n\r\n", ST_BAD_REQUEST },
		{ GET "X: a\rY: b\r\n\r\n", ST_BAD_REQUEST },
		{ GET "X: a\r\r\n\r\n", ST_BAD_REQUEST },
		{ GET "\r\r\n", ST_BAD_REQUEST },
		{ GET "\n", ST_BAD_REQUEST },
		{ "GET / HTTP/1.1\nHost: ok.test\r\n\r\n", ST_BAD_REQUEST },
		{ "GET / HTTP/1.1\r\n\r\n", ST_BAD_HEADER },
		{ GET "Host: ok.test\r\n\r\n", ST_BAD_HEADER },
		{ GET "HOST: evil.test\r\n\r\n", ST_BAD_HEADER },
		{ GET "Expect: 200-ok\r\n\r\n", ST_EXPECT_FAILED },
	};
	struct arena a;
	struct head h;
	size_t used = 0;

	(void)state;
	expect_requests(rows, COUNT_OF(rows));
	arena_init(&a, 1 << 20);
	assert_int_equal(request(&a, STR(GET "X: a\0b\r\n\r\n"), 7, &used, &h),
			 ST_BAD_REQUEST);
	arena_done(&a);
}

static void
a_request_line_has_three_parts_and_one_version(void **state)
{
	static const struct row rows[] = {
		{ "\r\n\r\n" GET "\r\n", ST_BAD_REQUEST },
		{ "GET /\r\n\r\n", ST_BAD_REQUEST },
		{ "GET\r\n\r\n", ST_BAD_REQUEST },
		{ " GET / HTTP/1.1\r\n", ST_BAD_REQUEST },
		{ "GET  / HTTP/1.1\r\n", ST_BAD_REQUEST },
		{ "GET /  HTTP/1.1\r\n", ST_BAD_REQUEST },
		{ "GET\t/ HTTP/1.1\r\n", ST_BAD_REQUEST },
		{ "GET / HTTP/1.1 \r\n", ST_BAD_REQUEST },
		{ "GET http://ok.test /x HTTP/1.1\r\n", ST_BAD_REQUEST },
		{ "GET / http/1.1\r\n", ST_BAD_REQUEST },
		{ "GET / HTTP/01.1\r\n", ST_BAD_REQUEST },
		{ "GET / HTTP/1.10\r\n", ST_BAD_REQUEST },
		{ "GET / HTTP/4294967295.255\r\n", ST_BAD_REQUEST },
		{ "GET / HTTP/1.2\r\n", ST_BAD_VERSION },
		{ "GET / HTTP/2.0\r\n", ST_BAD_VERSION },
		{ "GET / HTTP/0.9\r\n", ST_BAD_VERSION },
		{ "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ST_BAD_VERSION },
		{ "GET /\xc3\xb6 HTTP/1.1\r\n", ST_BAD_TARGET },
		{ "GET /\x01 HTTP/1.1\r\n", ST_BAD_TARGET },
		{ "G@T / HTTP/1.1\r\n", ST_BAD_REQUEST },
		{ "\x16\x03\x01\x02 / HTTP/1.1\r\n", ST_BAD_REQUEST },
	};

	(void)state;
	expect_requests(rows, COUNT_OF(rows));
}

/* prefix, then n times `unit`, then suffix. */
static enum status
flood(const char *prefix, const char *unit, size_t n, const char *suffix, size_t step)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct arena a;
	struct head h;
	struct str in;
	size_t used = 0;

	buf_init(&b, 1 << 20);
	arena_init(&a, 1 << 20);
	buf_put(&b, str_from(prefix));
	for (size_t i = 0; i < n; i++)
		buf_put(&b, str_from(unit));
	buf_put(&b, str_from(suffix));
	assert_int_equal(buf_finish(&b, &in), ST_OK);
	enum status st = request(&a, in, step, &used, &h);
	arena_done(&a);
	return st;
}

static void
every_limit_is_exact_however_the_bytes_arrive(void **state)
{
	static const size_t steps[] = { 1, 1000, SIZE_MAX };

	(void)state;
	for (size_t i = 0; i < COUNT_OF(steps); i++) {
		size_t s = steps[i];
		/* 99 fields and Host */
		assert_int_equal(flood(GET, "a: b\r\n", 99, "\r\n", s), ST_OK);
		assert_int_equal(flood(GET, "a: b\r\n", 100, "\r\n", s),
				 ST_HEAD_TOO_LARGE);
		/* "GET /" + " HTTP/1.1\r\n" is 16 bytes */
		assert_int_equal(
			flood("GET /", "x", 16368, " HTTP/1.1\r\nHost: a.b\r\n\r\n", s),
			ST_OK);
		assert_int_equal(
			flood("GET /", "x", 16369, " HTTP/1.1\r\nHost: a.b\r\n\r\n", s),
			ST_URI_TOO_LONG);
		assert_int_equal(flood(GET "a:", "x", 16380, "\r\n\r\n", s), ST_OK);
		assert_int_equal(flood(GET "a:", "x", 16381, "\r\n\r\n", s),
				 ST_HEAD_TOO_LARGE);
		assert_int_equal(flood(GET, "x", 100000, "", s), ST_HEAD_TOO_LARGE);
		/* 31 + 65 * 1008 + 2 is 3 less than 64 KiB */
		char line[1009];
		memset(line, 'y', sizeof line);
		line[0] = 'a';
		line[1] = ':';
		memcpy(line + 1006, "\r\n", 3);
		size_t left = 65536 - (sizeof(GET) - 1) - (size_t)64 * 1008 - 2;
		char last[1200];
		memset(last, 'z', sizeof last);
		last[0] = 'b';
		last[1] = ':';
		memcpy(last + left - 2, "\r\n\r\n", 5);
		assert_int_equal(flood(GET, line, 64, last, s), ST_OK);
		memcpy(last + left - 2, "z\r\n\r\n", 6);
		assert_int_equal(flood(GET, line, 64, last, s), ST_HEAD_TOO_LARGE);
	}
}

static void
look_alikes_of_credential_and_hop_names_are_removed(void **state)
{
	struct arena a;
	struct head h;
	size_t used = 0;
	struct str in =
		STR(GET "Proxy_Authorization: x\r\nx.api.key: y\r\nCookie: z\r\n"
			"Keep_Alive: 1\r\nX_Other: 2\r\n\r\n");

	(void)state;
	arena_init(&a, 1 << 20);
	assert_int_equal(request(&a, in, SIZE_MAX, &used, &h), ST_OK);
	assert_int_equal(h.fields_len, 3);
	assert_non_null(head_get(&h, TOKEN_COOKIE));
	assert_non_null(head_find(&h, STR("x_other")));
	arena_done(&a);
}

static void
a_full_arena_ends_the_message_and_nothing_else(void **state)
{
	struct head h;
	size_t used = 0, refused = 0;

	(void)state;
	for (size_t max = 0; max < 8000; max += 50) {
		struct arena a;
		arena_init(&a, max);
		enum status st =
			request(&a, STR(GET "a: b\r\nc: d\r\n\r\n"), 5, &used, &h);
		assert_true(st == ST_OK || st == ST_NOMEM);
		refused += st == ST_NOMEM;
		arena_done(&a);
	}
	assert_true(refused > 0 && refused < 160);
}

static void
persistence_follows_version_and_connection(void **state)
{
	static const struct {
		const char *text;
		bool keeps;
	} rows[] = {
		{ GET "\r\n", true },
		{ GET "Connection: foo, Close\r\n\r\n", false },
		{ "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false },
	};
	struct head h;
	size_t used = 0;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a;
		arena_init(&a, 1 << 20);
		assert_int_equal(request(&a, str_from(rows[i].text), 3, &used, &h),
				 ST_OK);
		assert_int_equal(h.is_persistent, rows[i].keeps);
		arena_done(&a);
	}
}

struct answer {
	const char *text;
	enum method asked;
	bool upgrade;
	enum status want;
	enum body_kind body;
};

#define OK11 "HTTP/1.1 200 OK\r\n"
#define BAD  ST_UPSTREAM_BAD, BODY_NONE
static const struct answer framings[] = {
	{ OK11 "Content-Length: 3\r\n\r\n", METHOD_GET, 0, ST_OK, BODY_LENGTH },
	{ OK11 "Content-Length: 3\r\n\r\n", METHOD_HEAD, 0, ST_OK, BODY_NONE },
	{ OK11 "Transfer-Encoding: chunked\r\n\r\n", METHOD_GET, 0, ST_OK,
	  BODY_CHUNKED },
	{ OK11 "Transfer-Encoding: chunked\r\n\r\n", METHOD_HEAD, 0, ST_OK, BODY_NONE },
	{ OK11 "\r\n", METHOD_GET, 0, ST_OK, BODY_UNTIL_CLOSE },
	{ OK11 "Content-Length: 3\r\n\r\n", METHOD_CONNECT, 0, ST_OK, BODY_TUNNEL },
	{ "HTTP/1.1 407 x\r\nContent-Length: 3\r\n\r\n", METHOD_CONNECT, 0, ST_OK,
	  BODY_LENGTH },
	{ "HTTP/1.1 100 Continue\r\n\r\n", METHOD_GET, 0, ST_OK, BODY_NONE },
	{ "HTTP/1.1 204 \r\n\r\n", METHOD_GET, 0, ST_OK, BODY_NONE },
	{ "HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n", METHOD_GET, 0, ST_OK,
	  BODY_NONE },
	{ "HTTP/1.1 304 x\r\nContent-Length: 9\r\n\r\n", METHOD_GET, 0, ST_OK,
	  BODY_NONE },
	{ "HTTP/1.1 101 x\r\n\r\n", METHOD_GET, 1, ST_OK, BODY_TUNNEL },
	{ "HTTP/1.0 200\r\n\r\n", METHOD_GET, 0, ST_OK, BODY_UNTIL_CLOSE },
	{ "HTTP/1.1 200 gr\xfc\xdf\r\n\r\n", METHOD_GET, 0, ST_OK, BODY_UNTIL_CLOSE },
	{ "HTTP/1.1 101 x\r\n\r\n", METHOD_GET, 0, BAD },
	{ "HTTP/1.1 100 x\r\nContent-Length: 3\r\n\r\n", METHOD_GET, 0, BAD },
	{ "HTTP/1.1 204 x\r\nContent-Length: 3\r\n\r\n", METHOD_GET, 0, BAD },
	{ "HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n", METHOD_GET, 0, BAD },
	{ OK11 "Content-Length: 3\r\nContent-Length: 3\r\n\r\n", METHOD_GET, 0, BAD },
	{ OK11 "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", METHOD_HEAD, 0, BAD },
	{ OK11 "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", METHOD_GET, 0,
	  BAD },
	{ OK11 "Transfer-Encoding: gzip\r\n\r\n", METHOD_GET, 0, BAD },
	{ "HTTP/1.0 200 x\r\nTransfer-Encoding: chunked\r\n\r\n", METHOD_GET, 0, BAD },
	{ "HTTP/1.1 099 x\r\n\r\n", METHOD_GET, 0, BAD },
	{ "HTTP/1.1 600 x\r\n\r\n", METHOD_GET, 0, BAD },
	{ "HTTP/1.1 20 x\r\n\r\n", METHOD_GET, 0, BAD },
	{ "HTTP/1.1 +20 x\r\n\r\n", METHOD_GET, 0, BAD },
	{ "HTTP/1.1  200 x\r\n\r\n", METHOD_GET, 0, BAD },
	{ "HTTP/2.0 200 x\r\n\r\n", METHOD_GET, 0, BAD },
	{ "ICY 200 x\r\n\r\n", METHOD_GET, 0, BAD },
	{ "\r\n" OK11 "\r\n", METHOD_GET, 0, BAD },
	{ "HTTP/1.1 200 a\x01\r\n\r\n", METHOD_GET, 0, BAD },
	{ OK11 "X: a\r\n b\r\n\r\n", METHOD_GET, 0, BAD },
	{ OK11 "X: a\n\r\n", METHOD_GET, 0, BAD },
};

static void
check_framing(const struct answer *f, size_t step)
{
	struct arena a;
	struct h1_read r;
	struct head h = { .body = BODY_NONE };
	size_t used = 0;

	arena_init(&a, 1 << 20);
	h1_read_response(&r, &a, &limits, f->asked, f->upgrade);
	enum status st = feed(&r, str_from(f->text), step, &used, &h);
	if (st != f->want || h.body != f->body)
		fail_msg("%s: %s", f->text, status_code(st));
	arena_done(&a);
}

static void
a_response_ends_where_rfc_9112_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(framings); i++)
		for (size_t step = 1; step < 100; step += 49)
			check_framing(&framings[i], step);
}

static void
a_message_has_begun_with_its_first_octet(void **state)
{
	struct arena a;
	struct h1_read r;
	struct head h;
	size_t used = 0;

	(void)state;
	arena_init(&a, 4096);
	h1_read_request(&r, &a, &limits);
	assert_false(h1_read_has_begun(&r));
	assert_int_equal(h1_read_feed(&r, STR("\r"), &used, &h), ST_AGAIN);
	assert_int_equal(h1_read_feed(&r, STR("\n"), &used, &h), ST_AGAIN);
	assert_false(h1_read_has_begun(&r));
	assert_int_equal(h1_read_feed(&r, STR("G"), &used, &h), ST_AGAIN);
	assert_true(h1_read_has_begun(&r));
	h1_read_done(&r);
	arena_done(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_taken_apart),
		cmocka_unit_test(well_formed_requests_pass),
		cmocka_unit_test(an_ambiguous_length_is_an_error),
		cmocka_unit_test(a_malformed_field_is_an_error),
		cmocka_unit_test(a_request_line_has_three_parts_and_one_version),
		cmocka_unit_test(every_limit_is_exact_however_the_bytes_arrive),
		cmocka_unit_test(look_alikes_of_credential_and_hop_names_are_removed),
		cmocka_unit_test(a_full_arena_ends_the_message_and_nothing_else),
		cmocka_unit_test(persistence_follows_version_and_connection),
		cmocka_unit_test(a_response_ends_where_rfc_9112_says),
		cmocka_unit_test(a_message_has_begun_with_its_first_octet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

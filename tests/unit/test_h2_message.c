#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/h2_victim.h"

static void
what_is_no_http2_is_said_so(void **state)
{
	struct victim v;

	(void)state;
	*(&v) = (struct victim){ .now_ms = 1000 };
	peer_open(&v.server, H2_SERVER, &pair_limits);
	buf_init(&v.in, 1000);
	buf_put(&v.in, STR("GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n"));
	assert_int_equal(feed(&v), ST_BAD_REQUEST);
	assert_true(h2_is_over(v.server.h));
	close_victim(&v);
}

struct row {
	const char *name, *value;
	const char *log; /* "": reset, without a word to the owner */
};

static void
fields_that_no_request_may_have(void **state)
{
	static const struct row rows[] = {
		{ "connection", "close", "" },
		{ "keep-alive", "1", "" },
		{ "proxy-connection", "1", "" },
		{ "transfer-encoding", "chunked", "" },
		{ "upgrade", "h2c", "" },
		{ "te", "gzip", "" },
		{ "X-Upper", "1", "" },
		{ "x y", "1", "" },
		{ "x:y", "1", "" },
		{ "x-lf", "a\nb", "" },
		{ "x-cr", "a\rb", "" },
		{ ":path", "/two", "" },
		{ ":status", "200", "" },
		{ ":a", "1", "" },
		{ "content-length", "x", "" },
		{ "content-length", "5", "" }, /* and END_STREAM */
		{ "host", "other.test", "bad name_mismatch\n" },
		{ "content_length", "0", "bad bad_header\n" },
		{ "transfer_encoding", "chunked", "bad bad_header\n" },
		{ "content-length", "00", "bad bad_framing\n" },
		{ "expect", "x", "bad expect_failed\n" },
	};
	struct victim v;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		open_victim(&v);
		raw_get(&v.in, 1, RAW_END_STREAM, str_from(rows[i].name),
			str_from(rows[i].value));
		assert_int_equal(feed(&v), ST_OK);
		if (strcmp(peer_log(&v.server), rows[i].log) != 0)
			fail_msg("%s: %s", rows[i].name, rows[i].value);
		close_victim(&v);
	}
}

static void
fields_that_only_look_like_others_are_left_out(void **state)
{
	struct victim v;

	(void)state;
	open_victim(&v);
	raw_get(&v.in, 1, RAW_END_STREAM, STR("x_api.key"), STR("1"));
	raw_get(&v.in, 3, RAW_END_STREAM, STR("proxy_connection"), STR("1"));
	raw_get(&v.in, 5, RAW_END_STREAM, STR("x_other"), STR("1"));
	raw_get(&v.in, 7, RAW_END_STREAM, STR("host"), STR("OK.test"));
	assert_int_equal(feed(&v), ST_OK);
	assert_string_equal(peer_log(&v.server),
			    "GET / host=ok.test [none] whole\n"
			    "GET / host=ok.test [none] whole\n"
			    "GET / host=ok.test x_other=1 [none] whole\n"
			    "GET / host=ok.test [none] whole\n");
	close_victim(&v);
}

static void
cookie_crumbs_are_one_field(void **state)
{
	struct victim v;
	CLEANUP(buf_done) struct buf f = { 0 };

	(void)state;
	open_victim(&v);
	buf_init(&f, 1024);
	raw_get_fields(&f);
	raw_field(&f, STR("cookie"), STR("a=b"));
	raw_field(&f, STR("x"), STR("y"));
	raw_field(&f, STR("cookie"), STR("c=d"));
	raw_field(&f, STR("cookie"), STR(""));
	raw_frame(&v.in, RAW_HEADERS, RAW_END_HEADERS | RAW_END_STREAM, 1,
		  str_of(f.p, f.len));
	assert_int_equal(feed(&v), ST_OK);
	assert_string_equal(peer_log(&v.server),
			    "GET / host=ok.test x=y cookie=a=b; c=d;  [none] whole\n");
	close_victim(&v);
}

static void
put_request(struct buf *in, const char *const *pairs)
{
	CLEANUP(buf_done) struct buf f = { 0 };

	buf_init(&f, 4096);
	for (size_t i = 0; pairs[i] != NULL; i += 2)
		raw_field(&f, str_from(pairs[i]), str_from(pairs[i + 1]));
	raw_frame(in, RAW_HEADERS, RAW_END_HEADERS, 1, str_of(f.p, f.len));
}

static void
what_a_request_must_say_and_may_not(void **state)
{
	static const struct {
		const char *pairs[16];
		const char *log;
	} rows[] = {
		{ { ":method", "GET", ":scheme", "http", ":path", "/" }, "" },
		{ { ":method", "GET", ":scheme", "http", ":authority", "a.b" }, "" },
		{ { ":method", "GET", ":path", "/", ":authority", "a.b" }, "" },
		{ { ":scheme", "http", ":path", "/", ":authority", "a.b" }, "" },
		{ { ":method", "GET", ":scheme", "http", ":path", "", ":authority",
		    "a.b" },
		  "" },
		{ { ":method", "GET", ":scheme", "http", ":path", "*", ":authority",
		    "a.b" },
		  "" },
		{ { ":method", "CONNECT", ":scheme", "http", ":path", "/", ":authority",
		    "a.b" },
		  "" },
		{ { ":method", "GET", ":scheme", "http", ":path", "/", ":protocol",
		    "websocket", ":authority", "a.b" },
		  "" },
		{ { ":method", "GET", ":scheme", "ftp", ":path", "/", ":authority",
		    "a.b" },
		  "bad bad_target\n" },
		{ { ":method", "CONNECT", ":scheme", "http", ":path", "/", ":protocol",
		    "connect-udp", ":authority", "a.b" },
		  "bad protocol_not_supported\n" },
		{ { ":method", "CONNECT", ":scheme", "http", ":path", "/", ":protocol",
		    "websocket", ":authority", "a.b", "sec-websocket-version", "8" },
		  "bad bad_upgrade\n" },
		{ { ":method", "CONNECT", ":scheme", "https", ":path", "/", ":protocol",
		    "websocket", ":authority", "a.b" },
		  "GET / host=a.b sec-websocket-version=13 [none] https ws\n" },
		{ { ":method", "OPTIONS", ":scheme", "http", ":path", "*", "host",
		    "a.b" },
		  "OPTIONS * host=a.b [chunked]\n" },
		{ { ":method", "CONNECT", ":authority", "a.b:1" },
		  "CONNECT a.b:1 host=a.b:1 [none]\n" },
	};
	struct victim v;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		open_victim(&v);
		put_request(&v.in, rows[i].pairs);
		assert_int_equal(feed(&v), ST_OK);
		const char *log = peer_log(&v.server);
		if (strcmp(log, rows[i].log) != 0)
			fail_msg("row %zu: %s", i, log);
		close_victim(&v);
	}
}

static void
a_length_that_the_data_breaks_resets(void **state)
{
	struct victim v;

	(void)state;
	open_victim(&v);
	raw_get(&v.in, 1, 0, STR("content-length"), STR("3"));
	raw_frame(&v.in, RAW_DATA, RAW_END_STREAM, 1, STR("ab"));
	assert_int_equal(feed(&v), ST_OK);
	raw_get(&v.in, 3, 0, STR("content-length"), STR("3"));
	raw_frame(&v.in, RAW_DATA, 0, 3, STR("abcd"));
	assert_int_equal(feed(&v), ST_OK);
	assert_string_equal(
		peer_log(&v.server),
		"GET / host=ok.test content-length=3 [length 3]\nbody ab\n"
		"closed 1\n"
		"GET / host=ok.test content-length=3 [length 3]\nclosed 1\n");
	close_victim(&v);
}

static void
put_trailers(struct buf *in, const char *name)
{
	CLEANUP(buf_done) struct buf f = { 0 };

	buf_init(&f, 1024);
	raw_field(&f, str_from(name), STR("1"));
	raw_frame(in, RAW_HEADERS, RAW_END_HEADERS | RAW_END_STREAM, 1,
		  str_of(f.p, f.len));
}

static void
trailers_that_frame_are_refused(void **state)
{
	static const struct row rows[] = {
		{ "x-sum", NULL, "end x-sum=1\n" },
		{ "content_length", NULL, "bad bad_header\n" },
		{ ":path", NULL, "closed 1\n" },
	};
	struct victim v;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		open_victim(&v);
		raw_get(&v.in, 1, 0, STR(""), STR(""));
		assert_int_equal(feed(&v), ST_OK);
		(void)peer_log(&v.server);
		put_trailers(&v.in, rows[i].name);
		assert_int_equal(feed(&v), ST_OK);
		assert_string_equal(peer_log(&v.server), rows[i].log);
		close_victim(&v);
	}
}

static void
an_id_that_was_left_out_is_not_used_later(void **state)
{
	struct victim v;

	(void)state;
	open_victim(&v);
	raw_get(&v.in, 7, RAW_END_STREAM, STR(""), STR(""));
	assert_int_equal(feed(&v), ST_OK);
	raw_get(&v.in, 3, RAW_END_STREAM, STR(""), STR(""));
	assert_int_equal(feed(&v), ST_BAD_REQUEST);
	assert_int_equal(v.code, H2_PROTOCOL_ERROR);
	close_victim(&v);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_http2_is_said_so),
		cmocka_unit_test(fields_that_no_request_may_have),
		cmocka_unit_test(fields_that_only_look_like_others_are_left_out),
		cmocka_unit_test(cookie_crumbs_are_one_field),
		cmocka_unit_test(what_a_request_must_say_and_may_not),
		cmocka_unit_test(a_length_that_the_data_breaks_resets),
		cmocka_unit_test(trailers_that_frame_are_refused),
		cmocka_unit_test(an_id_that_was_left_out_is_not_used_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/http/h1_body.h"

static const struct h1_limits limits = { 100, 16384, 65536 };
static const struct h1_limits narrow = { 100, 64, 128 };

struct result {
	enum status st;
	size_t used, trailers;
	bool may_close;
	char payload[256];
};

/* Fed in pieces of `step`. */
static struct result
feed_within(const struct h1_limits *lim, enum body_kind kind, uint64_t length,
	    struct str in, size_t step)
{
	struct result r = { .st = ST_AGAIN };
	CLEANUP(buf_done) struct buf out = { 0 };
	struct h1_body b;
	struct arena a;
	struct head h;

	arena_init(&a, 1 << 20);
	head_init(&h, &a);
	h.body = kind;
	h.length = length;
	buf_init(&out, sizeof r.payload - 1);
	h1_body_init(&b, &h, lim);
	do {
		struct str piece = str_head(in, step), data = { NULL, 0 };
		size_t used = 0;
		r.st = h1_body_feed(&b, piece, &used, &data);
		assert_true(r.st != ST_AGAIN || used == piece.n);
		assert_true(r.st != ST_OK || data.n > 0);
		buf_put(&out, data);
		in = str_skip(in, used);
		r.used += used;
	} while ((r.st == ST_OK || r.st == ST_AGAIN) && in.n > 0);
	r.trailers = b.trailers.fields_len;
	r.may_close = h1_body_may_close(&b);
	assert_int_equal(h1_body_is_over(&b), r.st == ST_END || h1_body_is_over(&b));
	memcpy(r.payload, buf_cstr(&out), out.len + 1);
	h1_body_done(&b);
	arena_done(&a);
	return r;
}

static struct result
feed(enum body_kind kind, uint64_t length, struct str in, size_t step)
{
	return feed_within(&limits, kind, length, in, step);
}

static void
chunks_come_apart_however_they_are_cut(void **state)
{
	struct str in = STR("5\r\nhello\r\n0006;a=b;c=\"d;\\\"\"\r\n world\r\n"
			    "0\r\nX-T: 1\r\nY: 2\r\n\r\nGET");

	(void)state;
	for (size_t step = 1; step <= in.n; step++) {
		struct result r = feed(BODY_CHUNKED, 0, in, step);
		assert_int_equal(r.st, ST_END);
		assert_string_equal(r.payload, "hello world");
		assert_int_equal(r.used, in.n - 3);
		assert_int_equal(r.trailers, 2);
	}
}

static void
a_malformed_chunk_is_an_error_however_it_is_cut(void **state)
{
	static const char *const rows[] = {
		"\r\n",
		"x\r\n",
		"0x5\r\nhello",
		"-5\r\n",
		"+5\r\n",
		" 5\r\n",
		"5 \r\nhello",
		"5\nhello",
		"5\r\nhelloX",
		"5\r\nhello\n",
		"5\r\nhello\rX",
		"5;\r\n",
		"5;;a\r\n",
		"5;a=\r\n",
		"5;a=\"\r\n",
		"5 ;a\r\n",
		"5;a =b\r\n",
		"5;a\x01\r\n",
		"5\r\r\n",
		"8000000000000000\r\n",
		"00000000000000001\r\n",
		"fffffffffffffffff\r\n",
		"5,5\r\n",
		"5;a=b\rc\r\n",
		"0\r\n\n",
		"0\r\nX: a\n\r\n",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		for (size_t step = 1; step < 30; step++) {
			struct result r =
				feed(BODY_CHUNKED, 0, str_from(rows[i]), step);
			if (r.st != ST_BAD_CHUNK)
				fail_msg("row %zu: %s", i, status_code(r.st));
		}
}

static void
a_malformed_trailer_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(feed(BODY_CHUNKED, 0, STR("0\r\n folded\r\n\r\n"), 1).st,
			 ST_BAD_HEADER);
	assert_int_equal(
		feed(BODY_CHUNKED, 0, STR("0\r\nContent_Length: 1\r\n\r\n"), 99).st,
		ST_BAD_HEADER);
}

static void
a_trailer_that_frames_is_an_error(void **state)
{
	static const char *const rows[] = {
		"0\r\nContent-Length: 5\r\n\r\n",
		"0\r\nX: a\r\ntransfer-encoding: chunked\r\n\r\n",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		for (size_t step = 1; step < 60; step++)
			assert_int_equal(
				feed(BODY_CHUNKED, 0, str_from(rows[i]), step).st,
				ST_BAD_CHUNK);
}

static void
a_flood_of_extensions_or_trailers_ends(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	buf_init(&b, 1 << 20);
	for (int i = 0; i < 200; i++)
		buf_put(&b, STR("1;abcdefghijklmnop\r\nx\r\n"));
	assert_int_equal(feed(BODY_CHUNKED, 0, str_of(b.p, b.len), SIZE_MAX).st,
			 ST_BAD_CHUNK);
	buf_clear(&b);
	buf_put(&b, STR("1;"));
	for (int i = 0; i < 300; i++)
		buf_putc(&b, 'a');
	assert_int_equal(feed(BODY_CHUNKED, 0, str_of(b.p, b.len), 7).st, ST_BAD_CHUNK);
	buf_clear(&b);
	buf_put(&b, STR("0\r\n"));
	for (int i = 0; i < 101; i++)
		buf_put(&b, STR("a: b\r\n"));
	assert_int_equal(feed(BODY_CHUNKED, 0, str_of(b.p, b.len), 5).st,
			 ST_HEAD_TOO_LARGE);
}

static void
a_narrow_line_limit_holds_for_trailers_only(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	buf_init(&b, 1024);
	buf_put(&b, STR("0;"));
	for (int i = 0; i < 200; i++)
		buf_putc(&b, 'a');
	buf_put(&b, STR("\r\nX: y\r\n\r\n"));
	for (size_t step = 1; step < 300; step += 7)
		assert_int_equal(
			feed_within(&narrow, BODY_CHUNKED, 0, str_of(b.p, b.len), step)
				.st,
			ST_END);
	buf_clear(&b);
	buf_put(&b, STR("0\r\nX: "));
	for (int i = 0; i < 61; i++)
		buf_putc(&b, 'a');
	assert_int_equal(
		feed_within(&narrow, BODY_CHUNKED, 0, str_of(b.p, b.len), 9).st,
		ST_HEAD_TOO_LARGE);
}

static void
a_length_takes_exactly_its_octets(void **state)
{
	(void)state;
	for (size_t step = 1; step < 9; step++) {
		struct result r = feed(BODY_LENGTH, 5, STR("helloGET"), step);
		assert_int_equal(r.st, step < 5 || r.used == 5 ? r.st : ST_END);
		assert_int_equal(r.used, 5);
		assert_string_equal(r.payload, "hello");
	}
	assert_int_equal(feed(BODY_LENGTH, 0, STR("GET"), 3).st, ST_END);
	assert_int_equal(feed(BODY_NONE, 0, STR("GET"), 3).used, 0);
	assert_false(feed(BODY_LENGTH, 9, STR("hello"), 3).may_close);
}

static void
only_a_body_until_close_may_end_by_closing(void **state)
{
	struct result r = feed(BODY_UNTIL_CLOSE, 0, STR("hello"), 2);

	(void)state;
	assert_true(r.may_close);
	assert_string_equal(r.payload, "hello");
	assert_false(feed(BODY_CHUNKED, 0, STR("5\r\nhel"), 9).may_close);
	assert_false(feed(BODY_CHUNKED, 0, STR("0\r\n"), 9).may_close);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_come_apart_however_they_are_cut),
		cmocka_unit_test(a_malformed_chunk_is_an_error_however_it_is_cut),
		cmocka_unit_test(a_malformed_trailer_is_an_error),
		cmocka_unit_test(a_trailer_that_frames_is_an_error),
		cmocka_unit_test(a_flood_of_extensions_or_trailers_ends),
		cmocka_unit_test(a_narrow_line_limit_holds_for_trailers_only),
		cmocka_unit_test(a_length_takes_exactly_its_octets),
		cmocka_unit_test(only_a_body_until_close_may_end_by_closing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

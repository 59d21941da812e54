#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <brotli/encode.h>
#include <zlib.h>
#include <zstd.h>

#include "connectors/inflate.h"
#include "connectors/scrub.h"
#include "proxy/base/buf.h"

#define TEXT "a text in a text, Q7f3kP9sLw2Zx8Vb4Nm1 and its end, and its end"

enum { ROOM = 1 << 22 };

static const struct inflate_limits limits = { INFLATE_MOST, INFLATE_RATIO };

static unsigned char *
bytes_of(const char *p)
{
	union {
		const char *in;
		unsigned char *out;
	} u = { .in = p };

	return u.out;
}

/* Encoders: append one whole coding of s. */
typedef void (*pack_fn)(struct buf *b, struct str s);

static void
pack_z(struct buf *b, struct str s, int bits)
{
	z_stream z = { .next_in = bytes_of(s.p), .avail_in = (unsigned)s.n };
	char *space = buf_space(b, s.n + 1024);

	assert_non_null(space);
	z.next_out = bytes_of(space);
	z.avail_out = (unsigned)s.n + 1024;
	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY),
			 Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	b->len += z.total_out;
	assert_int_equal(deflateEnd(&z), Z_OK);
}

static void
pack_gzip(struct buf *b, struct str s)
{
	pack_z(b, s, 15 + 16);
}

static void
pack_zlib(struct buf *b, struct str s)
{
	pack_z(b, s, 15);
}

static void
pack_raw(struct buf *b, struct str s)
{
	pack_z(b, s, -15);
}

static void
pack_br(struct buf *b, struct str s)
{
	size_t n = s.n + 1024;
	char *space = buf_space(b, n);

	assert_non_null(space);
	assert_true(BrotliEncoderCompress(5, 22, BROTLI_MODE_GENERIC, s.n,
					  bytes_of(s.p), &n, bytes_of(space)));
	b->len += n;
}

static void
pack_zstd(struct buf *b, struct str s)
{
	char *space = buf_space(b, s.n + 1024);
	size_t n = ZSTD_compress(space, s.n + 1024, s.p, s.n, 5);

	assert_non_null(space);
	assert_false(ZSTD_isError(n));
	b->len += n;
}

static const struct {
	const char *coding;
	pack_fn pack;
	bool has_members;
} rows[] = {
	{ "gzip", pack_gzip, true },     { "X-GZip", pack_gzip, true },
	{ "deflate", pack_zlib, false }, { "deflate", pack_raw, false },
	{ "br", pack_br, false },        { "zstd", pack_zstd, true },
};

/* Decode in pieces of `piece` into rooms of `room`; what came out is in out. */
static enum status
run(const char *codings, const struct buf *in, size_t piece, size_t room,
    struct buf *out)
{
	struct inflate *i;
	enum status st = inflate_new(str_from(codings), &limits, &i);
	size_t at = 0;

	assert_int_equal(st, ST_OK);
	buf_clear(out);
	while (st == ST_OK) {
		struct str part = str_head(str_skip(str_of(in->p, in->len), at), piece);
		size_t had = part.n, got = 0;
		char *space = malloc(room);

		assert_non_null(space);
		st = inflate_feed(i, &part, in->len - at <= piece, space, room, &got);
		buf_put(out, str_of(space, got));
		free(space);
		at += had - part.n;
	}
	inflate_free(i);
	return st;
}

struct bench {
	struct buf in, out;
};

static int
setup(void **state)
{
	struct bench *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	buf_init(&b->in, ROOM);
	buf_init(&b->out, 2 * (size_t)INFLATE_MOST);
	*state = b;
	return 0;
}

static int
teardown(void **state)
{
	struct bench *b = *state;

	buf_done(&b->in);
	buf_done(&b->out);
	free(b);
	return 0;
}

static void
expect_text(const struct bench *b, const char *text)
{
	assert_true(str_eq(str_of(b->out.p, b->out.len), str_from(text)));
}

static void
every_coding_is_taken_off_however_it_is_cut(void **state)
{
	struct bench *b = *state;

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		buf_clear(&b->in);
		rows[i].pack(&b->in, STR(TEXT));
		for (size_t piece = 1; piece <= b->in.len; piece++) {
			assert_int_equal(run(rows[i].coding, &b->in, piece, 7, &b->out),
					 ST_END);
			expect_text(b, TEXT);
			assert_int_equal(
				run(rows[i].coding, &b->in, piece, 4096, &b->out),
				ST_END);
			expect_text(b, TEXT);
		}
	}
}

static void
codings_over_each_other_come_off_from_the_last(void **state)
{
	struct bench *b = *state;
	CLEANUP(buf_done) struct buf inner = { 0 }, middle = { 0 };

	buf_init(&inner, ROOM);
	buf_init(&middle, ROOM);
	pack_zlib(&inner, STR(TEXT));
	pack_br(&middle, str_of(inner.p, inner.len));
	pack_gzip(&b->in, str_of(middle.p, middle.len));
	for (size_t piece = 1; piece <= b->in.len; piece++) {
		assert_int_equal(
			run("deflate, br , identity,gzip", &b->in, piece, 5, &b->out),
			ST_END);
		expect_text(b, TEXT);
	}
	assert_int_equal(run("br, deflate, gzip", &b->in, 100, 100, &b->out),
			 ST_UPSTREAM_BAD);
}

static void
members_follow_each_other_where_the_coding_has_them(void **state)
{
	struct bench *b = *state;

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		buf_clear(&b->in);
		rows[i].pack(&b->in, STR(TEXT));
		rows[i].pack(&b->in, STR(""));
		rows[i].pack(&b->in, STR("and more"));
		for (size_t piece = 1; piece <= b->in.len; piece += 3) {
			enum status st =
				run(rows[i].coding, &b->in, piece, 50, &b->out);

			if (!rows[i].has_members) {
				assert_int_equal(st, ST_UPSTREAM_BAD);
				continue;
			}
			assert_int_equal(st, ST_END);
			expect_text(b, TEXT "and more");
		}
	}
}

static void
what_is_cut_off_or_goes_on_is_an_error(void **state)
{
	struct bench *b = *state;

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		size_t whole;

		buf_clear(&b->in);
		rows[i].pack(&b->in, STR(TEXT));
		whole = b->in.len;
		for (b->in.len = 1; b->in.len < whole; b->in.len++)
			assert_int_equal(run(rows[i].coding, &b->in, 9, 4096, &b->out),
					 ST_UPSTREAM_BAD);
		buf_putc(&b->in, 'x');
		assert_int_equal(run(rows[i].coding, &b->in, 9, 4096, &b->out),
				 ST_UPSTREAM_BAD);
		assert_int_equal(run(rows[i].coding, &b->in, 4096, 4096, &b->out),
				 ST_UPSTREAM_BAD);
	}
}

static void
a_body_of_no_octets_is_none(void **state)
{
	struct bench *b = *state;

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		assert_int_equal(run(rows[i].coding, &b->in, 9, 9, &b->out), ST_END);
	assert_int_equal(b->out.len, 0);
}

static void
bombs_are_stopped_by_their_ratio(void **state)
{
	struct bench *b = *state;
	char *zeroes = calloc(1, (size_t)32 << 20);

	assert_non_null(zeroes);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		buf_clear(&b->in);
		b->in.max = (size_t)64 << 20;
		rows[i].pack(&b->in, str_of(zeroes, (size_t)32 << 20));
		assert_int_equal(run(rows[i].coding, &b->in, 4096, 65536, &b->out),
				 ST_TOO_BIG);
		assert_true(b->out.len <= 2 * (size_t)INFLATE_FREE);
	}
	free(zeroes);
}

static void
a_bomb_inside_a_coding_is_stopped_as_well(void **state)
{
	struct bench *b = *state;
	CLEANUP(buf_done) struct buf inner = { 0 };
	char *zeroes = calloc(1, (size_t)16 << 20);

	assert_non_null(zeroes);
	buf_init(&inner, (size_t)64 << 20);
	b->in.max = (size_t)64 << 20;
	/* What is in the middle decodes to nothing that anyone would see. */
	pack_br(&inner, str_of(zeroes, (size_t)16 << 20));
	pack_gzip(&b->in, str_of(inner.p, inner.len));
	assert_int_equal(run("br, gzip", &b->in, 65536, 65536, &b->out), ST_TOO_BIG);
	free(zeroes);
}

static void
no_more_than_the_most_comes_out(void **state)
{
	struct bench *b = *state;
	static const struct inflate_limits small = { 40, INFLATE_RATIO };
	struct inflate *i;
	struct str in;
	char space[100];
	size_t got = 0;

	pack_gzip(&b->in, STR(TEXT));
	in = str_of(b->in.p, b->in.len);
	assert_int_equal(inflate_new(STR("gzip"), &small, &i), ST_OK);
	assert_int_equal(inflate_feed(i, &in, true, space, sizeof(space), &got),
			 ST_TOO_BIG);
	assert_int_equal(got, 0);
	assert_int_equal(inflate_feed(i, &in, true, space, sizeof(space), &got),
			 ST_TOO_BIG);
	inflate_free(i);
}

static void
unknown_codings_and_too_many_are_refused(void **state)
{
	struct inflate *i = NULL;

	(void)state;
	assert_int_equal(inflate_new(STR("identity"), &limits, &i), ST_END);
	assert_int_equal(inflate_new(STR(""), &limits, &i), ST_END);
	assert_int_equal(inflate_new(STR("compress"), &limits, &i), ST_UPSTREAM_BAD);
	assert_int_equal(inflate_new(STR("gzip;q=1"), &limits, &i), ST_UPSTREAM_BAD);
	assert_int_equal(inflate_new(STR("gzip,gzip,gzip,gzip"), &limits, &i),
			 ST_UPSTREAM_BAD);
	assert_null(i);
}

/* The row of bytes as a connector sends them on: decoded, then scrubbed. */
static void
decode_and_scrub(struct bench *b, const char *coding, const struct needle_set *set,
		 size_t piece)
{
	CLEANUP(buf_done) struct buf plain = { 0 };
	CLEANUP(scrub_done) struct scrub s = { 0 };
	struct str rest, out;

	buf_init(&plain, ROOM);
	scrub_init(&s, set);
	assert_int_equal(run(coding, &b->in, piece, 3, &plain), ST_END);
	buf_clear(&b->out);
	for (rest = str_of(plain.p, plain.len); rest.n > 0;
	     rest = str_skip(rest, piece)) {
		char *space = malloc(piece + scrub_room(&s));

		assert_non_null(space);
		assert_int_equal(scrub_feed(&s, str_head(rest, piece), rest.n <= piece,
					    space, &out),
				 ST_OK);
		buf_put(&b->out, out);
		free(space);
	}
}

static void
an_echo_inside_any_coding_is_masked_at_every_cut(void **state)
{
	const struct needle n = { STR("Q7f3kP9sLw2Zx8Vb4Nm1"),
				  STR("W5a8mT2oKe6Bq0Uj7Xi3") };
	struct bench *b = *state;
	struct needle_set *set;

	assert_int_equal(needle_set_new(&n, 1, &set), ST_OK);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		buf_clear(&b->in);
		rows[i].pack(&b->in, STR(TEXT));
		for (size_t piece = 1; piece <= b->in.len; piece++) {
			decode_and_scrub(b, rows[i].coding, set, piece);
			expect_text(
				b,
				"a text in a text, W5a8mT2oKe6Bq0Uj7Xi3 and its end, "
				"and its end");
		}
	}
	needle_set_free(set);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_coding_is_taken_off_however_it_is_cut),
		TEST(codings_over_each_other_come_off_from_the_last),
		TEST(members_follow_each_other_where_the_coding_has_them),
		TEST(what_is_cut_off_or_goes_on_is_an_error),
		TEST(a_body_of_no_octets_is_none),
		TEST(bombs_are_stopped_by_their_ratio),
		TEST(a_bomb_inside_a_coding_is_stopped_as_well),
		TEST(no_more_than_the_most_comes_out),
		TEST(unknown_codings_and_too_many_are_refused),
		TEST(an_echo_inside_any_coding_is_masked_at_every_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/h2_victim.h"

enum { ROUNDS = 5000 };

typedef void (*round_fn)(struct victim *v, uint32_t i);

/* The same thing over and over, each in a read of its own, until it isn't borne. */
static enum status
flood(struct victim *v, round_fn fn, uint64_t pause_ms)
{
	enum status st = ST_OK;

	for (v->rounds = 0; st == ST_OK && v->rounds < ROUNDS; v->rounds++) {
		fn(v, (uint32_t)v->rounds);
		v->now_ms += pause_ms;
		st = feed(v);
	}
	return st;
}

static void
expect_end(round_fn fn, size_t least, size_t most)
{
	struct victim v;

	open_victim(&v);
	assert_int_equal(flood(&v, fn, 0), ST_LIMIT_RATE);
	if (v.rounds < least || v.rounds > most)
		fail_msg("borne %zu times", v.rounds);
	assert_true(v.said_goaway);
	assert_int_equal(v.code, H2_ENHANCE_YOUR_CALM);
	assert_true(mallinfo2().uordblks < v.memory + (1 << 20));
	close_victim(&v);
}

static void
ping(struct victim *v, uint32_t i)
{
	(void)i;
	raw_frame(&v->in, RAW_PING, 0, 0, STR("12345678"));
}

static void
settings(struct victim *v, uint32_t i)
{
	(void)i;
	raw_frame(&v->in, RAW_SETTINGS, 0, 0, STR("\0\4\0\0\0\1"));
}

static void
priority(struct victim *v, uint32_t i)
{
	raw_frame(&v->in, RAW_PRIORITY, 0, 2 * i + 1, STR("\0\0\0\0\20"));
}

static void
window(struct victim *v, uint32_t i)
{
	(void)i;
	raw_frame(&v->in, RAW_WINDOW_UPDATE, 0, 0, STR("\0\0\0\1"));
}

static void
unknown(struct victim *v, uint32_t i)
{
	(void)i;
	raw_frame(&v->in, 0xbe, 0, 0, STR("x"));
}

static void
frames_that_mean_nothing_are_borne_a_while(void **state)
{
	(void)state;
	expect_end(ping, 90, 110);
	expect_end(settings, 90, 110);
	expect_end(priority, 90, 110);
	expect_end(window, 90, 110);
	expect_end(unknown, 90, 110);
}

static void
a_peer_that_pings_now_and_then_is_not_a_flood(void **state)
{
	struct victim v;

	(void)state;
	open_victim(&v);
	assert_int_equal(flood(&v, ping, 100), ST_OK);
	close_victim(&v);
}

static void
rapid_reset(struct victim *v, uint32_t i)
{
	raw_get(&v->in, 2 * i + 1, RAW_END_STREAM, STR(""), STR(""));
	raw_frame(&v->in, RAW_RST_STREAM, 0, 2 * i + 1, STR("\0\0\0\10"));
}

/* The peer makes us reset: a window that overflows (CVE-2025-8671). */
static void
made_reset(struct victim *v, uint32_t i)
{
	raw_get(&v->in, 2 * i + 1, RAW_END_STREAM, STR(""), STR(""));
	raw_frame(&v->in, RAW_WINDOW_UPDATE, 0, 2 * i + 1, STR("\177\377\377\377"));
}

static void
malformed(struct victim *v, uint32_t i)
{
	raw_get(&v->in, 2 * i + 1, RAW_END_STREAM, STR("connection"), STR("close"));
}

static void
resets_of_either_end_are_counted(void **state)
{
	(void)state;
	expect_end(rapid_reset, 95, 105);
	expect_end(made_reset, 95, 105);
	expect_end(malformed, 95, 105);
}

static void
resets_at_a_human_rate_are_borne(void **state)
{
	struct victim v;

	(void)state;
	open_victim(&v);
	assert_int_equal(flood(&v, rapid_reset, 60), ST_OK);
	assert_int_equal(v.server.closed, ROUNDS);
	close_victim(&v);
}

static void
empty_data(struct victim *v, uint32_t i)
{
	if (i == 0)
		raw_get(&v->in, 1, 0, STR(""), STR(""));
	raw_frame(&v->in, RAW_DATA, 0, 1, STR(""));
}

static void
padded_data(struct victim *v, uint32_t i)
{
	if (i == 0)
		raw_get(&v->in, 1, 0, STR(""), STR(""));
	raw_frame(&v->in, RAW_DATA, RAW_PADDED, 1, STR("\3abc"));
}

static void
empty_headers(struct victim *v, uint32_t i)
{
	raw_frame(&v->in, i == 0 ? RAW_HEADERS : RAW_CONTINUATION, 0, 1, STR(""));
}

static void
empty_frames_come_once_at_most(void **state)
{
	(void)state;
	expect_end(empty_data, 2, 2);
	expect_end(padded_data, 2, 2);
	expect_end(empty_headers, 2, 2);
}

/* RFC 9113 section 10.5.1 as an attack: CVE-2024-28182. */
static void
continuation(struct victim *v, uint32_t i)
{
	CLEANUP(buf_done) struct buf f = { 0 };

	buf_init(&f, 1024);
	raw_field(&f, STR("x-a"), STR("b"));
	raw_frame(&v->in, i == 0 ? RAW_HEADERS : RAW_CONTINUATION, 0, 1,
		  str_of(f.p, f.len));
}

static void
a_head_in_endless_parts_is_not_waited_for(void **state)
{
	(void)state;
	expect_end(continuation, 10, 10);
}

/* A peer whose segments are short does nothing wrong. */
static void
a_head_in_nine_parts_may_come_octet_by_octet(void **state)
{
	CLEANUP(buf_done) struct buf all = { 0 };
	struct victim v;

	(void)state;
	open_victim(&v);
	raw_get(&v.in, 1, RAW_END_STREAM, STR(""), STR(""));
	v.in.p[4] &= ~RAW_END_HEADERS;
	for (int i = 0; i < 8; i++)
		raw_frame(&v.in, RAW_CONTINUATION, i == 7 ? RAW_END_HEADERS : 0, 1,
			  STR("\0\1x\1y"));
	buf_init(&all, 4096);
	buf_put(&all, str_of(v.in.p, v.in.len));
	for (size_t i = 0; i < all.len; i++) {
		buf_clear(&v.in);
		buf_put(&v.in, str_of(all.p + i, 1));
		assert_int_equal(feed(&v), ST_OK);
	}
	assert_non_null(strstr(peer_log(&v.server), "x=y x=y x=y x=y x=y x=y x=y x=y"));
	close_victim(&v);
}

/* One field put into the table, then named by one octet each time: CVE-2026-49975. */
static void
put_bomb(struct buf *in, uint32_t id, struct str name, size_t value, size_t times)
{
	CLEANUP(buf_done) struct buf f = { 0 };
	static char text[100];

	memset(text, 'a', sizeof text);
	buf_init(&f, 1 << 20);
	raw_get_fields(&f);
	buf_put_u8(&f, 0x40);
	buf_put_u8(&f, (uint8_t)name.n);
	buf_put(&f, name);
	buf_put_u8(&f, (uint8_t)value);
	buf_put(&f, str_of(text, value));
	for (size_t i = 0; i < times; i++)
		buf_put_u8(&f, 0x80 | 62);
	raw_frame(in, RAW_HEADERS, RAW_END_HEADERS | RAW_END_STREAM, id,
		  str_of(f.p, f.len));
}

static void
a_bomb_of_fields_ends_the_connection_at_once(void **state)
{
	static const struct {
		const char *name;
		size_t value;
	} bombs[] = { { "x", 0 }, { "cookie", 1 }, { "x", 100 }, { "te", 8 } };
	struct victim v;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bombs); i++) {
		open_victim(&v);
		put_bomb(&v.in, 1, str_from(bombs[i].name), bombs[i].value, 15000);
		enum status st = feed(&v);
		/* te with such a value is malformed before it is too much. */
		assert_int_equal(st, i == 3 ? ST_OK : ST_HEAD_TOO_LARGE);
		assert_int_equal(v.said_goaway, i != 3);
		assert_true(mallinfo2().uordblks < v.memory + (1 << 17));
		assert_int_equal(v.server.log.len, 0);
		close_victim(&v);
	}
}

/* As much as is allowed, in as many streams as are allowed. */
static void
heads_of_many_streams_have_a_limit_together(void **state)
{
	struct victim v;
	size_t heads = 0;

	(void)state;
	open_victim(&v);
	for (uint32_t i = 0; i < 90; i++) {
		put_bomb(&v.in, 2 * i + 1, STR("x"), 100, 94);
		assert_int_equal(feed(&v), ST_OK);
	}
	heads = h2_streams(v.server.h);
	assert_true(heads > 20 && heads < 60);
	assert_true(mallinfo2().uordblks < v.memory + (1 << 20));
	close_victim(&v);
}

static void
heads_of_usual_size_are_not_too_many(void **state)
{
	struct h2_limits lim = pair_limits;
	struct h2_pair p;
	char fields[3000];

	(void)state;
	lim.heads = 224 * 1024;
	pair_open_limits(&p, &pair_limits, &lim);
	(void)snprintf(fields, sizeof fields, "Authorization: %02000d\r\n", 1);
	for (int i = 0; i < 100; i++)
		pair_ask(&p, "POST", "http://ok.test/", fields, BODY_CHUNKED, 0);
	pair_run(&p);
	assert_int_equal(h2_streams(p.server.h), 100);
	assert_int_equal(p.client.closed, 0);
	pair_close(&p);
}

static void
heads_of_responses_have_a_limit_together(void **state)
{
	struct h2_limits lim = pair_limits;
	struct h2_stream *s[3];
	struct h2_pair p;
	char fields[6000];

	(void)state;
	lim.heads = 30000;
	pair_open_limits(&p, &lim, &pair_limits);
	(void)snprintf(fields, sizeof fields, "X: %05000d\r\n", 1);
	for (int i = 0; i < 3; i++) {
		pair_ask(&p, "GET", "http://ok.test/", "", BODY_NONE, 0);
		pair_run(&p);
		s[i] = p.server.stream;
	}
	for (int i = 0; i < 3; i++) {
		p.server.stream = s[i];
		pair_answer(&p, 103, fields, BODY_CHUNKED, 0);
		pair_answer(&p, 200, fields, BODY_CHUNKED, 0);
	}
	pair_run(&p);
	assert_int_equal(h2_streams(p.client.h), 2);
	assert_int_equal(p.client.code, H2_ENHANCE_YOUR_CALM);
	pair_close(&p);
}

static void
a_hundred_fields_pass_and_one_more_does_not(void **state)
{
	struct victim v;

	(void)state;
	for (size_t n = 99; n <= 100; n++) {
		open_victim(&v);
		put_bomb(&v.in, 1, STR("x"), 1, n);
		assert_int_equal(feed(&v), n == 99 ? ST_OK : ST_HEAD_TOO_LARGE);
		assert_int_equal(v.server.log.len > 0, n == 99);
		close_victim(&v);
	}
}

/* What waits to be written to a peer that reads nothing. */
static void
answers_that_are_not_read_have_a_limit(void **state)
{
	struct victim v;
	enum status st = ST_OK;

	(void)state;
	open_victim(&v);
	for (uint32_t i = 0; st == ST_OK && i < ROUNDS; i++) {
		v.now_ms += 100;
		ping(&v, i);
		st = h2_feed(v.server.h, str_of(v.in.p, v.in.len), v.now_ms);
		buf_clear(&v.in);
	}
	assert_int_equal(st, ST_LIMIT_RATE);
	assert_true(mallinfo2().uordblks < v.memory + (1 << 20));
	close_victim(&v);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_that_mean_nothing_are_borne_a_while),
		cmocka_unit_test(a_peer_that_pings_now_and_then_is_not_a_flood),
		cmocka_unit_test(resets_of_either_end_are_counted),
		cmocka_unit_test(resets_at_a_human_rate_are_borne),
		cmocka_unit_test(empty_frames_come_once_at_most),
		cmocka_unit_test(a_head_in_endless_parts_is_not_waited_for),
		cmocka_unit_test(a_head_in_nine_parts_may_come_octet_by_octet),
		cmocka_unit_test(a_bomb_of_fields_ends_the_connection_at_once),
		cmocka_unit_test(heads_of_many_streams_have_a_limit_together),
		cmocka_unit_test(heads_of_usual_size_are_not_too_many),
		cmocka_unit_test(heads_of_responses_have_a_limit_together),
		cmocka_unit_test(a_hundred_fields_pass_and_one_more_does_not),
		cmocka_unit_test(answers_that_are_not_read_have_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

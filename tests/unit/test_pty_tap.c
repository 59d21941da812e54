#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/base/buf.h"
#include "proxy/flow/pty_tap.h"
#include "tests/unit/tally_check.h"

enum { FINAL = 0x80, CONTINUATION = 0, TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9 };

static const uint8_t mask[] = { 0x12, 0x80, 0xff, 0x05 };

/* A frame; of the client it is masked. */
static void
put_frame(struct buf *b, enum pty_side from, int code, struct str s)
{
	uint8_t masked = from == PTY_CLIENT ? 0x80 : 0;

	buf_put_u8(b, (uint8_t)code);
	if (s.n < 126) {
		buf_put_u8(b, (uint8_t)(masked | s.n));
	} else {
		buf_put_u8(b, masked | 126);
		buf_put_u16(b, (uint16_t)s.n);
	}
	if (masked != 0)
		buf_put(b, str_of(mask, sizeof mask));
	for (size_t i = 0; i < s.n; i++)
		buf_put_u8(b, (uint8_t)((uint8_t)s.p[i] ^ (masked ? mask[i % 4] : 0)));
}

static void
feed(struct pty_tap *t, enum pty_side from, struct str in, size_t step)
{
	assert_int_equal(pty_tap_init(t), ST_OK);
	for (; in.n > 0; in = str_skip(in, step))
		pty_tap_put(t, from, str_head(in, step));
}

static const size_t steps[] = { SIZE_MAX, 1, 2, 3, 7 };

#define EACH_STEP(t, from, b)                                                          \
	for (size_t s_ = 0;                                                            \
	     s_ < COUNT_OF(steps) &&                                                   \
	     (feed((t), (from), str_of((b)->p, (b)->len), steps[s_]), true);           \
	     pty_tap_done(t), s_++)

static void
what_a_client_types_is_counted_in_both_its_forms(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct pty_tap t;

	(void)state;
	buf_init(&b, 1 << 16);
	put_frame(&b, PTY_CLIENT, FINAL | BINARY, STR("\0ls\n"));
	put_frame(&b, PTY_CLIENT, FINAL | TEXT, STR("{\"type\":\"ping\"}"));
	put_frame(&b, PTY_CLIENT, FINAL | TEXT,
		  STR("{\"type\":\"stdin\",\"data\":\"\\u0003a\"}"));
	put_frame(&b, PTY_CLIENT, FINAL | TEXT,
		  STR("{\"data\":\"b\",\"type\":\"stdin\"}"));
	put_frame(&b, PTY_CLIENT, FINAL | TEXT,
		  STR("{\"type\":\"signal\",\"data\":\"not this\"}"));
	put_frame(&b, PTY_CLIENT, FINAL | CLOSE, STR("\x03\xe8"));
	EACH_STEP(&t, PTY_CLIENT, &b)
	{
		const struct pty_side_tap *s = &t.sides[PTY_CLIENT];
		assert_tally(&t.channels[PTY_STDIN], 3, STR("ls\n\003ab"));
		assert_int_equal(s->messages, 5);
		assert_int_equal(s->unreadable, 0);
		assert_true(s->is_closed && !s->is_blind);
	}
}

static void
what_a_server_sends_is_counted_by_channel_with_the_exit_code(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct pty_tap t;

	(void)state;
	buf_init(&b, 1 << 16);
	put_frame(&b, PTY_SERVER, FINAL | TEXT,
		  STR("{\"type\":\"connected\",\"mode\":\"pty\"}"));
	put_frame(&b, PTY_SERVER, FINAL | BINARY, STR("\3\0\0\0\0\0\0\0\7replay"));
	put_frame(&b, PTY_SERVER, BINARY, STR("\1on"));
	put_frame(&b, PTY_SERVER, FINAL | PING, STR("x"));
	put_frame(&b, PTY_SERVER, CONTINUATION, STR(""));
	put_frame(&b, PTY_SERVER, FINAL | CONTINUATION, STR("e"));
	put_frame(&b, PTY_SERVER, FINAL | BINARY, STR("\2err"));
	put_frame(&b, PTY_SERVER, FINAL | BINARY, STR("\1"));
	put_frame(&b, PTY_SERVER, TEXT, STR("{\"type\":\"ex"));
	put_frame(&b, PTY_SERVER, FINAL | CONTINUATION, STR("it\",\"exit_code\":130}"));
	EACH_STEP(&t, PTY_SERVER, &b)
	{
		const struct pty_side_tap *s = &t.sides[PTY_SERVER];
		assert_tally(&t.channels[PTY_STDOUT], 2, STR("one"));
		assert_tally(&t.channels[PTY_STDERR], 1, STR("err"));
		assert_int_equal(t.channels[PTY_REPLAY].octets, 6);
		assert_true(t.has_code && t.code == 130 && t.is_tty);
		assert_int_equal(s->messages, 6);
		assert_true(s->unreadable == 0 && !s->is_blind && !s->is_closed);
	}
}

static void
a_long_message_comes_through_the_mask_whole(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	char text[40000];
	struct pty_tap t;

	(void)state;
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (char)(i * 7 % 251);
	text[0] = '\0';
	buf_init(&b, 1 << 17);
	put_frame(&b, PTY_CLIENT, FINAL | BINARY, str_of(text, sizeof text));
	EACH_STEP(&t, PTY_CLIENT, &b)
	assert_tally(&t.channels[PTY_STDIN], 1, str_of(text + 1, sizeof text - 1));
}

static void
a_message_that_is_odd_is_counted_and_the_next_is_read(void **state)
{
	static const struct {
		enum pty_side from;
		int code;
		struct str s;
	} odd[] = {
		{ PTY_CLIENT, BINARY, { "\1stdout", 7 } },
		{ PTY_CLIENT, BINARY, { "\3", 1 } },
		{ PTY_CLIENT, BINARY, { "\4", 1 } },
		{ PTY_CLIENT, BINARY, { "", 0 } },
		{ PTY_SERVER, BINARY, { "\0stdin", 6 } },
		{ PTY_SERVER, BINARY, { "\3\0\0\0", 4 } },
		{ PTY_SERVER, BINARY, { "\xff", 1 } },
		{ PTY_SERVER, TEXT, { "", 0 } },
		{ PTY_SERVER, TEXT, { "[]", 2 } },
		{ PTY_SERVER, TEXT, { "{} {}", 5 } },
		{ PTY_SERVER, TEXT, { "{\"type\":\"exit\"", 14 } },
		{ PTY_SERVER, TEXT, { "{\"type\":1,\"type\":2}", 19 } },
		{ PTY_CLIENT, TEXT, { "stdin", 5 } },
	};
	struct pty_tap t;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(odd); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		enum pty_side from = odd[i].from;
		enum pty_channel c = from == PTY_CLIENT ? PTY_STDIN : PTY_STDOUT;
		buf_init(&b, 1 << 16);
		put_frame(&b, from, FINAL | odd[i].code, odd[i].s);
		put_frame(&b, from, FINAL | BINARY,
			  from == PTY_CLIENT ? STR("\0ok") : STR("\1ok"));
		EACH_STEP(&t, from, &b)
		{
			assert_int_equal(t.sides[from].unreadable, 1);
			assert_int_equal(t.sides[from].messages, 2);
			assert_false(t.sides[from].is_blind || t.has_code);
			assert_tally(&t.channels[c], 1, STR("ok"));
		}
	}
}

#define STRING(text)                                                                   \
	{                                                                              \
		text, sizeof text - 1                                                  \
	}

/* What execd might take for stdin and we have not read, or not as that. */
static void
what_a_client_may_have_typed_unread_is_told(void **state)
{
	static const struct {
		bool is_hidden;
		struct str s;
		int code;
	} of[] = {
		{ false, STRING("{\"type\":\"resize\",\"cols\":80}"), TEXT },
		{ false, STRING("{\"type\":\"ping\",\"data\":\"x\"}"), TEXT },
		{ false, STRING("{\"data\":\"x\",\"type\":\"stdin\"}"), TEXT },
		{ true, STRING("{\"data\":\"x\",\"type\":\"ping\"}"), TEXT },
		{ true, STRING("{\"data\":\"x\"}"), TEXT },
		{ true, STRING("{\"Type\":\"stdin\",\"data\":\"x\"}"), TEXT },
		{ true, STRING("{\"type\":\"ping\",\"type\":\"stdin\",\"data\":\"x\"}"),
		  TEXT },
		{ true, STRING("{\"type\":\"stdin\",\"data\":\"\xff\"}"), TEXT },
		{ true, STRING("{\"type\":\"stdin\",\"data\":\"x\"} x"), TEXT },
		{ true, STRING("{\"type\":\"stdin\",\"data\":\"x\""), TEXT },
		{ true, STRING("x"), TEXT },
		{ true, STRING("{\"type\":\"stdin\",\"data\":\"x\"}"), BINARY },
		{ true, STRING("\4x"), BINARY },
		{ false, STRING("\0x"), BINARY },
		{ false, STRING(""), BINARY },
	};
	struct pty_tap t;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(of); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };

		buf_init(&b, 1 << 10);
		put_frame(&b, PTY_CLIENT, FINAL | of[i].code, of[i].s);
		EACH_STEP(&t, PTY_CLIENT, &b)
		assert_int_equal(t.sides[PTY_CLIENT].is_hidden, of[i].is_hidden);
	}
}

static void
frames_that_the_protocol_forbids_end_the_reading_of_their_side(void **state)
{
	static const struct {
		enum pty_side from;
		struct str s;
	} bad[] = {
		{ PTY_SERVER, { "\x82\x81mask\1", 7 } },
		{ PTY_CLIENT, { "\x82\x02\0x", 4 } },
		{ PTY_SERVER, { "\xc2\x01\1", 3 } },
		{ PTY_SERVER, { "\x83\x01\1", 3 } },
		{ PTY_SERVER, { "\x8b\x00", 2 } },
		{ PTY_SERVER, { "\x80\x01\1", 3 } },
		{ PTY_SERVER, { "\x02\x01\1\x82\x01\1", 6 } },
		{ PTY_SERVER, { "\x09\x00", 2 } },
		{ PTY_SERVER, { "\x89\x7e\x01\x00", 4 } },
		{ PTY_SERVER, { "\x82\x7e\x00\x7d", 4 } },
		{ PTY_SERVER, { "\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff", 10 } },
		{ PTY_SERVER, { "\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00", 10 } },
		{ PTY_SERVER, { "\x88\x00\x82\x01\1", 5 } },
	};
	struct pty_tap t;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct buf b = { 0 };
		buf_init(&b, 100);
		buf_put(&b, bad[i].s);
		EACH_STEP(&t, bad[i].from, &b)
		{
			assert_true(t.sides[bad[i].from].is_blind);
			assert_true(t.sides[bad[i].from].is_hidden);
			assert_false(t.sides[!bad[i].from].is_blind);
		}
		buf_done(&b);
	}
}

static void
a_frame_that_claims_exabytes_costs_no_memory(void **state)
{
	static char piece[1 << 16];
	struct pty_tap t;

	(void)state;
	feed(&t, PTY_SERVER, STR("\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff\1"), 3);
	for (int i = 0; i < 100; i++)
		pty_tap_put(&t, PTY_SERVER, str_of(piece, sizeof piece));
	assert_int_equal(t.channels[PTY_STDOUT].octets, 100 * sizeof piece);
	assert_false(t.sides[PTY_SERVER].is_blind);
	pty_tap_done(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_client_types_is_counted_in_both_its_forms),
		cmocka_unit_test(
			what_a_server_sends_is_counted_by_channel_with_the_exit_code),
		cmocka_unit_test(a_long_message_comes_through_the_mask_whole),
		cmocka_unit_test(a_message_that_is_odd_is_counted_and_the_next_is_read),
		cmocka_unit_test(what_a_client_may_have_typed_unread_is_told),
		cmocka_unit_test(
			frames_that_the_protocol_forbids_end_the_reading_of_their_side),
		cmocka_unit_test(a_frame_that_claims_exabytes_costs_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

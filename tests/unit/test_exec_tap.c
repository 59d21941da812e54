#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/base/buf.h"
#include "proxy/flow/exec_tap.h"
#include "tests/unit/tally_check.h"

static void
feed(struct exec_tap *t, struct str in, size_t step)
{
	assert_int_equal(exec_tap_init(t), ST_OK);
	for (; in.n > 0; in = str_skip(in, step))
		exec_tap_put(t, str_head(in, step));
	exec_tap_end(t);
}

static void
assert_held(const struct held *h, const char *want)
{
	assert_true(held_is(h, str_from(want)));
}

static const size_t steps[] = { SIZE_MAX, 1, 2, 3, 11 };

#define EACH_STEP(t, in)                                                               \
	for (size_t s_ = 0;                                                            \
	     s_ < COUNT_OF(steps) && (feed((t), (in), steps[s_]), true);               \
	     exec_tap_done(t), s_++)

static void
a_command_tells_its_id_its_output_and_that_it_is_complete(void **state)
{
	struct str in =
		STR("{\"type\":\"init\",\"text\":\"cmd-1\",\"timestamp\":1}\n\n"
		    "{\"type\":\"ping\",\"text\":\"pong\",\"timestamp\":2}\n\n"
		    "{\"type\":\"stdout\",\"text\":\"one\\n\",\"timestamp\":3}\n\n"
		    "{\"type\":\"stderr\",\"text\":\"\\u00e4\\ud83d\\ude00\"}\n\n"
		    "{\"type\":\"stdout\",\"text\":\"two\\n\"}\n\n"
		    "{\"type\":\"stdout\",\"text\":\"\"}\n\n"
		    "{\"type\":\"execution_complete\",\"execution_time\":150}\n\n");
	struct exec_tap t;
	int64_t code = -1;

	(void)state;
	EACH_STEP(&t, in)
	{
		assert_held(&t.id, "cmd-1");
		assert_int_equal(t.events, 7);
		assert_int_equal(t.unreadable, 0);
		assert_tally(&t.out[EXEC_STDOUT], 3, STR("one\ntwo\n"));
		assert_tally(&t.out[EXEC_STDERR], 1, STR("\xc3\xa4\xf0\x9f\x98\x80"));
		assert_true(t.is_complete && t.has_ms && t.ms == 150 && !t.has_error);
		assert_true(exec_tap_exit(&t, &code) && code == 0);
	}
}

static void
an_error_tells_the_exit_code_or_only_its_name(void **state)
{
	struct exec_tap t;
	int64_t code = -1;

	(void)state;
	EACH_STEP(&t,
		  STR("{\"type\":\"error\",\"error\":{\"ename\":\"CommandExecError\","
		      "\"evalue\":\"127\",\"traceback\":[\"x\"]}}\n\n"))
	{
		assert_held(&t.ename, "CommandExecError");
		assert_true(exec_tap_exit(&t, &code) && code == 127);
	}
	EACH_STEP(&t, STR("{\"error\":{\"evalue\":\"-9\"},\"type\":\"error\"}\n"))
	assert_true(exec_tap_exit(&t, &code) && code == -9);
	EACH_STEP(&t, STR("{\"type\":\"error\",\"error\":{\"ename\":\"NameError\","
			  "\"evalue\":\"name 'x' is not defined\"}}\n\n"
			  "{\"type\":\"execution_complete\",\"execution_time\":1}\n\n"))
	{
		assert_held(&t.ename, "NameError");
		assert_false(exec_tap_exit(&t, &code));
	}
	EACH_STEP(&t, STR("{\"type\":\"stdout\",\"text\":\"a\"}\n"))
	assert_false(exec_tap_exit(&t, &code));
	EACH_STEP(&t, STR("{\"type\":\"error\",\"error\":{\"evalue\":"
			  "\"99999999999999999999\"}}\n"))
	assert_false(exec_tap_exit(&t, &code));
}

static void
fields_of_server_sent_events_are_read_over(void **state)
{
	struct exec_tap t;

	(void)state;
	EACH_STEP(&t, STR(": hello\r\nevent: message\r\nid: 7\r\nretry: 10\r\n"
			  "data:{\"type\":\"stdout\",\"text\":\"a\"}\r\n\r\n"
			  "  data:  {\"text\":\"b\",\"type\":\"stdout\"}  \r\n"
			  "data:\r\n\t{\"type\":\"stdout\",\"text\":\"c\"}"))
	{
		assert_int_equal(t.unreadable, 0);
		assert_int_equal(t.events, 3);
		assert_tally(&t.out[EXEC_STDOUT], 3, STR("abc"));
	}
}

static void
text_before_its_type_goes_where_the_type_says(void **state)
{
	struct exec_tap t;

	(void)state;
	EACH_STEP(&t, STR("{\"text\":\"a\",\"type\":\"stdout\"}\n\n"
			  "{\"text\":\"b\",\"type\":\"stderr\"}\n\n"
			  "{\"text\":\"c\",\"type\":\"status\"}\n\n"
			  "{\"text\":\"id\",\"type\":\"init\"}\n\n"
			  "{\"text\":\"lost\"}\n\n"
			  "{\"type\":\"stdout\",\"text\":\"d\"}\n\n"))
	{
		assert_int_equal(t.unreadable, 0);
		assert_held(&t.id, "id");
		assert_tally(&t.out[EXEC_STDOUT], 2, STR("ad"));
		assert_tally(&t.out[EXEC_STDERR], 1, STR("b"));
	}
}

static void
long_text_before_its_type_goes_there_too(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 }, text = { 0 };
	struct exec_tap t;

	(void)state;
	buf_init(&b, 1 << 16);
	buf_init(&text, 1 << 16);
	for (int i = 0; i < 1000; i++)
		buf_putf(&text, "%d,", i);
	for (size_t n = HELD_MAX - 1; n <= HELD_MAX + 1; n++)
		buf_putf(&b, "{\"text\":\"%.*s\",\"type\":\"stderr\"}\n", (int)n,
			 text.p);
	for (int i = 0; i < 2; i++) {
		buf_put(&b, STR("{\"text\":\""));
		buf_put(&b, str_of(text.p, text.len));
		buf_put(&b, STR("\",\"type\":\"stdin\"}\n"));
	}
	memcpy(b.p + b.len - STR("stdin\"}\n").n, "stdout\"}", STR("stdout\"}").n);
	assert_int_equal(b.st, ST_OK);
	EACH_STEP(&t, str_of(b.p, b.len))
	{
		assert_int_equal(t.unreadable, 0);
		assert_int_equal(t.out[EXEC_STDERR].octets, 3 * HELD_MAX);
		assert_tally(&t.out[EXEC_STDOUT], 1, str_of(text.p, text.len));
	}
}

static void
kinds_of_results_are_told_once_each(void **state)
{
	struct exec_tap t;
	struct str k;

	(void)state;
	EACH_STEP(&t, STR("{\"type\":\"result\",\"results\":{\"text\":\"4\","
			  "\"text/html\":\"<b>\",\"a\":{\"deep\":[{\"er\":1}]}}}\n\n"
			  "{\"type\":\"result\",\"results\":{\"text\":\"5\"}}\n\n"))
	{
		assert_true(exec_tap_kind(&t, 0, &k) && str_eq(k, STR("text")));
		assert_true(exec_tap_kind(&t, 1, &k) && str_eq(k, STR("text/html")));
		assert_true(exec_tap_kind(&t, 2, &k) && str_eq(k, STR("a")));
		assert_false(exec_tap_kind(&t, 3, &k));
		assert_false(t.is_kinds_cut);
	}
}

static void
a_line_that_is_no_event_is_counted_and_the_next_is_read(void **state)
{
	static const char *const bad[] = {
		"hello",
		"dat",
		"datum: {}",
		"data: x",
		"{\"type\":\"ping\"",
		"{\"type\":\"ping\"} {}",
		"{\"type\":\"ping\"}x",
		"[{\"type\":\"ping\"}]",
		"event {\"type\":\"ping\"}",
		"{\"type\":\"ping\",\"text\":\"a\tb\"}",
		"{\"type\":\"ping\",\"type\":\"stdout\"}",
		"{\"type\":\"ping\",\"Type\":\"stdout\"}",
		"{\"error\":{\"evalue\":\"0\",\"evalue\":\"1\"}}",
		"{\"type\":\"ping\",\"text\":\"\xff\"}",
		"{\"type\":\"ping\",\"text\":\"\\x\"}",
		"{type:1}",
		"\"{}\"",
	};
	struct exec_tap t;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		buf_init(&b, 4096);
		buf_putf(&b, "%s\n{\"type\":\"init\",\"text\":\"after\"}\n", bad[i]);
		EACH_STEP(&t, str_of(b.p, b.len))
		{
			assert_int_equal(t.unreadable, 1);
			assert_int_equal(t.events, 1);
			assert_held(&t.id, "after");
		}
	}
}

static void
an_event_that_the_stream_breaks_off_is_unreadable(void **state)
{
	struct exec_tap t;

	(void)state;
	EACH_STEP(&t, STR("{\"type\":\"stdout\",\"text\":\"a\"}\n\n"
			  "{\"type\":\"stdout\",\"text\":\"bc"))
	{
		assert_int_equal(t.unreadable, 1);
		assert_int_equal(t.events, 1);
		assert_tally(&t.out[EXEC_STDOUT], 1, STR("abc"));
	}
}

/* 64 MiB in one event, 1 MiB at a time. */
static void
an_event_of_any_length_is_digested_in_the_same_memory(void **state)
{
	enum { PIECE = 1 << 20, PIECES = 64 };
	static char piece[PIECE];
	uint8_t got[TALLY_HASH], hash[TALLY_HASH];
	struct tally want;
	struct exec_tap t;

	(void)state;
	memset(piece, 'x', sizeof piece);
	assert_int_equal(exec_tap_init(&t), ST_OK);
	assert_int_equal(tally_init(&want), ST_OK);
	exec_tap_put(&t, STR("{\"type\":\"stderr\",\"text\":\""));
	for (int i = 0; i < PIECES; i++) {
		exec_tap_put(&t, str_of(piece, sizeof piece));
		tally_put(&want, str_of(piece, sizeof piece));
	}
	exec_tap_put(&t, STR("\"}\n"));
	assert_int_equal(t.out[EXEC_STDERR].octets, (uint64_t)PIECE * PIECES);
	assert_int_equal(tally_sum(&t.out[EXEC_STDERR], got), ST_OK);
	assert_int_equal(tally_sum(&want, hash), ST_OK);
	assert_memory_equal(got, hash, TALLY_HASH);
	assert_int_equal(t.events, 1);
	assert_true(t.now.text.is_cut && t.now.text.n == HELD_MAX);
	exec_tap_done(&t);
	tally_done(&want);
}

static void
a_line_without_end_a_deep_event_and_many_kinds_stay_bounded(void **state)
{
	static char line[1 << 16];
	CLEANUP(buf_done) struct buf b = { 0 };
	struct exec_tap t;

	(void)state;
	memset(line, 'a', sizeof line);
	feed(&t, str_of(line, sizeof line), 777);
	assert_int_equal(t.unreadable, 1);
	exec_tap_done(&t);
	memset(line, '[', sizeof line);
	memcpy(line, "{\"results\":", 11);
	feed(&t, str_of(line, sizeof line), SIZE_MAX);
	assert_int_equal(t.unreadable, 1);
	exec_tap_done(&t);
	buf_init(&b, 1 << 20);
	buf_put(&b, STR("{\"type\":\"result\",\"results\":{"));
	for (int i = 0; i < 1000; i++)
		buf_putf(&b, "\"kind-%d\":1,", i);
	buf_putf(&b, "\"%.70s\":2}}\n",
		 "long-long-long-long-long-long-long-long-long-"
		 "long-long-long-long-long-long-long-");
	feed(&t, str_of(b.p, b.len), 5);
	assert_int_equal(t.unreadable, 0);
	assert_true(t.is_kinds_cut && t.kinds_count == EXEC_TAP_KINDS);
	assert_true(t.kinds_n <= sizeof t.kinds);
	exec_tap_done(&t);
}

static void
an_id_that_is_too_long_is_cut_and_says_so(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct exec_tap t;

	(void)state;
	buf_init(&b, 4096);
	buf_put(&b, STR("{\"type\":\"init\",\"text\":\""));
	for (int i = 0; i <= HELD_MAX; i++)
		buf_putc(&b, 'i');
	buf_put(&b, STR("\"}\n"));
	EACH_STEP(&t, str_of(b.p, b.len))
	assert_true(t.id.is_cut && t.id.n == HELD_MAX);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_command_tells_its_id_its_output_and_that_it_is_complete),
		cmocka_unit_test(an_error_tells_the_exit_code_or_only_its_name),
		cmocka_unit_test(fields_of_server_sent_events_are_read_over),
		cmocka_unit_test(text_before_its_type_goes_where_the_type_says),
		cmocka_unit_test(long_text_before_its_type_goes_there_too),
		cmocka_unit_test(kinds_of_results_are_told_once_each),
		cmocka_unit_test(
			a_line_that_is_no_event_is_counted_and_the_next_is_read),
		cmocka_unit_test(an_event_that_the_stream_breaks_off_is_unreadable),
		cmocka_unit_test(an_event_of_any_length_is_digested_in_the_same_memory),
		cmocka_unit_test(
			a_line_without_end_a_deep_event_and_many_kinds_stay_bounded),
		cmocka_unit_test(an_id_that_is_too_long_is_cut_and_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/base/enc.h"
#include "proxy/io/row.h"

static struct row
some_row(void)
{
	return (struct row){ .id = 0x123456789abcdef,
			     .time_us = 1767323045000006,
			     .kind = ROW_DENY,
			     .reason = ST_DENIED,
			     .turn = 0x123456789abcdef,
			     .generation = 7,
			     .sandbox = STR("demo"),
			     .host = STR("a.test:443"),
			     .rule = STR("p.yaml:3"),
			     .connector = STR("tracker"),
			     .exec = STR("{\"op\":\"command.run\"}"),
			     .bytes_up = UINT64_MAX,
			     .secret_version = 3,
			     .scrubbed = UINT32_MAX };
}

static struct str
put(struct buf *b, const struct row *r)
{
	struct str s = STR("");

	buf_init(b, ROW_MAX);
	row_put(b, r);
	assert_int_equal(buf_finish(b, &s), ST_OK);
	return s;
}

static void
a_row_comes_back_as_it_was(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 }, again = { 0 };
	struct row r = some_row(), got;

	(void)state;
	struct str s = put(&b, &r);
	assert_int_equal(row_get(s, &got), ST_OK);
	assert_int_equal(got.reason, ST_DENIED);
	assert_int_equal(got.kind, ROW_DENY);
	assert_int_equal(got.bytes_up, UINT64_MAX);
	assert_true(str_eq(got.rule, STR("p.yaml:3")));
	assert_true(str_eq(got.connector, STR("tracker")));
	assert_true(str_eq(got.exec, STR("{\"op\":\"command.run\"}")));
	assert_int_equal(got.secret_version, 3);
	assert_int_equal(got.scrubbed, UINT32_MAX);
	assert_int_equal(got.user.n, 0);
	assert_true(str_eq(put(&again, &got), s));
}

static void
a_row_that_is_cut_or_longer_is_refused(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct row r = some_row(), got;

	(void)state;
	struct str s = put(&b, &r);
	for (size_t n = 0; n < s.n; n++)
		assert_int_equal(row_get(str_head(s, n), &got), ST_BAD_MESSAGE);
	buf_putc(&b, 'x');
	assert_int_equal(buf_finish(&b, &s), ST_OK);
	assert_int_equal(row_get(s, &got), ST_BAD_MESSAGE);
}

/* What ledgers hold from before: a row as it is without its last fields, which are empty,
 * and without its last numbers. */
static void
put_old(struct buf *old, uint8_t version, size_t fields, size_t numbers)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	enum { LENGTH = 2, NUMBERS = 4 + 3 * 8, ADDED = 2 * 4 };
	struct row r = some_row();

	r.exec = STR("");
	if (fields > 1)
		r.connector = STR("");
	struct str s = put(&b, &r);
	struct str end = str_skip(s, s.n - NUMBERS - ADDED);
	buf_init(old, ROW_MAX);
	buf_put_u8(old, version);
	buf_put(old, str_skip(str_head(s, s.n - end.n - LENGTH * fields), 1));
	buf_put(old, str_head(end, end.n - numbers));
}

static void
a_row_without_connectors_is_read(void **state)
{
	CLEANUP(buf_done) struct buf old = { 0 };
	struct row got;

	(void)state;
	put_old(&old, 1, 2, 8);
	assert_int_equal(row_get(str_of(old.p, old.len), &got), ST_OK);
	assert_true(str_eq(got.rule, STR("p.yaml:3")));
	assert_int_equal(got.bytes_up, UINT64_MAX);
	assert_int_equal(got.connector.n, 0);
	assert_int_equal(got.secret_version, 0);
	assert_int_equal(got.scrubbed, 0);
}

static void
a_row_without_executions_is_read(void **state)
{
	CLEANUP(buf_done) struct buf old = { 0 };
	struct row got;

	(void)state;
	put_old(&old, 2, 1, 0);
	assert_int_equal(row_get(str_of(old.p, old.len), &got), ST_OK);
	assert_true(str_eq(got.connector, STR("tracker")));
	assert_int_equal(got.exec.n, 0);
	assert_int_equal(got.secret_version, 3);
	assert_int_equal(got.scrubbed, UINT32_MAX);
	old.p[0] = 0;
	assert_int_equal(row_get(str_of(old.p, old.len), &got), ST_BAD_MESSAGE);
	old.p[0] = 4;
	assert_int_equal(row_get(str_of(old.p, old.len), &got), ST_BAD_MESSAGE);
}

static void
the_longest_fields_fit_and_say_what_is_missing(void **state)
{
	static char junk[100000];
	CLEANUP(buf_done) struct buf b = { 0 }, again = { 0 };
	struct row r = some_row(), got;

	(void)state;
	memset(junk, '/', sizeof junk);
	r.sandbox = r.user = r.agent = r.session = r.listener = r.host = r.address =
		r.country = r.method = r.path = r.rule = r.detail = r.connector =
			r.exec = str_of(junk, sizeof junk);
	struct str s = put(&b, &r);
	assert_int_equal(row_get(s, &got), ST_OK);
	assert_in_range(got.path.n, 1900, ROW_FIELD_MAX);
	assert_true(str_starts(str_skip(got.path, ROW_FIELD_MAX - 64),
			       STR("…(+98016 bytes, ")));
	assert_true(str_ends(got.path, STR(")")));
	assert_true(str_eq(got.exec, STR("{\"cut\":true}")));
	assert_true(str_eq(put(&again, &got), s));
}

static void
json_has_only_what_is_there_in_a_fixed_order(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct row r = some_row();
	struct str s;

	(void)state;
	r.bytes_up = 0;
	r.scrubbed = 0;
	r.path = STR("/\"\n");
	buf_init(&b, 4096);
	row_put_json(&b, &r);
	assert_int_equal(buf_finish(&b, &s), ST_OK);
	assert_string_equal(
		buf_cstr(&b),
		"{\"id\":\"028t5cy4tqkff\",\"time\":\"2026-01-02T03:04:05.000006Z\","
		"\"kind\":\"deny\","
		"\"code\":\"denied_by_policy\",\"generation\":7,\"sandbox\":\"demo\","
		"\"host\":\"a.test:443\",\"path\":\"/"
		"\\u0022\\u000a\",\"rule\":\"p.yaml:3\",\"connector\":\"tracker\","
		"\"exec\":{\"op\":\"command.run\"},"
		"\"secret_version\":3}");
}

static struct str
json_of(struct buf *b, const char *exec)
{
	struct row r = { .kind = ROW_EXEC, .exec = str_from(exec) };
	struct str s = STR("");

	buf_init(b, ROW_JSON_MAX);
	row_put_json(b, &r);
	assert_int_equal(buf_finish(b, &s), ST_OK);
	assert_false(str_has(s, '\n'));
	return s;
}

/* Whoever wrote the row may have been taken over. */
static void
a_broken_execution_stays_a_string_in_json(void **state)
{
	static const struct {
		const char *exec, *shown;
	} cases[] = {
		{ "{}", "{}" },
		{ "{\n\"a\" : [1, true ,\"\\n\\u2028\"]}",
		  "{\"a\":[1,true,\"\\u000a\\u2028\"]}" },
		{ "{\"a\":1},\"kind\":\"page\"",
		  "\"{\\u0022a\\u0022:1},"
		  "\\u0022kind\\u0022:\\u0022page\\u0022\"" },
		{ "{\"a\":", "\"{\\u0022a\\u0022:\"" },
		{ "[]", "\"[]\"" },
		{ "\n", "\"\\u000a\"" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		struct str s = json_of(&b, cases[i].exec);
		struct str shown = str_from(cases[i].shown);
		assert_int_equal(s.p[s.n - 1], '}');
		s.n--;
		assert_true(str_ends(s, shown));
		s.n -= shown.n;
		assert_true(str_ends(s, STR(",\"exec\":")));
	}
}

static void
what_runs_lets_something_out_and_how_it_ended_does_not(void **state)
{
	const struct row start = { .kind = ROW_EXEC }, end = { .kind = ROW_EXEC_END },
			 asked = { .kind = ROW_APPROVAL },
			 refused = { .kind = ROW_DENY, .exec = STR("{}") },
			 other = { .kind = ROW_DENY };

	(void)state;
	assert_true(row_is_start(&start));
	assert_false(row_is_start(&end) || row_is_start(&asked));
	assert_true(row_is_exec(&start) && row_is_exec(&end) && row_is_exec(&asked));
	assert_true(row_is_exec(&refused) && row_is_refusal(&refused));
	assert_false(row_is_exec(&other));
}

static void
ids_rise_even_when_drawn_faster_than_the_clock(void **state)
{
	struct row_ids ids = { .slot = 9 };
	uint64_t last = 0;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint64_t id = row_next_id(&ids);
		assert_true(id > last);
		assert_int_equal(id >> 16 & 0xff, 9);
		last = id;
	}
}

static void
every_kind_has_a_word_of_its_own(void **state)
{
	enum row_kind k;

	(void)state;
	for (int i = 0; i < ROW_COUNT; i++) {
		assert_true(row_kind_by_word(str_from(row_kind_word((enum row_kind)i)),
					     &k));
		assert_int_equal(k, i);
	}
	assert_false(row_kind_by_word(STR("denied"), &k));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_row_comes_back_as_it_was),
		cmocka_unit_test(a_row_that_is_cut_or_longer_is_refused),
		cmocka_unit_test(a_row_without_connectors_is_read),
		cmocka_unit_test(a_row_without_executions_is_read),
		cmocka_unit_test(the_longest_fields_fit_and_say_what_is_missing),
		cmocka_unit_test(json_has_only_what_is_there_in_a_fixed_order),
		cmocka_unit_test(a_broken_execution_stays_a_string_in_json),
		cmocka_unit_test(
			what_runs_lets_something_out_and_how_it_ended_does_not),
		cmocka_unit_test(ids_rise_even_when_drawn_faster_than_the_clock),
		cmocka_unit_test(every_kind_has_a_word_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

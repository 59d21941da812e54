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
	CLEANUP(buf_done) struct buf b, again;
	struct row r = some_row(), got;

	(void)state;
	struct str s = put(&b, &r);
	assert_int_equal(row_get(s, &got), ST_OK);
	assert_int_equal(got.reason, ST_DENIED);
	assert_int_equal(got.kind, ROW_DENY);
	assert_int_equal(got.bytes_up, UINT64_MAX);
	assert_true(str_eq(got.rule, STR("p.yaml:3")));
	assert_true(str_eq(got.connector, STR("tracker")));
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

/* What a ledger holds from before: no connector (2 bytes for its length), and neither of
 * the two numbers at the end. */
static void
a_row_of_the_version_before_is_read(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	CLEANUP(buf_done) struct buf old = { 0 };
	enum { NUMBERS = 4 + 3 * 8, ADDED = 2 * 4 };
	struct row r = some_row(), got;

	(void)state;
	r.connector = STR("");
	struct str s = put(&b, &r);
	buf_init(&old, ROW_MAX);
	buf_put_u8(&old, 1);
	buf_put(&old, str_of(s.p + 1, s.n - 1 - 2 - NUMBERS - ADDED));
	buf_put(&old, str_of(s.p + s.n - NUMBERS - ADDED, NUMBERS));
	assert_int_equal(row_get(str_of(old.p, old.len), &got), ST_OK);
	assert_true(str_eq(got.rule, STR("p.yaml:3")));
	assert_int_equal(got.bytes_up, UINT64_MAX);
	assert_int_equal(got.connector.n, 0);
	assert_int_equal(got.secret_version, 0);
	assert_int_equal(got.scrubbed, 0);
}

static void
the_longest_fields_fit_and_say_what_is_missing(void **state)
{
	static char junk[100000];
	CLEANUP(buf_done) struct buf b, again;
	struct row r = some_row(), got;

	(void)state;
	memset(junk, '/', sizeof junk);
	r.sandbox = r.user = r.agent = r.session = r.listener = r.host = r.address =
		r.country = r.method = r.path = r.rule = r.detail = r.connector =
			str_of(junk, sizeof junk);
	struct str s = put(&b, &r);
	assert_int_equal(row_get(s, &got), ST_OK);
	assert_in_range(got.path.n, 1900, ROW_FIELD_MAX);
	assert_true(str_starts(str_skip(got.path, ROW_FIELD_MAX - 64),
			       STR("…(+98016 bytes, ")));
	assert_true(str_ends(got.path, STR(")")));
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
		"\"secret_version\":3}");
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
		cmocka_unit_test(a_row_of_the_version_before_is_read),
		cmocka_unit_test(the_longest_fields_fit_and_say_what_is_missing),
		cmocka_unit_test(json_has_only_what_is_there_in_a_fixed_order),
		cmocka_unit_test(ids_rise_even_when_drawn_faster_than_the_clock),
		cmocka_unit_test(every_kind_has_a_word_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What answers and requests to servers are made of: times, ids and queries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proxy/base/buf.h"
#include "proxy/control/brain_json.h"

static void
times_are_read_with_zones_and_bounds(void **state)
{
	static const struct {
		const char *text;
		uint64_t s; /* 0: refused */
	} rows[] = {
		{ "2026-01-02T03:04:05Z", 1767323045 },
		{ "2026-01-02T03:04:05.000000Z", 1767323045 },
		{ "2026-01-02T03:04:05.5Z", 1767323046 },
		{ "2026-01-02T04:04:05+01:00", 1767323045 },
		{ "2026-01-02t02:04:05-01:00", 1767323045 },
		{ "2026-01-02T03:04:05", 0 },
		{ "2026-13-02T03:04:05Z", 0 },
		{ "2026-01-02 03:04:05Z", 0 },
		{ "1969-01-02T03:04:05Z", 0 },
		{ "", 0 },
		{ "2026-01-02T03:04:05.Z", 0 },
		{ "2026-01-02T03:04:05Zx", 0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint64_t s = 0;

		assert_int_equal(brain_time_read(str_from(rows[i].text), &s),
				 rows[i].s != 0);
		assert_int_equal(s, rows[i].s);
	}
}

static void
ids_are_renamed_wherever_they_stand(void **state)
{
	const struct str up = STR("0f0e0d0c-1"), ours = STR("sb-x");
	json_t *v = json_loads(
		"{\"id\":\"0f0e0d0c-1\",\"m\":\"Sandbox 0f0e0d0c-1: "
		"0f0e0d0c-1\",\"a\":[{\"sandboxId\":\"0f0e0d0c-1\"}],\"n\":1}",
		0, NULL);

	(void)state;
	brain_json_rename(v, up, ours);
	char *text = json_dumps(v, JSON_COMPACT);
	assert_string_equal(text, "{\"id\":\"sb-x\",\"m\":\"Sandbox sb-x: sb-x\","
				  "\"a\":[{\"sandboxId\":\"sb-x\"}],\"n\":1}");
	free(text);
	json_decref(v);
	/* A short id is renamed where an id stands, and not in words. */
	v = json_loads("{\"id\":\"a\",\"m\":\"a\",\"state\":\"a\"}", 0, NULL);
	brain_json_rename(v, STR("a"), ours);
	text = json_dumps(v, JSON_COMPACT);
	assert_string_equal(text, "{\"id\":\"sb-x\",\"m\":\"a\",\"state\":\"a\"}");
	free(text);
	json_decref(v);
}

static void
queries_are_decoded_once_and_strictly(void **state)
{
	CLEANUP(buf_done) struct buf k = { 0 }, v = { 0 };
	struct str rest = STR("a=1&&b%3d=c%20d+e&f");
	bool bad = false;

	(void)state;
	buf_init(&k, 64);
	buf_init(&v, 64);
	assert_true(brain_query_next(&rest, &k, &v, &bad));
	assert_true(str_eq(str_of(k.p, k.len), STR("a")));
	assert_true(brain_query_next(&rest, &k, &v, &bad));
	assert_true(str_eq(str_of(k.p, k.len), STR("b=")));
	assert_true(str_eq(str_of(v.p, v.len), STR("c d e")));
	assert_true(brain_query_next(&rest, &k, &v, &bad));
	assert_int_equal(v.len, 0);
	assert_false(brain_query_next(&rest, &k, &v, &bad));
	assert_false(bad);
	for (size_t i = 0; i < 4; i++) {
		static const char *const broken[] = { "a=%", "a=%4", "a=%zz", "a=%00" };

		rest = str_from(broken[i]);
		bad = false;
		assert_false(brain_query_next(&rest, &k, &v, &bad));
		assert_true(bad);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_read_with_zones_and_bounds),
		cmocka_unit_test(ids_are_renamed_wherever_they_stand),
		cmocka_unit_test(queries_are_decoded_once_and_strictly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "brain_bench.h"

#include <string.h>

#include "proxy/cli/span.h"
#include "proxy/control/brain_show.h"

static json_t *
show(struct bench *b, uint64_t now_s)
{
	const struct brain all = { .store = b->s };
	bool is_more = true;
	json_t *shown = brain_show(&all, now_s, &is_more);

	assert_true(json_is_array(shown));
	assert_false(is_more);
	return shown;
}

static void
assert_text(const json_t *one, const char *key, const char *text)
{
	assert_string_equal(json_string_value(json_object_get(one, key)), text);
}

static void
assert_number(const json_t *one, const char *key, json_int_t v)
{
	const json_t *got = json_object_get(one, key);

	assert_true(json_is_integer(got));
	assert_int_equal(json_integer_value(got), v);
}

static void
a_sandbox_is_told_with_its_times_and_costs(void **state)
{
	const struct brain_cost cost = { 1200, 30, 200, 77, { true, 1 << 20 } };
	struct brain_sandbox x = { 0 };
	enum brain_claimed how;
	struct bench b;

	(void)state;
	bench_open(&b);
	struct brain_claim c = bench_claim("alice", "s1");
	c.expires_s = BENCH_NOW + 3600;
	assert_int_equal(brain_store_claim(b.s, &c, &b.a, &x, &how), ST_OK);
	assert_int_equal(brain_store_made(b.s, x.id, STR("standard"), STR("up-1"), 0),
			 ST_OK);
	assert_int_equal(brain_store_cost(b.s, x.id, &cost), ST_OK);
	assert_int_equal(brain_store_touch(b.s, x.id, BENCH_NOW + 60), ST_OK);
	json_t *all = show(&b, BENCH_NOW + 100);
	assert_int_equal(json_array_size(all), 1);
	const json_t *one = json_array_get(all, 0);
	assert_text(one, "server", "standard");
	assert_text(one, "tier", "standard");
	assert_text(one, "tenant", "acme");
	assert_text(one, "user", "alice");
	assert_text(one, "agent", "coder");
	assert_text(one, "session", "s1");
	assert_text(one, "state", "running");
	assert_text(one, "reuse", "session");
	assert_number(one, "age_s", 100);
	assert_number(one, "idle_s", 40);
	assert_number(one, "ttl_s", 3500);
	assert_number(one, "requests", 0);
	assert_number(one, "create_ms", 1200);
	assert_number(one, "pause_ms", 30);
	assert_number(one, "resume_ms", 200);
	assert_number(one, "snapshot_ms", 77);
	assert_number(one, "freed", 1 << 20);
	assert_true(json_is_false(json_object_get(one, "warm")));
	json_decref(all);
	bench_close(&b);
}

static void
a_warm_one_has_no_user_and_is_not_idle(void **state)
{
	const struct brain_warm w = { .server = STR("standard"),
				      .shape = STR("s"),
				      .now_s = BENCH_NOW };
	struct bench b;
	struct str id;

	(void)state;
	bench_open(&b);
	assert_int_equal(brain_store_warm_add(b.s, &w, &b.a, &id), ST_OK);
	json_t *all = show(&b, BENCH_NOW + 5);
	const json_t *one = json_array_get(all, 0);
	assert_true(json_is_true(json_object_get(one, "warm")));
	assert_text(one, "user", "");
	assert_true(json_is_null(json_object_get(one, "idle_s")));
	assert_true(json_is_null(json_object_get(one, "ttl_s")));
	assert_number(one, "age_s", 5);
	json_decref(all);
	bench_close(&b);
}

static void
what_is_gone_is_not_told_and_pages_join(void **state)
{
	enum { SANDBOXES = BRAIN_LIST_MAX + 3 };
	struct bench b;

	(void)state;
	bench_open(&b);
	for (int i = 0; i < SANDBOXES; i++) {
		const struct brain_claim c = bench_claim("alice", "");
		struct brain_sandbox x;
		enum brain_claimed how;
		assert_int_equal(brain_store_claim(b.s, &c, &b.a, &x, &how), ST_OK);
		if (i == 0)
			assert_int_equal(brain_store_gone(b.s, x.id, BENCH_NOW), ST_OK);
	}
	json_t *all = show(&b, BENCH_NOW);
	assert_int_equal(json_array_size(all), SANDBOXES - 1);
	json_decref(all);
	bench_close(&b);
}

static void
a_span_is_shortened_to_what_fits_a_column(void **state)
{
	static const struct {
		uint64_t s;
		const char *text;
	} cases[] = { { 0, "0s" },      { 119, "119s" },
		      { 120, "2m" },    { 7199, "119m" },
		      { 7200, "2h" },   { 172799, "47h" },
		      { 172800, "2d" }, { UINT64_MAX, "1000000000d" } };
	char text[SPAN_SHORT];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		span_shorten(cases[i].s, text);
		assert_string_equal(text, cases[i].text);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sandbox_is_told_with_its_times_and_costs),
		cmocka_unit_test(a_warm_one_has_no_user_and_is_not_idle),
		cmocka_unit_test(what_is_gone_is_not_told_and_pages_join),
		cmocka_unit_test(a_span_is_shortened_to_what_fits_a_column),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

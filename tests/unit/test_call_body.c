/* What control and a connector say to each other when control calls a system. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/io/ask.h"
#include "proxy/io/call_body.h"

static const struct call_wish sample = {
	.connector = { "standard", 8 },
	.method = { "POST", 4 },
	.target = { "/v1/sandboxes?a=b", 17 },
	.type = { "application/json", 16 },
	.body = { "{\"image\":{}}", 12 },
	.deadline_ms = CALL_DEADLINE_MAX_MS,
	.answer_max = CALL_ANSWER_MAX,
};

static struct str
put_wish(struct buf *b, const struct call_wish *w)
{
	struct str body;

	buf_init(b, ask_rule(ASK_CALL)->size);
	call_wish_put(b, w);
	assert_int_equal(buf_finish(b, &body), ST_OK);
	return body;
}

static void
a_wish_is_read_as_it_was_written(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct call_wish w;

	(void)state;
	assert_int_equal(call_wish_get(put_wish(&b, &sample), &w), ST_OK);
	assert_true(str_eq(w.connector, sample.connector));
	assert_true(str_eq(w.method, sample.method));
	assert_true(str_eq(w.target, sample.target));
	assert_true(str_eq(w.type, sample.type));
	assert_true(str_eq(w.body, sample.body));
	assert_int_equal(w.deadline_ms, sample.deadline_ms);
	assert_int_equal(w.answer_max, sample.answer_max);
}

static void
a_cut_or_longer_wish_is_none(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str body = put_wish(&b, &sample);
	struct call_wish w;

	(void)state;
	for (size_t n = 0; n < body.n; n++)
		assert_int_equal(call_wish_get(str_head(body, n), &w), ST_BAD_MESSAGE);
	char *longer = malloc(body.n + 1);
	assert_non_null(longer);
	memcpy(longer, body.p, body.n);
	longer[body.n] = 0;
	assert_int_equal(call_wish_get(str_of(longer, body.n + 1), &w), ST_BAD_MESSAGE);
	free(longer);
}

static void
sizes_and_times_out_of_bounds_are_refused(void **state)
{
	static char big[CALL_BODY_MAX + 1];
	struct call_wish bad[4];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		bad[i] = sample;
	bad[0].deadline_ms = 0;
	bad[1].deadline_ms = CALL_DEADLINE_MAX_MS + 1;
	bad[2].answer_max = CALL_ANSWER_MAX + 1;
	bad[3].body = str_of(big, sizeof big);
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		struct call_wish w;
		assert_int_equal(call_wish_get(put_wish(&b, &bad[i]), &w),
				 ST_BAD_MESSAGE);
	}
}

static void
the_largest_wish_fits_into_a_message(void **state)
{
	static char big[CALL_BODY_MAX];
	CLEANUP(buf_done) struct buf b = { 0 };
	struct call_wish w = sample, got;

	(void)state;
	w.body = str_of(big, sizeof big);
	assert_int_equal(call_wish_get(put_wish(&b, &w), &got), ST_OK);
	assert_int_equal(got.body.n, sizeof big);
}

static enum status
through(const struct call_answer *a, struct buf *b, struct call_answer *ret_a)
{
	struct str body;

	buf_init(b, ask_rule(ASK_CALL)->size);
	call_answer_put(b, a);
	assert_int_equal(buf_finish(b, &body), ST_OK);
	return call_answer_get(body, ret_a);
}

static void
an_answer_is_read_as_it_was_written(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct call_answer a = { ST_OK, 202, STR("text/plain"), 17 };
	struct call_answer got;

	(void)state;
	assert_int_equal(through(&a, &b, &got), ST_OK);
	assert_int_equal(got.st, ST_OK);
	assert_int_equal(got.http, 202);
	assert_int_equal(got.body_n, 17);
	assert_true(str_eq(got.type, STR("text/plain")));
}

static void
a_failure_tells_nothing_but_itself(void **state)
{
	const struct call_answer bad[] = {
		{ ST_UPSTREAM_BAD, 200, { "", 0 }, 0 },
		{ ST_UPSTREAM_BAD, 0, { "x", 1 }, 0 },
		{ ST_UPSTREAM_BAD, 0, { "", 0 }, 1 },
	};
	const struct call_answer good = { .st = ST_UPSTREAM_TLS };
	struct call_answer got;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		assert_int_equal(through(&bad[i], &b, &got), ST_BAD_MESSAGE);
	}
	CLEANUP(buf_done) struct buf b = { 0 };
	assert_int_equal(through(&good, &b, &got), ST_OK);
	assert_int_equal(got.st, ST_UPSTREAM_TLS);
}

static void
an_answer_of_no_sense_is_refused(void **state)
{
	const struct call_answer bad[] = {
		{ ST_OK, 0, { "", 0 }, 0 },
		{ ST_OK, 101, { "", 0 }, 0 },
		{ ST_OK, 1000, { "", 0 }, 0 },
		{ ST_OK, 200, { "", 0 }, CALL_ANSWER_MAX + 1 },
		{ ST_COUNT, 0, { "", 0 }, 0 },
	};
	struct call_answer got;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		assert_int_equal(through(&bad[i], &b, &got), ST_BAD_MESSAGE);
	}
	assert_int_equal(call_answer_get(STR(""), &got), ST_BAD_MESSAGE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wish_is_read_as_it_was_written),
		cmocka_unit_test(a_cut_or_longer_wish_is_none),
		cmocka_unit_test(sizes_and_times_out_of_bounds_are_refused),
		cmocka_unit_test(the_largest_wish_fits_into_a_message),
		cmocka_unit_test(an_answer_is_read_as_it_was_written),
		cmocka_unit_test(a_failure_tells_nothing_but_itself),
		cmocka_unit_test(an_answer_of_no_sense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

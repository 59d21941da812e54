#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/base/buf.h"

static void
a_message_is_put_together_and_asked_for_once(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str s;

	(void)state;
	buf_init(&b, 64);
	buf_put(&b, STR("GET "));
	buf_putf(&b, "/%d", 7);
	assert_int_equal(buf_finish(&b, &s), ST_OK);
	assert_int_equal(s.n, 6);
	assert_memory_equal(s.p, "GET /7", 6);
}

static void
decimals_are_what_printf_makes_of_them(void **state)
{
	static const uint64_t all[] = { 0, 7, 10, 65535, UINT32_MAX, UINT64_MAX };
	char expected[32];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(all); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		buf_init(&b, 64);
		buf_put_dec(&b, all[i]);
		(void)snprintf(expected, sizeof expected, "%llu",
			       (unsigned long long)all[i]);
		assert_string_equal(buf_cstr(&b), expected);
	}
}

static void
the_limit_is_exact_and_the_first_failure_sticks(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str s = STR("untouched");

	(void)state;
	buf_init(&b, 4);
	buf_put(&b, STR("1234"));
	assert_int_equal(buf_finish(&b, &s), ST_OK);
	buf_put(&b, STR("5"));
	buf_put(&b, STR(""));
	s = STR("untouched");
	assert_int_equal(buf_finish(&b, &s), ST_TOO_BIG);
	assert_string_equal(status_code(ST_TOO_BIG), "too_big");
	assert_memory_equal(s.p, "untouched", s.n);
}

static void
a_length_near_the_end_of_the_number_line_does_not_wrap(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str s;

	(void)state;
	buf_init(&b, 16);
	buf_put(&b, STR("x"));
	buf_put(&b, (struct str){ "y", SIZE_MAX });
	assert_int_equal(buf_finish(&b, &s), ST_TOO_BIG);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_is_put_together_and_asked_for_once),
		cmocka_unit_test(decimals_are_what_printf_makes_of_them),
		cmocka_unit_test(the_limit_is_exact_and_the_first_failure_sticks),
		cmocka_unit_test(
			a_length_near_the_end_of_the_number_line_does_not_wrap),
	};

	return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}

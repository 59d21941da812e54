#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/base/num.h"

static void
only_digits_within_bounds_are_a_number(void **state)
{
	static const char *const bad[] = { "",
					   "+1",
					   "-1",
					   " 1",
					   "1 ",
					   "1_0",
					   "0x1",
					   "1e2",
					   "18446744073709551616",
					   "99999999999999999999" };
	uint64_t v = 7;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		if (num_parse_u64(str_from(bad[i]), UINT64_MAX, &v))
			fail_msg("%s was taken", bad[i]);
	assert_false(num_parse_u64(STR("1\0"), UINT64_MAX, &v));
	assert_int_equal(v, 7);
	assert_true(num_parse_u64(STR("18446744073709551615"), UINT64_MAX, &v));
	assert_true(v == UINT64_MAX);
	assert_true(num_parse_u64(STR("00042"), 42, &v));
	assert_false(num_parse_u64(STR("43"), 42, &v));
	assert_int_equal(v, 42);
}

static void
a_strict_number_has_one_spelling(void **state)
{
	uint64_t v = 0;

	(void)state;
	assert_true(num_parse_strict(STR("0"), 9, &v));
	assert_false(num_parse_strict(STR("00"), 9, &v));
	assert_false(num_parse_strict(STR("01"), 9, &v));
}

static void
hex_takes_both_cases_and_no_more(void **state)
{
	uint64_t v = 0;

	(void)state;
	assert_true(num_parse_hex(STR("fFfFfFfFfFfFfFfF"), UINT64_MAX, &v));
	assert_true(v == UINT64_MAX);
	assert_false(num_parse_hex(STR("10000000000000000"), UINT64_MAX, &v));
	assert_false(num_parse_hex(STR("g"), UINT64_MAX, &v));
}

static void
sums_and_products_do_not_wrap(void **state)
{
	size_t v = 7;

	(void)state;
	assert_false(num_add(SIZE_MAX, 1, &v));
	assert_true(num_add(SIZE_MAX - 1, 1, &v));
	assert_false(num_mul(SIZE_MAX, 2, &v));
	assert_true(num_mul(3, 4, &v));
	assert_int_equal(v, 12);
	assert_int_equal(num_min(3, 4) + num_max(3, 4), 7);
}

static void
wire_numbers_are_big_endian_at_any_alignment(void **state)
{
	static const uint8_t b[] = { 0, 0x81, 2, 3, 4, 5, 6, 7, 0xff };

	(void)state;
	assert_int_equal(num_be16(b + 1), 0x8102);
	assert_int_equal(num_be32(b + 1), 0x81020304);
	assert_true(num_be64(b + 1) == 0x81020304050607ffULL);
	assert_true(num_hash(STR("a"), 1) != num_hash(STR("a"), 2));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_digits_within_bounds_are_a_number),
		cmocka_unit_test(a_strict_number_has_one_spelling),
		cmocka_unit_test(hex_takes_both_cases_and_no_more),
		cmocka_unit_test(sums_and_products_do_not_wrap),
		cmocka_unit_test(wire_numbers_are_big_endian_at_any_alignment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

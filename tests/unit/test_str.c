#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/base/str.h"

static void
views_are_compared_with_and_without_case(void **state)
{
	(void)state;
	assert_true(str_eq(STR("a\0b"), STR("a\0b")));
	assert_false(str_eq(STR("a\0b"), STR("a\0c")));
	assert_true(str_eq(STR(""), (struct str){ NULL, 0 }));
	assert_true(str_ieq(STR("HoSt"), STR("hOsT")));
	assert_false(str_ieq(STR("k"), STR("\xe2")));
	assert_false(str_ieq(STR("@"), STR("`")));
	assert_int_equal(str_from(NULL).n, 0);
}

static void
beginnings_and_ends_are_found(void **state)
{
	(void)state;
	assert_true(str_starts(STR("http://a"), STR("http://")));
	assert_false(str_starts(STR("http:"), STR("http://")));
	assert_true(str_ends(STR("a.b."), STR(".")));
	assert_true(str_ends(STR("a"), STR("")));
	assert_true(str_has(STR("a\0b"), '\0'));
	assert_false(str_has((struct str){ NULL, 0 }, 'a'));
}

static void
cutting_never_goes_outside(void **state)
{
	struct str s = STR("abc");

	(void)state;
	assert_int_equal(str_skip(s, 7).n, 0);
	assert_int_equal(str_head(s, 7).n, 3);
	assert_true(str_eq(str_head(str_skip(s, 1), 1), STR("b")));
	assert_null(str_skip((struct str){ NULL, 0 }, 3).p);
}

static void
a_cut_tells_an_empty_last_part_from_none(void **state)
{
	struct str rest = STR("a,,b,");

	(void)state;
	assert_true(str_eq(str_cut(&rest, ','), STR("a")));
	assert_true(str_eq(str_cut(&rest, ','), STR("")));
	assert_true(str_eq(str_cut(&rest, ','), STR("b")));
	assert_non_null(rest.p);
	assert_true(str_eq(str_cut(&rest, ','), STR("")));
	assert_null(rest.p);
}

static void
only_blanks_of_http_are_trimmed(void **state)
{
	(void)state;
	assert_true(str_eq(str_trim(STR(" \ta b\t ")), STR("a b")));
	assert_true(str_eq(str_trim(STR("\va\n")), STR("\va\n")));
	assert_int_equal(str_trim(STR(" \t ")).n, 0);
}

static void
names_are_short_words_without_blanks(void **state)
{
	char longest[STR_NAME_MAX + 1];

	(void)state;
	memset(longest, 'x', sizeof longest);
	assert_true(str_is_name(STR("exec-1_a.B")));
	assert_true(str_is_name(str_of(longest, STR_NAME_MAX)));
	assert_false(str_is_name(str_of(longest, sizeof longest)));
	assert_false(str_is_name(STR("")));
	assert_false(str_is_name(STR("a b")));
	assert_false(str_is_name(STR("a\n")));
	assert_false(str_is_name(STR("\xc3\xa4")));
	assert_false(str_is_name(STR("a\0b")));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(views_are_compared_with_and_without_case),
		cmocka_unit_test(beginnings_and_ends_are_found),
		cmocka_unit_test(cutting_never_goes_outside),
		cmocka_unit_test(a_cut_tells_an_empty_last_part_from_none),
		cmocka_unit_test(only_blanks_of_http_are_trimmed),
		cmocka_unit_test(names_are_short_words_without_blanks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/io/wire.h"

static void
what_was_written_is_read_back_and_every_byte_was_used(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str s;

	(void)state;
	buf_init(&b, 100);
	buf_put_u8(&b, 0xfe);
	buf_put_u16(&b, 0xfedc);
	buf_put_u32(&b, 0xfedcba98);
	buf_put_u64(&b, 0xfedcba9876543210);
	wire_put_str(&b, STR("name"));
	wire_put_str(&b, STR(""));
	buf_put(&b, STR("xyz"));
	assert_int_equal(buf_finish(&b, &s), ST_OK);

	struct wire w = wire_from(s);
	assert_int_equal(wire_u8(&w), 0xfe);
	assert_int_equal(wire_u16(&w), 0xfedc);
	assert_int_equal(wire_u32(&w), 0xfedcba98);
	assert_int_equal(wire_u64(&w), 0xfedcba9876543210);
	assert_true(str_eq(wire_str(&w), STR("name")));
	assert_int_equal(wire_str(&w).n, 0);
	assert_int_equal(wire_end(&w), ST_BAD_MESSAGE);
	assert_true(str_eq(wire_bytes(&w, 3), STR("xyz")));
	assert_int_equal(wire_end(&w), ST_OK);
}

static void
the_first_failure_sticks_and_later_fields_are_zero(void **state)
{
	struct wire w = wire_from(str_of("\0\5ab\1", 5));

	(void)state;
	assert_int_equal(wire_str(&w).n, 0);
	assert_int_equal(wire_u8(&w), 0);
	assert_int_equal(wire_bytes(&w, SIZE_MAX).n, 0);
	assert_int_equal(wire_end(&w), ST_BAD_MESSAGE);
}

static void
a_string_that_no_length_can_say_fails_the_buf(void **state)
{
	static const char zeros[65536];
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str s;

	(void)state;
	buf_init(&b, 100000);
	wire_put_str(&b, str_of(zeros, 65535));
	assert_int_equal(buf_finish(&b, &s), ST_OK);
	wire_put_str(&b, str_of(zeros, 65536));
	assert_int_equal(buf_finish(&b, &s), ST_TOO_BIG);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written_is_read_back_and_every_byte_was_used),
		cmocka_unit_test(the_first_failure_sticks_and_later_fields_are_zero),
		cmocka_unit_test(a_string_that_no_length_can_say_fails_the_buf),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

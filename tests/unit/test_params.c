#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/http/params.h"

static void
parameters_are_decoded_once(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str rest = STR("a=1+2&&path=%2Fetc%2fpass%252F%&=x&flag"), name, value;

	(void)state;
	buf_init(&b, 100);
	while (params_next(&rest, &name, &value)) {
		params_put(&b, name);
		buf_putc(&b, value.p == NULL ? '|' : ':');
		params_put(&b, value);
		buf_putc(&b, ' ');
	}
	assert_string_equal(buf_cstr(&b), "a:1 2 path:/etc/pass%2F% :x flag| ");
	assert_true(params_is(STR("p%61th"), STR("path")));
	assert_false(params_is(STR("p%61th"), STR("pat")));
	assert_false(params_is(STR("p%61t"), STR("path")));
	assert_false(params_is(STR("PATH"), STR("path")));
	assert_int_equal(params_find(STR("a&b"), STR("c"), &value), ST_NOT_FOUND);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parameters_are_decoded_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

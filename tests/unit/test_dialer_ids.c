#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#include <cmocka.h>

#include "proxy/dialer/ids.c"

static void
ids_of_the_kernel_pass(void **state)
{
	uint16_t v[IDS_SAMPLE];

	(void)state;
	for (int i = 0; i < 200; i++) {
		for (size_t at = 0; at < IDS_SAMPLE; at += 100)
			assert_int_equal(getrandom(v + at, 200, 0), 200);
		assert_true(ids_are_plausible(v));
		assert_true(ids_ports_are_renewed(v));
	}
}

static void
patterns_do_not_pass(void **state)
{
	uint16_t count[IDS_SAMPLE], same[IDS_SAMPLE], step[IDS_SAMPLE],
		half[IDS_SAMPLE], again[IDS_SAMPLE];

	(void)state;
	assert_int_equal(getrandom(half, 200, 0), 200);
	for (size_t i = 0; i < IDS_SAMPLE; i++) {
		count[i] = (uint16_t)i;
		same[i] = 7;
		step[i] = (uint16_t)(i * 40503u + 11u);
		/* the upper byte always zero, as from a generator of eight bits */
		half[i] = (uint16_t)((i * 2654435761u >> 13) & 0xff);
		/* drawn well, but every id used twice */
		if (i % 2 == 0)
			assert_int_equal(getrandom(&again[i], 2, 0), 2);
		else
			again[i] = again[i - 1];
	}
	assert_false(ids_are_plausible(count));
	assert_false(ids_are_plausible(same));
	assert_false(ids_are_plausible(step));
	assert_false(ids_are_plausible(half));
	assert_false(ids_are_plausible(again));
	assert_false(ids_ports_are_renewed(same));
}

static void
a_port_serves_a_few_questions_and_no_more(void **state)
{
	uint16_t few[IDS_SAMPLE], many[IDS_SAMPLE], two[IDS_SAMPLE];

	(void)state;
	for (size_t i = 0; i < IDS_SAMPLE; i++) {
		few[i] = (uint16_t)(30000 + i / 16 * 7);
		many[i] = (uint16_t)(30000 + i / 64 * 7);
		two[i] = (uint16_t)(30000 + i % 2);
	}
	assert_true(ids_ports_are_renewed(few));
	assert_false(ids_ports_are_renewed(many));
	assert_false(ids_ports_are_renewed(two));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_of_the_kernel_pass),
		cmocka_unit_test(patterns_do_not_pass),
		cmocka_unit_test(a_port_serves_a_few_questions_and_no_more),
	};

	return cmocka_run_group_tests_name("dialer ids", tests, NULL, NULL);
}

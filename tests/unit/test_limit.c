#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Of a role, so of no library. */
#include "proxy/worker/limit.c"

static struct limit
some_limit(void)
{
	return (struct limit){ .id = NULL,
			       .max = { .connections = 2,
					.connections_per_second = 10,
					.connections_burst = 3,
					.requests_per_second = 1,
					.requests_burst = 2,
					.bytes = 100 } };
}

static void
a_bucket_gives_its_burst_and_then_its_rate(void **state)
{
	struct limit_bucket b = { 0 };

	(void)state;
	for (int i = 0; i < 5; i++)
		assert_true(limit_bucket_take(&b, 1000, 2, 5));
	assert_false(limit_bucket_take(&b, 1000, 2, 5));
	assert_false(limit_bucket_take(&b, 1499, 2, 5));
	assert_true(limit_bucket_take(&b, 1500, 2, 5));
	assert_false(limit_bucket_take(&b, 1500, 2, 5));
}

static void
a_bucket_never_holds_more_than_its_burst(void **state)
{
	struct limit_bucket b = { 0 };

	(void)state;
	assert_true(limit_bucket_take(&b, 1, 1000000, 2));
	/* So long that the product would wrap. */
	assert_true(limit_bucket_take(&b, UINT64_MAX, 1000000, 2));
	assert_true(limit_bucket_take(&b, UINT64_MAX, 1000000, 2));
	assert_false(limit_bucket_take(&b, UINT64_MAX, 1000000, 2));
}

static void
the_silent_are_counted_and_who_speaks_makes_room(void **state)
{
	struct limit l = some_limit();

	(void)state;
	assert_int_equal(limit_pending(&l, 2), ST_OK);
	assert_int_equal(limit_pending(&l, 2), ST_OK);
	assert_int_equal(limit_pending(&l, 2), ST_LIMIT_PENDING);
	limit_speaks(&l);
	assert_int_equal(limit_pending(&l, 2), ST_OK);
}

static void
a_clock_that_goes_back_gives_nothing_and_takes_nothing(void **state)
{
	struct limit_bucket b = { 0 };

	(void)state;
	assert_true(limit_bucket_take(&b, 5000, 1, 1));
	assert_false(limit_bucket_take(&b, 4000, 1, 1));
	assert_true(limit_bucket_take(&b, 5000, 1, 1));
}

static void
a_smaller_burst_of_a_new_policy_holds_at_once(void **state)
{
	struct limit_bucket b = { 0 };

	(void)state;
	assert_true(limit_bucket_take(&b, 1000, 1, 100));
	assert_true(limit_bucket_take(&b, 1000, 1, 1));
	assert_false(limit_bucket_take(&b, 1000, 1, 1));
}

static void
connections_are_counted_and_their_slots_come_back(void **state)
{
	struct limit l = some_limit();

	(void)state;
	assert_int_equal(limit_open(&l, 1), ST_OK);
	assert_int_equal(limit_open(&l, 1), ST_OK);
	assert_int_equal(limit_open(&l, 1), ST_LIMIT_CONNECTIONS);
	limit_close(&l);
	assert_int_equal(limit_open(&l, 1), ST_OK);
	limit_close(&l);
	/* The burst is used up; what was refused by number cost no token. */
	assert_int_equal(limit_open(&l, 1), ST_LIMIT_RATE);
	assert_int_equal(l.open, 1);
}

static void
bytes_used_up_end_the_flow_and_open_no_other(void **state)
{
	struct limit l = some_limit();

	(void)state;
	assert_int_equal(limit_bytes(&l, 99), ST_OK);
	assert_int_equal(limit_request(&l, 1), ST_OK);
	assert_int_equal(limit_bytes(&l, 1), ST_LIMIT_BYTES);
	assert_int_equal(limit_bytes(&l, UINT64_MAX), ST_LIMIT_BYTES);
	assert_int_equal(limit_open(&l, 1), ST_LIMIT_BYTES);
	assert_int_equal(limit_request(&l, 1), ST_LIMIT_BYTES);
}

static void
no_byte_budget_is_no_limit(void **state)
{
	struct limit l = some_limit();

	(void)state;
	l.max.bytes = 0;
	assert_int_equal(limit_bytes(&l, UINT64_MAX), ST_OK);
	assert_int_equal(limit_open(&l, 1), ST_OK);
}

static void
all_sandboxes_together_have_a_limit(void **state)
{
	struct limits all;

	(void)state;
	limits_init(&all);
	assert_true(limits_admit(&all, 2));
	assert_true(limits_admit(&all, 2));
	assert_false(limits_admit(&all, 2));
	limits_leave(&all);
	assert_true(limits_admit(&all, 2));
	limits_done(&all);
}

static void
all_of_loopback_is_one_address(void **state)
{
	static const char *const same[] = { "127.0.0.1", "127.0.0.2", "127.255.0.9" };
	struct limit_peer *p;
	struct limits all;
	struct addr a;

	(void)state;
	limits_init(&all);
	for (size_t i = 0; i < COUNT_OF(same); i++) {
		assert_true(addr_parse(str_from(same[i]), &a));
		assert_int_equal(limit_peer_admit(&all, &a, 2, &p), i < 2);
	}
	/* Which of two others share a slot is chance; never all of eight. */
	size_t others = 0;
	for (uint8_t i = 0; i < 8; i++) {
		a = (struct addr){ .family = 4, .b = { 172, 17, 0, i } };
		others += limit_peer_admit(&all, &a, 2, &p);
	}
	assert_true(others > 0);
	limits_done(&all);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_loopback_is_one_address),
		cmocka_unit_test(a_bucket_gives_its_burst_and_then_its_rate),
		cmocka_unit_test(a_bucket_never_holds_more_than_its_burst),
		cmocka_unit_test(the_silent_are_counted_and_who_speaks_makes_room),
		cmocka_unit_test(
			a_clock_that_goes_back_gives_nothing_and_takes_nothing),
		cmocka_unit_test(a_smaller_burst_of_a_new_policy_holds_at_once),
		cmocka_unit_test(connections_are_counted_and_their_slots_come_back),
		cmocka_unit_test(bytes_used_up_end_the_flow_and_open_no_other),
		cmocka_unit_test(no_byte_budget_is_no_limit),
		cmocka_unit_test(all_sandboxes_together_have_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "proxy/dialer/cache.c"

static const struct packet_answer one = { .st = ST_OK,
					  .ttl = 10,
					  .n = 1,
					  .addrs = { { .family = 4,
						       .b = { 1, 2, 3, 4 } } } };

static void
an_answer_is_there_until_its_time_is_over(void **state)
{
	struct cache c;
	struct cache_key k = cache_key(STR("ok.test"), 1),
			 other = cache_key(STR("ok.test"), 28);
	struct packet_answer a = { 0 };

	(void)state;
	cache_init(&c, 10);
	cache_put(&c, &k, 5000, &one);
	assert_false(cache_get(&c, &other, 5000, &a));
	assert_true(cache_get(&c, &k, 5000, &a));
	assert_int_equal(a.ttl, 10);
	assert_true(cache_get(&c, &k, 14999, &a));
	assert_int_equal(a.ttl, 1);
	assert_int_equal(a.addrs[0].b[3], 4);
	assert_false(cache_get(&c, &k, 15000, &a));
	assert_int_equal(c.n, 0);
	cache_done(&c);
}

static void
the_one_unused_longest_makes_room(void **state)
{
	struct cache c;
	struct packet_answer a = { 0 };

	(void)state;
	cache_init(&c, 3);
	struct cache_key k[4] = { cache_key(STR("a.test"), 1),
				  cache_key(STR("b.test"), 1),
				  cache_key(STR("c.test"), 1),
				  cache_key(STR("d.test"), 1) };
	for (size_t i = 0; i < 3; i++)
		cache_put(&c, &k[i], 0, &one);
	assert_true(cache_get(&c, &k[0], 0, &a));
	cache_put(&c, &k[3], 0, &one);
	assert_false(cache_get(&c, &k[1], 0, &a));
	assert_true(cache_get(&c, &k[0], 0, &a));
	assert_true(cache_get(&c, &k[3], 0, &a));
	assert_int_equal(c.n, 3);
	cache_done(&c);
}

static void
a_cache_of_no_size_keeps_nothing(void **state)
{
	struct cache c;
	struct cache_key k = cache_key(STR("ok.test"), 1);
	struct packet_answer a = { 0 };

	(void)state;
	cache_init(&c, 0);
	cache_put(&c, &k, 0, &one);
	assert_false(cache_get(&c, &k, 0, &a));
	cache_resize(&c, 1);
	cache_put(&c, &k, 0, &one);
	cache_put(&c, &k, 0, &one);
	assert_int_equal(c.n, 1);
	cache_done(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_is_there_until_its_time_is_over),
		cmocka_unit_test(the_one_unused_longest_makes_room),
		cmocka_unit_test(a_cache_of_no_size_keeps_nothing),
	};

	return cmocka_run_group_tests_name("dialer cache", tests, NULL, NULL);
}

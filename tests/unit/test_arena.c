#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/base/arena.h"

static void
memory_is_zeroed_aligned_and_apart(void **state)
{
	struct arena a;
	char *last = NULL;

	(void)state;
	arena_init(&a, 1 << 20);
	for (size_t n = 1; n < 300; n++) {
		char *p = arena_alloc(&a, n);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(p[i], 0);
		memset(p, 0x5a, n);
		if (last != NULL)
			assert_int_equal(last[n - 2], 0x5a);
		last = p;
	}
	arena_done(&a);
}

static void
the_limit_gives_null_and_a_mark(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 100);
	assert_non_null(arena_alloc(&a, 64));
	assert_false(a.is_over);
	assert_null(arena_alloc(&a, 64));
	assert_true(a.is_over);
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_null(arena_copy(&a, (struct str){ "x", SIZE_MAX - 1 }).p);
	arena_done(&a);
	assert_false(a.is_over);
	assert_non_null(arena_alloc(&a, 64));
	arena_done(&a);
}

static void
copies_outlive_their_source(void **state)
{
	struct arena a;
	char text[] = "abc";

	(void)state;
	arena_init(&a, 1 << 16);
	struct str s = arena_copy(&a, str_from(text));
	struct str empty = arena_copy(&a, STR(""));
	memset(text, 'x', sizeof text - 1);
	assert_true(str_eq(s, STR("abc")));
	assert_non_null(empty.p);
	assert_int_equal(empty.n, 0);
	arena_done(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_zeroed_aligned_and_apart),
		cmocka_unit_test(the_limit_gives_null_and_a_mark),
		cmocka_unit_test(copies_outlive_their_source),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

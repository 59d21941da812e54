#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/base/ring.h"

/* A deterministic sequence; the seed is printed when the model and the ring differ. */
static uint32_t
next(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 16;
}

static void
a_ring_holds_what_a_plain_array_would(void **state)
{
	enum { CAP = 13 };
	struct ring r;
	char model[CAP + 1] = "";
	size_t n = 0;
	uint32_t seed = 20;

	(void)state;
	ring_init(&r, CAP);
	for (int i = 0; i < 20000; i++) {
		char in[20];
		size_t k = next(&seed) % sizeof in;
		for (size_t j = 0; j < k; j++)
			in[j] = (char)('a' + next(&seed) % 26);
		size_t wrote = ring_write(&r, str_of(in, k));
		assert_int_equal(wrote, k < CAP - n ? k : CAP - n);
		memcpy(model + n, in, wrote);
		n += wrote;
		assert_int_equal(ring_space(&r), CAP - n);
		struct str s = next(&seed) % 3 == 0 ? ring_linear(&r) : ring_peek(&r);
		assert_memory_equal(s.p, model, s.n);
		assert_int_equal(s.n == 0, n == 0);
		size_t gone = s.n == 0 ? 0 : next(&seed) % (s.n + 1);
		ring_consume(&r, gone);
		memmove(model, model + gone, n - gone);
		n -= gone;
	}
	ring_done(&r);
}

static void
an_idle_ring_owns_no_memory(void **state)
{
	struct ring r;

	(void)state;
	ring_init(&r, 8);
	assert_int_equal(ring_write(&r, (struct str){ NULL, 0 }), 0);
	assert_null(r.p);
	assert_int_equal(ring_write(&r, STR("abc")), 3);
	assert_int_equal(ring_write(&r, (struct str){ NULL, 0 }), 0);
	ring_trim(&r);
	assert_non_null(r.p);
	ring_consume(&r, 3);
	ring_trim(&r);
	assert_null(r.p);
	assert_true(ring_is_empty(&r));
	ring_done(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ring_holds_what_a_plain_array_would),
		cmocka_unit_test(an_idle_ring_owns_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

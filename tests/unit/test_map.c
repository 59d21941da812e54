#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/base/map.h"

enum { KEYS = 200 };

static uint32_t
next(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 16;
}

static struct str
key_of(uint8_t k, char *text)
{
	text[0] = (char)k;
	text[1] = '\0'; /* keys are bytes, not C strings */
	text[2] = 'x';
	return str_of(text, k % 2 ? 3 : 1);
}

static void
a_map_holds_what_a_plain_array_would(void **state)
{
	static int values[16];
	void *model[KEYS] = { NULL };
	struct map m;
	char text[3];
	size_t len = 0;
	uint32_t seed = 7;

	(void)state;
	map_init(&m, KEYS);
	for (int i = 0; i < 30000; i++) {
		uint8_t k = (uint8_t)(next(&seed) % KEYS);
		struct str key = key_of(k, text);
		if (next(&seed) % 2) {
			void *v = &values[next(&seed) % COUNT_OF(values)];
			assert_int_equal(map_put(&m, key, v), ST_OK);
			len += model[k] == NULL;
			model[k] = v;
		} else {
			assert_ptr_equal(map_take(&m, key), model[k]);
			len -= model[k] != NULL;
			model[k] = NULL;
		}
		assert_int_equal(m.len, len);
		uint8_t other = (uint8_t)(next(&seed) % KEYS);
		assert_ptr_equal(map_get(&m, key_of(other, text)), model[other]);
	}
	map_done(&m);
}

static void
the_limit_is_exact_and_replacing_is_free(void **state)
{
	struct map m;
	int v = 0;

	(void)state;
	map_init(&m, 2);
	assert_null(map_get(&m, STR("a")));
	assert_null(map_take(&m, STR("a")));
	assert_int_equal(map_put(&m, STR("a"), &v), ST_OK);
	assert_int_equal(map_put(&m, STR(""), &v), ST_OK);
	assert_int_equal(map_put(&m, STR("c"), &v), ST_TOO_BIG);
	assert_int_equal(map_put(&m, STR("a"), &m), ST_OK);
	assert_ptr_equal(map_get(&m, STR("a")), &m);
	map_done(&m);
}

static void
a_walk_sees_each_entry_once(void **state)
{
	struct map m;
	int v = 0, seen = 0;
	char text[3];
	struct str key;
	void *value = NULL;

	(void)state;
	map_init(&m, KEYS);
	for (unsigned k = 0; k < KEYS; k++)
		assert_int_equal(map_put(&m, key_of((uint8_t)k, text), &v), ST_OK);
	for (size_t at = 0; map_next(&m, &at, &key, &value);)
		seen += key.n > 0 && value == &v;
	assert_int_equal(seen, KEYS);
	map_done(&m);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_map_holds_what_a_plain_array_would),
		cmocka_unit_test(the_limit_is_exact_and_replacing_is_free),
		cmocka_unit_test(a_walk_sees_each_entry_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

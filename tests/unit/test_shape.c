#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/base/shape.h"

static const struct sip_key key = { { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
				      15 } };

static struct shape_owner
owner_of(const char *sandbox, const char *connector)
{
	return (struct shape_owner){ &key, str_from(sandbox), str_from(connector) };
}

static void
the_hash_is_that_of_its_paper(void **state)
{
	char in[15];

	(void)state;
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (char)i;
	assert_true(sip_hash(&key, str_of(in, sizeof(in))) == 0xa129ca6149be45e5);
	assert_true(sip_hash(&key, str_of(NULL, 0)) == 0x726fdb47dd0e0e31);
	assert_true(sip_hash(&key, str_of(in, 8)) == 0x93f5f5799a932462);
}

static void
a_shape_keeps_its_text_and_its_stars_become_letters_and_digits(void **state)
{
	const struct shape_owner o = owner_of("demo", "github");
	char out[64], again[64];
	struct str shape = STR("ghp_****************-x");

	(void)state;
	assert_true(shape_is_good(shape));
	shape_fill(&o, shape, out);
	shape_fill(&o, shape, again);
	assert_memory_equal(out, again, shape.n);
	assert_memory_equal(out, "ghp_", 4);
	assert_memory_equal(out + 20, "-x", 2);
	for (size_t i = 4; i < 20; i++)
		assert_true(ascii_is_alpha(out[i]) || ascii_is_digit(out[i]));
}

static void
each_sandbox_and_connector_has_its_own(void **state)
{
	static const char *const names[][2] = { { "demo", "github" },
						{ "demo", "gitlab" },
						{ "dem", "ogithub" },
						{ "x", "github" } };
	struct str shape = STR("********************");
	char out[COUNT_OF(names)][20];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		const struct shape_owner o = owner_of(names[i][0], names[i][1]);

		shape_fill(&o, shape, out[i]);
		for (size_t k = 0; k < i; k++)
			assert_memory_not_equal(out[i], out[k], 20);
	}
}

static void
a_shape_needs_stars_and_visible_ascii(void **state)
{
	(void)state;
	assert_false(shape_is_good(STR("")));
	assert_false(shape_is_good(STR("ghp_***************")));
	assert_false(shape_is_good(STR("**************** ")));
	assert_false(shape_is_good(STR("****************\x80")));
	assert_true(shape_is_good(STR("****************")));
}

static void
expect_like(const char *secret, const char *kept)
{
	const struct shape_owner o = owner_of("demo", "any");
	struct str s = str_from(secret);
	char out[128];

	shape_like(&o, s, out);
	assert_memory_equal(out, kept, strlen(kept));
	assert_memory_not_equal(out, secret, s.n);
	for (size_t i = 0; i < s.n; i++) {
		assert_int_equal(ascii_is_digit(out[i]), ascii_is_digit(secret[i]));
		assert_int_equal(ascii_is_alpha(out[i]), ascii_is_alpha(secret[i]));
		if (ascii_is_alpha(secret[i]))
			assert_int_equal(out[i] & 0x20, secret[i] & 0x20);
		else if (!ascii_is_digit(secret[i]))
			assert_int_equal(out[i], secret[i]);
	}
}

static void
what_looks_like_a_secret_has_its_length_and_kinds_of_characters(void **state)
{
	(void)state;
	expect_like("ghp_Ab3dE9zQx7yW2kLmN4", "ghp_");
	expect_like("AKIAIOSFODNN7EXAMPLE", "AKIA");
	expect_like("8e5a4f0c-1b2d-4c3e-9f7a-6b5c4d3e2f1a", "8e5");
	expect_like("hunter2hunter2", "h");
	expect_like("s3cr3t", "");
}

static void
what_has_hardly_a_letter_is_not_its_own_likeness(void **state)
{
	const struct shape_owner o = owner_of("demo", "any");
	struct str secret = STR("!!..--++a");
	char out[16];

	(void)state;
	shape_like(&o, secret, out);
	for (size_t i = 0; i < secret.n; i++)
		assert_true(out[i] >= 'a' && out[i] <= 'z');
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hash_is_that_of_its_paper),
		cmocka_unit_test(
			a_shape_keeps_its_text_and_its_stars_become_letters_and_digits),
		cmocka_unit_test(each_sandbox_and_connector_has_its_own),
		cmocka_unit_test(a_shape_needs_stars_and_visible_ascii),
		cmocka_unit_test(
			what_looks_like_a_secret_has_its_length_and_kinds_of_characters),
		cmocka_unit_test(what_has_hardly_a_letter_is_not_its_own_likeness),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

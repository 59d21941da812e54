#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/base/enc.h"

/* The examples of RFC 4648 section 10. */
static void
base64_goes_there_and_back(void **state)
{
	static const char *const rows[][2] = {
		{ "", "" },
		{ "f", "Zg==" },
		{ "fo", "Zm8=" },
		{ "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" },
		{ "foobar", "Zm9vYmFy" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		buf_init(&b, 64);
		enc_put_base64(&b, str_from(rows[i][0]));
		assert_string_equal(buf_cstr(&b), rows[i][1]);
		buf_clear(&b);
		assert_true(enc_get_base64(&b, str_from(rows[i][1])));
		assert_string_equal(buf_cstr(&b), rows[i][0]);
	}
}

static void
base64_has_one_spelling(void **state)
{
	static const char *const bad[] = {
		"Zh==", "Zm9=",   "Z",    "Zg=",  "Zg===",
		"Z=g=", "Zm9v\n", "Zm-v", "====", "Zg==Zg=="
	};
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	buf_init(&b, 64);
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		if (enc_get_base64(&b, str_from(bad[i])))
			fail_msg("%s was taken", bad[i]);
	buf_clear(&b);
	assert_true(enc_get_base64(&b, STR("Zg")));
}

static void
base64url_has_other_signs_and_never_padding(void **state)
{
	static const char *const bad[] = { "-_-_-_8=", "Zg==", "Zh",
					   "Z",        "+/+/", "Zm9v " };
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	buf_init(&b, 64);
	enc_put_base64url(&b, STR("\xfb\xff\xbf\xfb\xff"));
	assert_string_equal(buf_cstr(&b), "-_-_-_8");
	buf_clear(&b);
	assert_true(enc_get_base64url(&b, STR("-_-_-_8")));
	assert_memory_equal(b.p, "\xfb\xff\xbf\xfb\xff", 5);
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		if (enc_get_base64url(&b, str_from(bad[i])))
			fail_msg("%s was taken", bad[i]);
}

static void
hex_goes_there_and_back(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	buf_init(&b, 64);
	enc_put_hex(&b, STR("\x00\xff\x7f"));
	assert_string_equal(buf_cstr(&b), "00ff7f");
	buf_clear(&b);
	assert_true(enc_get_hex(&b, STR("00FF7f")));
	assert_memory_equal(b.p, "\x00\xff\x7f", 3);
	assert_false(enc_get_hex(&b, STR("0")));
	assert_false(enc_get_hex(&b, STR("0g")));
	assert_int_equal(enc_hex_digit('\0'), -1);
}

static void
ids_sort_as_their_values(void **state)
{
	static const uint64_t ids[] = { 0, 1, 31, 32, 1ULL << 40, UINT64_MAX };
	char last[16] = "";
	uint64_t back = 0;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(ids); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		struct str text;
		buf_init(&b, 64);
		enc_put_id(&b, ids[i]);
		assert_true(strcmp(last, buf_cstr(&b)) < 0);
		(void)snprintf(last, sizeof last, "%s", buf_cstr(&b));
		assert_int_equal(buf_finish(&b, &text), ST_OK);
		assert_true(enc_get_id(text, &back));
		assert_true(back == ids[i]);
	}
	assert_false(enc_get_id(STR("g000000000000"), &back)); /* 65 bits */
	assert_false(enc_get_id(STR("000000000000u"), &back));
	assert_false(enc_get_id(STR("0"), &back));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(base64_goes_there_and_back),
		cmocka_unit_test(base64_has_one_spelling),
		cmocka_unit_test(base64url_has_other_signs_and_never_padding),
		cmocka_unit_test(hex_goes_there_and_back),
		cmocka_unit_test(ids_sort_as_their_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

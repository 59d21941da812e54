#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/base/buf.h"
#include "proxy/base/jpick.h"

/* Tokens as one text: texts between < and >, K before a name. */
static const char *
read_in(struct buf *b, struct str in, size_t step)
{
	static const char *const words[] = {
		[JSCAN_OBJECT] = "{",  [JSCAN_OBJECT_END] = "}",
		[JSCAN_ARRAY] = "[",   [JSCAN_ARRAY_END] = "]",
		[JSCAN_KEY_END] = ":", [JSCAN_TEXT_END] = ";",
		[JSCAN_LITERAL] = "!", [JSCAN_OVER] = " over",
		[JSCAN_BAD] = " bad",
	};
	enum jscan_token t = JSCAN_AGAIN;
	struct jscan j;

	buf_init(b, 1 << 16);
	jscan_init(&j);
	while (t != JSCAN_OVER && t != JSCAN_BAD && (t != JSCAN_AGAIN || in.n > 0)) {
		struct str piece = str_head(in, step), text = { NULL, 0 };
		size_t n = piece.n;
		t = jscan_next(&j, &piece, &text);
		in = str_skip(in, n - piece.n);
		if (t == JSCAN_KEY || t == JSCAN_STRING || t == JSCAN_NUMBER)
			buf_put(b, text);
		else if (t != JSCAN_AGAIN)
			buf_put(b, str_from(words[t]));
	}
	return buf_cstr(b);
}

static void
assert_read(struct str in, const char *want)
{
	const size_t steps[] = { SIZE_MAX, 1, 2, 3, 5 };

	for (size_t i = 0; i < COUNT_OF(steps); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		assert_string_equal(read_in(&b, in, steps[i]), want);
	}
}

static void
a_text_comes_apart_however_it_is_cut(void **state)
{
	(void)state;
	assert_read(STR("{\"a\":1,\"b\":[true,null,\"x\"],\"c\":{}} "),
		    "{a:1;b:[!!x;]c:{}} over");
	assert_read(STR(" [ ] "), "[] over");
	assert_read(STR("[\"\",{\"\":-0.5e+10}]"), "[;{:-0.5e+10;}] over");
	assert_read(STR("\"\\u0041\\n\\\"\\/\""), "A\n\"/; over");
	assert_read(STR("\"\xc3\xa4\xf0\x9f\x98\x80\""),
		    "\xc3\xa4\xf0\x9f\x98\x80; over");
}

static void
surrogate_pairs_become_one_character_and_halves_a_replacement(void **state)
{
	(void)state;
	assert_read(STR("\"\\ud83d\\ude00\""), "\xf0\x9f\x98\x80; over");
	assert_read(STR("\"\\ud83d\""), "\xef\xbf\xbd; over");
	assert_read(STR("\"\\ud83dx\""), "\xef\xbf\xbdx; over");
	assert_read(STR("\"\\ud83d\\n\""), "\xef\xbf\xbd\n; over");
	assert_read(STR("\"\\ude00\\ud83d\""), "\xef\xbf\xbd\xef\xbf\xbd; over");
	assert_read(STR("\"\\ud83d\\u0041\""), "\xef\xbf\xbd"
					       "A; over");
	assert_read(STR("\"\\ud83d\\ud83d\\ude00\""),
		    "\xef\xbf\xbd\xf0\x9f\x98\x80; over");
}

static void
what_is_no_json_is_bad_at_the_same_place(void **state)
{
	(void)state;
	assert_read(STR("{\"a\" 1}"), "{a: bad");
	assert_read(STR("{\"a\":1,}"), "{a:1; bad");
	assert_read(STR("[1,]"), "[1; bad");
	assert_read(STR("[01]"), "[0; bad");
	assert_read(STR("[-]"), "[- bad");
	assert_read(STR("[1.]"), "[1. bad");
	assert_read(STR("[1e]"), "[1e bad");
	assert_read(STR("[tru]"), "[ bad");
	assert_read(STR("[1}"), "[1; bad");
	assert_read(STR("\"a\tb\""), "a bad");
	assert_read(STR("\"a\\x\""), "a bad");
	assert_read(STR("\"\\u00g0\""), " bad");
	assert_read(STR("\"a\xc3\""), "a\xc3 bad");
	assert_read(STR("\"\xed\xa0\x80\""), "\xed bad");
	assert_read(STR("\"\xc0\x80\""), " bad");
	assert_read(STR("\"a\\\0\""), "a bad");
	assert_read(STR("'a'"), " bad");
}

static void
nesting_ends_at_its_bound(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	char deep[JSCAN_DEPTH + 1];

	(void)state;
	for (size_t i = 0; i < sizeof deep; i++)
		deep[i] = '[';
	const char *got = read_in(&b, str_of(deep, sizeof deep), SIZE_MAX);
	assert_string_equal(got + JSCAN_DEPTH, " bad");
	buf_done(&b);
	got = read_in(&b, str_of(deep, sizeof deep - 1), SIZE_MAX);
	assert_int_equal(str_from(got).n, JSCAN_DEPTH);
}

static const struct jpick_want wants[] = {
	{ -1, "type" }, { -1, "error" }, { 1, "evalue" }, { -1, "results" }, { 3, NULL }
};

/* What was picked, each behind the number of its want. */
static const char *
pick_in(struct buf *b, struct str in, size_t step)
{
	enum jpick_found k = JPICK_AGAIN;
	struct jpick p;
	int last = -1;

	buf_init(b, 1 << 16);
	jpick_init(&p, wants, COUNT_OF(wants));
	while (k != JPICK_OVER && k != JPICK_BAD && in.n > 0) {
		struct str piece = str_head(in, step), text = { NULL, 0 };
		size_t n = piece.n;
		int want = -1;
		k = jpick_next(&p, &piece, &want, &text);
		in = str_skip(in, n - piece.n);
		if (k == JPICK_AGAIN || k == JPICK_OVER || k == JPICK_BAD)
			continue;
		if (want != last || k == JPICK_KEY)
			buf_put_dec(b, (uint64_t)want);
		last = want;
		buf_put(b, text);
	}
	buf_putc(b, k == JPICK_OVER ? '.' : k == JPICK_BAD ? '!' : '?');
	return buf_cstr(b);
}

static void
assert_picked(struct str in, const char *want)
{
	const size_t steps[] = { SIZE_MAX, 1, 2, 3, 7 };

	for (size_t i = 0; i < COUNT_OF(steps); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		assert_string_equal(pick_in(&b, in, steps[i]), want);
	}
}

static void
wanted_values_are_picked_from_their_level_only(void **state)
{
	(void)state;
	assert_picked(STR("{\"x\":{\"type\":\"no\"},\"type\":\"yes\"}"), "0yes.");
	assert_picked(
		STR("{\"error\":{\"evalue\":\"7\",\"type\":\"n\",\"o\":{\"evalue\":1}}"
		    ",\"evalue\":\"8\"}"),
		"27.");
	assert_picked(STR("{\"error\":[{\"evalue\":\"7\"}],\"error2\":{\"evalue\":1}}"),
		      ".");
	assert_picked(STR("{\"results\":{\"text/plain\":{\"a\":1},\"b\":[2]},\"c\":3}"),
		      "4text/plain4b.");
	assert_picked(STR("{\"ty\\u0070e\":12}"), "012.");
	assert_picked(STR("{\"type\":null}"), ".");
}

static void
a_name_that_readers_could_differ_on_is_bad(void **state)
{
	(void)state;
	assert_picked(STR("{\"type\":\"a\",\"type\":\"b\"}"), "0a!");
	assert_picked(STR("{\"type\":\"a\",\"TYPE\":\"b\"}"), "0a!");
	assert_picked(STR("{\"Type\":\"b\"}"), "!");
	assert_picked(STR("{\"error\":{\"evalue\":1},\"error\":{\"evalue\":2}}"),
		      "21!");
	assert_picked(STR("{\"x\":1,\"x\":2}"), ".");
}

static void
only_an_object_is_picked_from(void **state)
{
	(void)state;
	assert_picked(STR("[]"), "!");
	assert_picked(STR("\"\""), "!");
	assert_picked(STR("null"), "!");
	assert_picked(STR("[{\"type\":1}]"), "!");
	assert_picked(STR("{} trailing"), ".");
	assert_picked(STR("{\"type\":\"a"), "0a?");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_comes_apart_however_it_is_cut),
		cmocka_unit_test(
			surrogate_pairs_become_one_character_and_halves_a_replacement),
		cmocka_unit_test(what_is_no_json_is_bad_at_the_same_place),
		cmocka_unit_test(nesting_ends_at_its_bound),
		cmocka_unit_test(wanted_values_are_picked_from_their_level_only),
		cmocka_unit_test(a_name_that_readers_could_differ_on_is_bad),
		cmocka_unit_test(only_an_object_is_picked_from),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

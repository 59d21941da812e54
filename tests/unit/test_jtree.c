#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/base/buf.h"
#include "proxy/base/jtree.h"

enum { ROOM = 8 << 20 };

static void
put(struct buf *b, const struct jnode *n)
{
	static const char begins[] = { '{', '[', '"', '#', '!' };

	if (n->key.n > 0)
		buf_putf(b, "%.*s:", STR_ARG(n->key));
	buf_putc(b, begins[n->kind]);
	buf_put(b, n->text);
	for (const struct jnode *it = n->first; it != NULL; it = it->next)
		put(b, it);
	buf_putc(b, '.');
}

static enum status
read_one(struct str text, const char *want)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct jnode *root = NULL;

	arena_init(&a, ROOM);
	buf_init(&b, ROOM);
	enum status st = jtree_read(&a, text, &root);
	if (st == ST_OK && want != NULL) {
		put(&b, root);
		assert_string_equal(buf_cstr(&b), want);
	}
	return st;
}

static void
a_document_becomes_a_tree(void **state)
{
	(void)state;
	assert_int_equal(
		read_one(STR("{\"a\":1,\"b\":[\"x\",{\"c\":null},\"y\"],\"d\":{}} "),
			 "{a:#1.b:[\"x.{c:!..\"y..d:{.."),
		ST_OK);
	assert_int_equal(read_one(STR("[]"), "[."), ST_OK);
	assert_int_equal(read_one(STR("\"\\u0041\\n\""), "\"A\n."), ST_OK);
	assert_int_equal(read_one(STR("[\"\",\"\"]"), "[\".\".."), ST_OK);
}

static void
what_readers_take_differently_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"{",
		"{} x",
		"{}{}",
		"[1,]",
		"{\"a\":1,\"a\":2}",
		"[{\"a\":{\"b\":1,\"c\":1,\"b\":1}}]",
		"{\"a\":1,\"\\u0061\":2}",
		"\"\\u0000\"",
		"{\"\\u0000\":1}",
		"{'a':1}",
		"\xef\xbb\xbf{}",
		"{\"a\":01}",
		"nul",
		"[\"\x01\"]",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		if (read_one(str_from(bad[i]), NULL) != ST_BAD_JSON)
			fail_msg("taken: %s", bad[i]);
	assert_int_equal(read_one(STR("[{\"a\":1},{\"a\":1}]"), NULL), ST_OK);
	assert_int_equal(read_one(STR("{\"a\":{\"a\":{\"a\":1}}}"), NULL), ST_OK);
}

static void
depth_and_number_of_values_have_an_end(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	buf_init(&b, ROOM);
	for (size_t i = 0; i < JTREE_DEPTH + 1; i++)
		buf_putc(&b, '[');
	for (size_t i = 0; i < JTREE_DEPTH + 1; i++)
		buf_putc(&b, ']');
	struct str all = str_of(b.p, b.len);
	assert_int_equal(read_one(all, NULL), ST_BAD_JSON);
	assert_int_equal(read_one(str_of(all.p + 1, all.n - 2), NULL), ST_OK);
	buf_clear(&b);
	buf_putc(&b, '[');
	for (size_t i = 0; i < JTREE_NODES; i++)
		buf_put(&b, STR("1,"));
	buf_put(&b, STR("1]"));
	assert_int_equal(read_one(str_of(b.p, b.len), NULL), ST_TOO_BIG);
}

static void
a_name_that_another_may_be_taken_for_is_refused(void **state)
{
	static const struct {
		const char *text;
		enum status want;
	} rows[] = {
		{ "{\"task\":1,\"x\":2}", ST_OK },
		{ "{\"x\":2}", ST_OK },
		{ "{\"task\":1,\"Task\":2}", ST_BAD_JSON },
		{ "{\"TASK\":2}", ST_BAD_JSON },
		{ "{\"ta\xc5\xbf"
		  "k\":2}",
		  ST_BAD_JSON },
		{ "{\"tas\xe2\x84\xaa\":2}", ST_BAD_JSON },
		{ "{\"tasks\":2,\"tas\":1}", ST_OK },
		{ "[]", ST_OK },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		CLEANUP(arena_done) struct arena a = { 0 };
		const struct jnode *root = NULL, *n = NULL;
		arena_init(&a, ROOM);
		assert_int_equal(jtree_read(&a, str_from(rows[i].text), &root), ST_OK);
		if (jtree_get(root, STR("task"), &n) != rows[i].want)
			fail_msg("%s", rows[i].text);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_document_becomes_a_tree),
		cmocka_unit_test(what_readers_take_differently_is_refused),
		cmocka_unit_test(depth_and_number_of_values_have_an_end),
		cmocka_unit_test(a_name_that_another_may_be_taken_for_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

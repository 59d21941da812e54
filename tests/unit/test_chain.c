#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/base/enc.h"
#include "proxy/io/chain.h"

static void
a_digest_is_sha256_and_a_link_covers_what_is_before_it(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct chain_hash zero = { { 0 } }, digest = chain_digest(STR("abc"));

	(void)state;
	buf_init(&b, 80);
	enc_put_hex(&b, chain_str(&digest));
	assert_string_equal(
		buf_cstr(&b),
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	struct chain_hash one = chain_link(&zero, 1, &digest);
	struct chain_hash two = chain_link(&zero, 2, &digest);
	struct chain_hash other = chain_link(&one, 1, &digest);
	assert_false(chain_eq(&one, &two));
	assert_false(chain_eq(&one, &other));
}

static void
an_erasure_is_told_and_read_back_and_nothing_else_is(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct chain_erasure e = { .segment = 3, .count = 412 }, back = { 0 };
	struct str text;

	(void)state;
	chain_fold(&e.list, 17);
	buf_init(&b, 256);
	chain_put_erasure(&b, &e);
	assert_int_equal(buf_finish(&b, &text), ST_OK);
	assert_true(chain_get_erasure(text, &back));
	assert_int_equal(back.segment, 3);
	assert_int_equal(back.count, 412);
	assert_true(chain_eq(&back.list, &e.list));
	assert_false(chain_get_erasure(str_head(text, text.n - 1), &back));
	assert_false(chain_get_erasure(str_skip(text, 1), &back));
	assert_false(chain_get_erasure(STR("segment=3 rows=-1 list="), &back));
}

static void
ids_keep_their_order_as_integers_of_sqlite(void **state)
{
	const uint64_t ids[] = { 0, 1, (uint64_t)1 << 62, (uint64_t)1 << 63,
				 UINT64_MAX };

	(void)state;
	for (size_t i = 1; i < COUNT_OF(ids); i++)
		assert_true(chain_sql_id(ids[i - 1]) < chain_sql_id(ids[i]));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_digest_is_sha256_and_a_link_covers_what_is_before_it),
		cmocka_unit_test(an_erasure_is_told_and_read_back_and_nothing_else_is),
		cmocka_unit_test(ids_keep_their_order_as_integers_of_sqlite),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

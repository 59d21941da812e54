#ifndef TESTS_UNIT_TALLY_CHECK_H
#define TESTS_UNIT_TALLY_CHECK_H
/* tally_check: what a tap has counted, against the whole text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/flow/tally.h"

static inline void
assert_tally(const struct tally *t, uint64_t texts, struct str want)
{
	uint8_t got[TALLY_HASH], hash[TALLY_HASH];
	struct tally all;

	assert_int_equal(tally_init(&all), ST_OK);
	tally_put(&all, want);
	assert_int_equal(tally_sum(&all, hash), ST_OK);
	assert_int_equal(tally_sum(t, got), ST_OK);
	assert_int_equal(t->octets, want.n);
	assert_int_equal(t->texts, texts);
	assert_memory_equal(got, hash, TALLY_HASH);
	tally_done(&all);
}

#endif

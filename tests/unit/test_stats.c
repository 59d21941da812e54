#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/io/stats.h"

static void
what_one_process_counts_another_reads(void **state)
{
	struct stats *mine, *theirs;
	int fd;

	(void)state;
	assert_int_equal(stats_create(&fd), ST_OK);
	assert_int_equal(stats_open(fd, true, &mine), ST_OK);
	assert_int_equal(stats_open(fd, false, &theirs), ST_OK);
	stats_add(mine, STAT_OPEN, 3);
	stats_add(mine, STAT_OPEN, -1);
	stats_refused(mine, ST_DENIED);
	assert_int_equal(stats_get(theirs, STAT_OPEN), 2);
	assert_int_equal(stats_get(theirs, STAT_ROWS), 0);
	assert_int_equal(stats_refusals(theirs, ST_DENIED), 1);
	assert_int_equal(stats_refusals(theirs, ST_NO_POLICY), 0);
	assert_int_not_equal(ftruncate(fd, 0), 0);
	stats_close(mine);
	stats_close(theirs);
	(void)close(fd);
}

static void
without_counters_nothing_happens(void **state)
{
	(void)state;
	stats_add(NULL, STAT_OPEN, 1);
	stats_refused(NULL, ST_DENIED);
	assert_int_equal(stats_get(NULL, STAT_OPEN), 0);
	stats_close(NULL);
}

static void
memory_that_is_not_sealed_or_not_counters_is_refused(void **state)
{
	struct stats *s;
	int fd = memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(stats_open(fd, false, &s), ST_BAD_MESSAGE);
	(void)close(fd);
	assert_int_equal(stats_open(-1, false, &s), ST_BAD_MESSAGE);
}

static void
no_two_counters_share_a_word(void **state)
{
	(void)state;
	for (int i = 0; i < STAT_COUNT; i++)
		for (int j = 0; j < i; j++)
			assert_string_not_equal(stats_word((enum counter)i),
						stats_word((enum counter)j));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_one_process_counts_another_reads),
		cmocka_unit_test(without_counters_nothing_happens),
		cmocka_unit_test(memory_that_is_not_sealed_or_not_counters_is_refused),
		cmocka_unit_test(no_two_counters_share_a_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

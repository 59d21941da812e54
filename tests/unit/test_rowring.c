#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/base/crc.h"
#include "proxy/io/rowring.h"

struct scene {
	int memfd, bell;
	struct rowring *w, *r;
	struct buf row;
};

static int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);

	*state = s;
	buf_init(&s->row, ROW_MAX);
	s->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	assert_int_equal(rowring_create("test", &s->memfd), ST_OK);
	assert_int_equal(rowring_open_writer(s->memfd, s->bell, &s->w), ST_OK);
	assert_int_equal(rowring_open_reader(s->memfd, &s->r), ST_OK);
	return 0;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;

	rowring_close(s->w);
	rowring_close(s->r);
	buf_done(&s->row);
	(void)close(s->memfd);
	(void)close(s->bell);
	test_free(s);
	return 0;
}

static enum status
put(struct scene *s, uint64_t id, enum row_kind kind)
{
	struct row row = { .id = id, .kind = kind, .path = STR("/a/path") };

	return rowring_put(s->w, &row);
}

static uint64_t
next_id(struct scene *s)
{
	struct str bytes;
	struct row row;

	assert_int_equal(rowring_next(s->r, &s->row), ST_OK);
	assert_int_equal(buf_finish(&s->row, &bytes), ST_OK);
	assert_int_equal(row_get(bytes, &row), ST_OK);
	return row.id;
}

static bool
bell_rang(const struct scene *s)
{
	uint64_t n;

	return read(s->bell, &n, sizeof n) == (ssize_t)sizeof n;
}

static void
the_checksum_is_the_common_one(void **state)
{
	(void)state;
	assert_int_equal(crc_32(STR("123456789")), 0xcbf43926);
	assert_int_equal(crc_32(STR("")), 0);
	assert_int_equal(crc_32(STR("a")), 0xe8b7be43);
	assert_int_equal(crc_32(STR("abc")), 0x352441c2);
	assert_int_equal(crc_32(STR("\377\0\377\0")), 0x6c65249f);
}

static void
rows_come_out_in_order_and_stay_until_they_are_stored(void **state)
{
	struct scene *s = *state;

	assert_int_equal(rowring_next(s->r, &s->row), ST_END);
	for (uint64_t i = 1; i <= 3; i++)
		assert_int_equal(put(s, i, ROW_DENY), ST_OK);
	for (uint64_t i = 1; i <= 2; i++)
		assert_int_equal(next_id(s), i);
	rowring_advance(s->r);
	assert_int_equal(next_id(s), 3);

	/* A reader that dies before it advances is followed by one that reads it again.
	 */
	rowring_close(s->r);
	assert_int_equal(rowring_open_reader(s->memfd, &s->r), ST_OK);
	assert_int_equal(next_id(s), 3);
	assert_int_equal(rowring_next(s->r, &s->row), ST_END);
}

static void
the_bell_rings_only_for_a_reader_that_found_nothing(void **state)
{
	struct scene *s = *state;

	assert_int_equal(put(s, 1, ROW_DENY), ST_OK);
	assert_false(bell_rang(s));
	assert_int_equal(next_id(s), 1);
	assert_int_equal(rowring_next(s->r, &s->row), ST_END);
	assert_int_equal(put(s, 2, ROW_DENY), ST_OK);
	assert_true(bell_rang(s));
	assert_int_equal(put(s, 3, ROW_DENY), ST_OK);
	assert_false(bell_rang(s));
}

static void
a_crowded_ring_says_so_before_it_is_full_unless_nobody_reads(void **state)
{
	struct scene *s = *state;
	uint64_t n = 0;

	assert_false(rowring_is_crowded(s->w));
	while (!rowring_is_crowded(s->w))
		assert_int_equal(put(s, ++n, ROW_REQUEST), ST_OK);
	rowring_stop(s->r, true);
	assert_false(rowring_is_crowded(s->w));
	rowring_stop(s->r, false);
	for (uint64_t i = 1; i <= n; i++)
		assert_int_equal(next_id(s), i);
	assert_true(rowring_is_crowded(s->w)); /* read, but not stored */
	rowring_advance(s->r);
	assert_false(rowring_is_crowded(s->w));
}

static void
a_full_ring_refuses_denials_first_and_then_everything(void **state)
{
	struct scene *s = *state;
	uint64_t denials = 0, others = 0;

	while (put(s, denials + 1, ROW_DENY) == ST_OK)
		denials++;
	assert_int_equal(put(s, 0, ROW_DENY), ST_NO_LEDGER);
	while (put(s, denials + others + 1, ROW_REQUEST) == ST_OK)
		others++;
	assert_in_range(denials, 10000, 60000);
	assert_in_range(others, 700, 4000);
	for (uint64_t i = 1; i <= denials + others; i++)
		assert_int_equal(next_id(s), i);
	rowring_advance(s->r);
	assert_int_equal(put(s, 1, ROW_DENY), ST_OK);
}

static void
rows_go_around_the_end_of_the_ring(void **state)
{
	struct scene *s = *state;

	for (uint64_t i = 1; i < 100000; i++) {
		assert_int_equal(put(s, i, ROW_REQUEST), ST_OK);
		assert_int_equal(next_id(s), i);
		rowring_advance(s->r);
	}
}

static void
a_restarted_writer_goes_on_where_the_dead_one_stopped(void **state)
{
	struct scene *s = *state;

	assert_int_equal(put(s, 1, ROW_DENY), ST_OK);
	rowring_close(s->w);
	assert_int_equal(rowring_open_writer(s->memfd, s->bell, &s->w), ST_OK);
	assert_int_equal(put(s, 2, ROW_DENY), ST_OK);
	assert_int_equal(next_id(s), 1);
	assert_int_equal(next_id(s), 2);
}

/* The child writes rows 1, 2, 3, ... and is killed whenever it happens. */
static uint64_t
kill_a_writer(struct scene *s, uint64_t from, useconds_t after)
{
	uint64_t id = from;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		while (put(s, id, ROW_REQUEST) == ST_OK)
			id++;
		_exit(0);
	}
	(void)usleep(after);
	(void)kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	enum status st;
	while ((st = rowring_next(s->r, &s->row)) == ST_OK) {
		struct str bytes;
		struct row row;
		assert_int_equal(buf_finish(&s->row, &bytes), ST_OK);
		assert_int_equal(row_get(bytes, &row), ST_OK);
		assert_int_equal(row.id, id++);
	}
	assert_int_equal(st, ST_END);
	rowring_advance(s->r);
	return id;
}

static void
a_writer_killed_at_any_moment_leaves_no_half_row(void **state)
{
	struct scene *s = *state;
	uint64_t id = 1;

	for (int i = 0; i < 100; i++) {
		id = kill_a_writer(s, id, (useconds_t)(i * 37 % 1500));
		rowring_close(s->w);
		assert_int_equal(rowring_open_writer(s->memfd, s->bell, &s->w), ST_OK);
	}
	assert_true(id > 100);
}

static void
a_damaged_row_is_told_and_what_comes_after_is_read(void **state)
{
	struct scene *s = *state;
	enum { DATA_AT = 4096 };

	assert_int_equal(put(s, 1, ROW_DENY), ST_OK);
	char *p = mmap(NULL, DATA_AT + 64, PROT_READ | PROT_WRITE, MAP_SHARED, s->memfd,
		       0);
	assert_true(p != MAP_FAILED);
	p[DATA_AT + 20] ^= 1;
	assert_int_equal(rowring_next(s->r, &s->row), ST_BAD_MESSAGE);
	assert_int_equal(rowring_next(s->r, &s->row), ST_END);
	rowring_advance(s->r);
	assert_int_equal(put(s, 2, ROW_DENY), ST_OK);
	assert_int_equal(next_id(s), 2);
	(void)munmap(p, DATA_AT + 64);
}

static void
memory_that_may_shrink_is_refused(void **state)
{
	struct rowring *r;
	int fd = memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	(void)state;
	assert_int_equal(ftruncate(fd, 4096 + ROWRING_SIZE), 0);
	assert_int_equal(rowring_open_reader(fd, &r), ST_BAD_MESSAGE);
	assert_int_equal(rowring_open_writer(-1, -1, &r), ST_BAD_MESSAGE);
	(void)close(fd);
}

static void
a_ring_that_nobody_can_empty_lets_nothing_out(void **state)
{
	struct scene *s = *state;

	rowring_stop(s->r, true);
	assert_int_equal(put(s, 1, ROW_REQUEST), ST_NO_LEDGER);
	assert_int_equal(put(s, 1, ROW_TUNNEL_START), ST_NO_LEDGER);
	assert_int_equal(put(s, 1, ROW_DNS), ST_NO_LEDGER);
	assert_int_equal(put(s, 1, ROW_EXEC), ST_NO_LEDGER);
	/* What is over is told while there is room. */
	assert_int_equal(put(s, 2, ROW_TUNNEL_END), ST_OK);
	assert_int_equal(put(s, 3, ROW_DENY), ST_OK);
	rowring_stop(s->r, false);
	assert_int_equal(put(s, 4, ROW_REQUEST), ST_OK);
	assert_int_equal(rowring_desert(s->memfd, true), ST_OK);
	rowring_stop(s->r, false); /* not the reader's to take back */
	assert_int_equal(put(s, 5, ROW_REQUEST), ST_NO_LEDGER);
	assert_int_equal(rowring_desert(s->memfd, false), ST_OK);
	assert_int_equal(put(s, 6, ROW_REQUEST), ST_OK);
	for (uint64_t id = 2; id <= 6; id += id == 4 ? 2 : 1)
		assert_int_equal(next_id(s), id);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_checksum_is_the_common_one),
		CASE(rows_come_out_in_order_and_stay_until_they_are_stored),
		CASE(the_bell_rings_only_for_a_reader_that_found_nothing),
		CASE(a_crowded_ring_says_so_before_it_is_full_unless_nobody_reads),
		CASE(a_full_ring_refuses_denials_first_and_then_everything),
		CASE(a_ring_that_nobody_can_empty_lets_nothing_out),
		CASE(rows_go_around_the_end_of_the_ring),
		CASE(a_restarted_writer_goes_on_where_the_dead_one_stopped),
		CASE(a_writer_killed_at_any_moment_leaves_no_half_row),
		CASE(a_damaged_row_is_told_and_what_comes_after_is_read),
		cmocka_unit_test(memory_that_may_shrink_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

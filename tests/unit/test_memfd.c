/* Bytes beside a message: nobody changes them while they are read. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/io/memfd.h"

static void
what_was_put_in_is_read_out(void **state)
{
	struct str view = STR("");
	int fd = memfd_sealed("test", STR("seven c"));

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(memfd_map(fd, 7, &view), ST_OK);
	assert_true(str_eq(view, STR("seven c")));
	assert_int_equal(close(fd), 0);
	assert_true(str_eq(view, STR("seven c")));
	memfd_unmap(&view);
	assert_int_equal(view.n, 0);
	memfd_unmap(&view);
}

static void
its_writer_can_change_it_no_more(void **state)
{
	int fd = memfd_sealed("test", STR("seven c"));

	(void)state;
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, 1), -1);
	assert_int_equal(ftruncate(fd, 100), -1);
	assert_int_equal(close(fd), 0);
}

static void
another_length_is_refused(void **state)
{
	struct str view = STR("same");
	int fd = memfd_sealed("test", STR("seven c")), empty;

	(void)state;
	assert_int_equal(memfd_map(fd, 6, &view), ST_BAD_MESSAGE);
	assert_int_equal(memfd_map(fd, 8, &view), ST_BAD_MESSAGE);
	assert_int_equal(close(fd), 0);
	empty = memfd_sealed("test", STR(""));
	assert_true(empty >= 0);
	assert_int_equal(memfd_map(empty, 0, &view), ST_BAD_MESSAGE);
	assert_int_equal(close(empty), 0);
	assert_true(str_eq(view, STR("same")));
}

static void
what_is_not_sealed_is_refused(void **state)
{
	static const int half[] = { 0, F_SEAL_WRITE, F_SEAL_SHRINK | F_SEAL_GROW };
	struct str view;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(half); i++) {
		int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		assert_int_equal(write(fd, "abc", 3), 3);
		assert_int_equal(fcntl(fd, F_ADD_SEALS, half[i]), 0);
		assert_int_equal(memfd_map(fd, 3, &view), ST_BAD_MESSAGE);
		assert_int_equal(close(fd), 0);
	}
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(memfd_map(ends[0], 3, &view), ST_BAD_MESSAGE);
	assert_int_equal(close(ends[0]), 0);
	assert_int_equal(close(ends[1]), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_put_in_is_read_out),
		cmocka_unit_test(its_writer_can_change_it_no_more),
		cmocka_unit_test(another_length_is_refused),
		cmocka_unit_test(what_is_not_sealed_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

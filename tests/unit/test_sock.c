/* A socket that several processes hold: how it ends is the word of the one whose it is. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/io/sock.h"

struct ends {
	int ours, passed, peer; /* passed: the same socket as ours */
};

static void
open_ends(struct ends *e)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &n), 0);
	e->peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(e->peer, (struct sockaddr *)&at, sizeof at), 0);
	e->ours = accept(listener, NULL, NULL);
	assert_true(e->ours >= 0);
	e->passed = fcntl(e->ours, F_DUPFD_CLOEXEC, 0);
	assert_int_equal(send(e->ours, "half", 4, 0), 4);
	(void)close(listener);
}

static void
set_linger(int fd, int seconds)
{
	struct linger l = { .l_onoff = 1, .l_linger = seconds };

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l), 0);
}

/* What was sent comes, and then the end: 0 a clean one, or its error. */
static int
end_of(int fd)
{
	char text[8];
	ssize_t n = 1;

	while (n > 0)
		n = recv(fd, text, sizeof text, 0);
	return n == 0 ? 0 : errno;
}

/* What is cut must not look whole to who reads until the end. */
static void
a_reset_is_one_whoever_closes_last(void **state)
{
	struct ends e;

	(void)state;
	open_ends(&e);
	set_linger(e.ours, 0);
	(void)close(e.ours);
	sock_close_passed(e.passed);
	assert_int_equal(end_of(e.peer), ECONNRESET);
	(void)close(e.peer);
}

static void
a_reset_is_one_whoever_closes_first(void **state)
{
	struct ends e;

	(void)state;
	open_ends(&e);
	set_linger(e.ours, 0);
	sock_close_passed(e.passed);
	(void)close(e.ours);
	assert_int_equal(end_of(e.peer), ECONNRESET);
	(void)close(e.peer);
}

static void
one_that_nobody_resets_ends_cleanly(void **state)
{
	struct ends e;

	(void)state;
	open_ends(&e);
	(void)close(e.ours);
	sock_close_passed(e.passed);
	assert_int_equal(end_of(e.peer), 0);
	(void)close(e.peer);
}

/* Full, so that there is something to wait for. */
static void
nobody_else_waits_for_what_is_not_read(void **state)
{
	static char zeros[65536];
	struct timespec from, to;
	struct ends e;

	(void)state;
	open_ends(&e);
	while (send(e.ours, zeros, sizeof zeros, MSG_DONTWAIT) > 0)
		;
	set_linger(e.ours, 20);
	(void)clock_gettime(CLOCK_MONOTONIC, &from);
	sock_close_passed(e.passed);
	sock_close_passed(e.ours);
	(void)clock_gettime(CLOCK_MONOTONIC, &to);
	assert_in_range(to.tv_sec - from.tv_sec, 0, 5);
	assert_int_equal(end_of(e.peer), 0);
	(void)close(e.peer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reset_is_one_whoever_closes_last),
		cmocka_unit_test(a_reset_is_one_whoever_closes_first),
		cmocka_unit_test(one_that_nobody_resets_ends_cleanly),
		cmocka_unit_test(nobody_else_waits_for_what_is_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

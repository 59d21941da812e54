#include <arpa/inet.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/base/clock.h"
#include "proxy/io/listen.h"
#include "proxy/io/sock.h"

enum { CLIENTS = 100 };

struct scene {
	struct loop *loop;
	struct listen *ls;
	struct stats *stats;
	struct loop_timer timer;
	struct sockaddr_in to;
	int clients[CLIENTS], accepted[CLIENTS];
	unsigned clients_n, accepted_n, stop_at;
	bool frees;
};

static void
accepted(void *ctx, int fd, const struct sockaddr_storage *peer)
{
	struct scene *s = ctx;

	assert_int_equal(peer->ss_family, AF_INET);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	s->accepted[s->accepted_n++] = fd;
	if (s->frees) {
		listen_free(s->ls);
		s->ls = NULL;
	}
	if (s->accepted_n == s->stop_at)
		loop_stop(s->loop);
}

static void
stop(void *ctx)
{
	struct scene *s = ctx;

	loop_stop(s->loop);
}

static void
run_for(struct scene *s, uint64_t ms)
{
	loop_timer_set(&s->timer, ms);
	loop_run(s->loop);
	loop_timer_clear(&s->timer);
}

static int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);
	socklen_t n = sizeof s->to;
	int memfd, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*state = s;
	s->to = (struct sockaddr_in){ .sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(bind(fd, (struct sockaddr *)&s->to, n), 0);
	assert_int_equal(listen(fd, 128), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&s->to, &n), 0);
	assert_int_equal(stats_create(&memfd), ST_OK);
	assert_int_equal(stats_open(memfd, true, &s->stats), ST_OK);
	(void)close(memfd);
	assert_int_equal(loop_new(&s->loop), ST_OK);
	loop_timer_init(&s->timer, s->loop, stop, s);
	assert_int_equal(listen_new(s->loop, fd, s->stats, accepted, s, &s->ls), ST_OK);
	return 0;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;

	for (unsigned i = 0; i < s->clients_n; i++)
		(void)close(s->clients[i]);
	for (unsigned i = 0; i < s->accepted_n; i++)
		(void)close(s->accepted[i]);
	listen_free(s->ls);
	loop_free(s->loop);
	stats_close(s->stats);
	test_free(s);
	return 0;
}

static void
connect_some(struct scene *s, unsigned n)
{
	while (n-- > 0) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(fd, (struct sockaddr *)&s->to, sizeof s->to),
				 0);
		s->clients[s->clients_n++] = fd;
	}
}

static void
every_connection_is_accepted(void **state)
{
	struct scene *s = *state;

	connect_some(s, CLIENTS);
	s->stop_at = CLIENTS;
	run_for(s, 5000);
	assert_int_equal(s->accepted_n, CLIENTS);
	assert_int_equal(stats_get(s->stats, STAT_ACCEPTED), CLIENTS);
	assert_int_equal(stats_get(s->stats, STAT_ACCEPT_PAUSED), 0);
}

static void
a_listener_may_be_freed_by_its_callback(void **state)
{
	struct scene *s = *state;

	connect_some(s, 2);
	s->frees = true;
	run_for(s, 30);
	assert_int_equal(s->accepted_n, 1);
}

static void
without_descriptors_it_pauses_does_not_spin_and_goes_on(void **state)
{
	struct scene *s = *state;
	struct rlimit old, low;
	struct tms before, after;

	connect_some(s, 20);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = (struct rlimit){ (rlim_t)s->clients[19] + 4, old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	(void)times(&before);
	run_for(s, 500);
	(void)times(&after);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_in_range(s->accepted_n, 1, 4);
	assert_in_range(stats_get(s->stats, STAT_ACCEPT_PAUSED), 2, 8);
	/* Under a tenth of the time was spent running. */
	clock_t ticks =
		after.tms_utime + after.tms_stime - before.tms_utime - before.tms_stime;
	assert_true(ticks * 20 <= sysconf(_SC_CLK_TCK));

	unsigned left =
		20 - s->accepted_n - (unsigned)stats_get(s->stats, STAT_ACCEPT_PAUSED);
	s->stop_at = s->accepted_n + left;
	run_for(s, 3000);
	assert_int_equal(s->accepted_n, s->stop_at);
}

static void
a_socket_tells_where_its_client_meant_to_go_and_who_it_is(void **state)
{
	struct scene *s = *state;
	struct addr a;
	uint16_t port;
	uint64_t one, two, ns;

	connect_some(s, 1);
	s->stop_at = 1;
	run_for(s, 5000);
	assert_int_equal(sock_original(s->accepted[0], &a, &port), ST_OK);
	assert_int_equal(port, ntohs(s->to.sin_port));
	assert_int_equal(a.family, 4);
	assert_int_equal(a.b[0], 127);
	assert_int_equal(sock_cookie(s->accepted[0], &one), ST_OK);
	assert_int_equal(sock_cookie(s->clients[0], &two), ST_OK);
	assert_int_not_equal(one, two);
	int copy = fcntl(s->accepted[0], F_DUPFD_CLOEXEC, 0);
	assert_int_equal(sock_cookie(copy, &two), ST_OK);
	assert_int_equal(one, two);
	(void)close(copy);
	assert_int_equal(sock_netns_cookie(s->accepted[0], &ns), ST_OK);
	assert_int_not_equal(ns, 0);
	assert_int_equal(sock_cookie(-1, &one), ST_SYSTEM);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(every_connection_is_accepted),
		CASE(a_listener_may_be_freed_by_its_callback),
		CASE(without_descriptors_it_pauses_does_not_spin_and_goes_on),
		CASE(a_socket_tells_where_its_client_meant_to_go_and_who_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

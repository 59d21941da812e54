#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* Of a role, so of no library. */
#include "proxy/worker/pump.c"

enum { SPACE = 65536, SMALL = 4096 };

struct scene {
	struct loop *loop;
	struct loop_io client, host;
	struct loop_timer timer;
	struct pump pump;
	char space[SPACE];
	int sandbox, upstream; /* the far ends */
	enum status ended, budget;
	unsigned ends;
	uint64_t up, down;
};

static void
on_end(void *ctx, enum status why)
{
	struct scene *s = ctx;

	s->ends++;
	s->ended = why;
	loop_stop(s->loop);
}

static enum status
on_count(void *ctx, uint64_t up, uint64_t down)
{
	struct scene *s = ctx;

	s->up += up;
	s->down += down;
	return s->budget;
}

static const struct pump_hooks hooks = { .end = on_end, .count = on_count };

static void
on_timer(void *ctx)
{
	struct scene *s = ctx;

	loop_stop(s->loop);
}

static void
run(struct scene *s, uint64_t ms)
{
	loop_timer_set(&s->timer, ms);
	loop_run(s->loop);
}

static int
pair_up(struct loop_io *io, struct loop *l)
{
	int fds[2], size = SMALL;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) != 0)
		return -1;
	(void)setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	loop_io_init(io, l, fds[0], NULL, NULL);
	return fds[1];
}

static int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);

	*state = s;
	if (loop_new(&s->loop) != ST_OK)
		return -1;
	loop_timer_init(&s->timer, s->loop, on_timer, s);
	s->sandbox = pair_up(&s->client, s->loop);
	s->upstream = pair_up(&s->host, s->loop);
	s->pump = (struct pump){ .loop = s->loop,
				 .space = s->space,
				 .space_n = SPACE,
				 .hooks = &hooks,
				 .ctx = s };
	return s->sandbox < 0 || s->upstream < 0 ? -1 : 0;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;

	pump_done(&s->pump);
	loop_timer_clear(&s->timer);
	loop_io_clear(&s->client);
	loop_io_clear(&s->host);
	(void)close(s->client.fd);
	(void)close(s->host.fd);
	if (s->sandbox >= 0)
		(void)close(s->sandbox);
	if (s->upstream >= 0)
		(void)close(s->upstream);
	loop_free(s->loop);
	test_free(s);
	return 0;
}

static void
start(struct scene *s, struct str for_host, struct str for_client)
{
	pump_start(&s->pump, &s->client, &s->host, for_host, for_client);
}

static void
put(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void
expect(int fd, const char *text)
{
	char got[256];
	ssize_t n = read(fd, got, sizeof got);

	assert_int_equal(n, strlen(text));
	assert_memory_equal(got, text, strlen(text));
}

static void
expect_nothing(int fd)
{
	char c;

	assert_int_equal(read(fd, &c, 1), -1);
	assert_int_equal(errno, EAGAIN);
}

static void
expect_end(int fd)
{
	char c;

	assert_int_equal(read(fd, &c, 1), 0);
}

/* Read all that comes, running the loop in between; returns how much. */
static size_t
drain(struct scene *s, int fd)
{
	static char got[SPACE];
	size_t sum = 0;

	for (;;) {
		ssize_t n = read(fd, got, sizeof got);
		if (n == 0 ||
		    (n < 0 && s->ends > 0 && ring_is_empty(&s->pump.client.held)))
			return sum;
		if (n > 0)
			sum += (size_t)n;
		run(s, 1);
	}
}

static void
bytes_go_both_ways_and_what_was_held_goes_first(void **state)
{
	struct scene *s = *state;

	put(s->sandbox, " world");
	start(s, STR("hello"), STR("welcome"));
	run(s, 5);
	expect(s->upstream, "hello world");
	expect(s->sandbox, "welcome");
	put(s->upstream, "answer");
	run(s, 5);
	expect(s->sandbox, "answer");
	assert_int_equal(s->up, 6);
	assert_int_equal(s->down, 6);
}

static void
an_idle_pump_owns_no_buffer(void **state)
{
	struct scene *s = *state;

	start(s, STR("x"), STR(""));
	run(s, 5);
	assert_null(s->pump.client.held.p);
	assert_null(s->pump.host.held.p);
}

static void
each_direction_ends_by_itself(void **state)
{
	struct scene *s = *state;

	start(s, STR(""), STR(""));
	put(s->sandbox, "last");
	(void)shutdown(s->sandbox, SHUT_WR);
	run(s, 5);
	expect(s->upstream, "last");
	expect_end(s->upstream);
	assert_int_equal(s->ends, 0);
	put(s->upstream, "still there");
	run(s, 5);
	expect(s->sandbox, "still there");
	(void)close(s->upstream);
	s->upstream = -1;
	run(s, 50);
	expect_end(s->sandbox);
	assert_int_equal(s->ends, 1);
	assert_int_equal(s->ended, ST_END);
}

static void
a_blocked_side_stops_the_reading_of_the_other(void **state)
{
	struct scene *s = *state;
	static char piece[SPACE];
	size_t sent = 0;

	start(s, STR(""), STR(""));
	for (int i = 0; i < 200; i++) {
		ssize_t n = write(s->upstream, piece, sizeof piece);
		sent += n > 0 ? (size_t)n : 0;
		run(s, 1);
	}
	assert_true(s->pump.client.held.len > 0);
	assert_true(s->pump.client.held.len <= SPACE);
	assert_true(s->pump.client.stalled_ms != 0);
	assert_true(sent < 2000000);
	/* All of it arrives, although the host is gone by then. */
	(void)close(s->upstream);
	s->upstream = -1;
	assert_int_equal(drain(s, s->sandbox), sent);
	assert_int_equal(s->down, sent);
}

static void
a_client_that_is_gone_ends_it_at_the_next_byte(void **state)
{
	struct scene *s = *state;

	start(s, STR(""), STR(""));
	(void)close(s->sandbox);
	s->sandbox = -1;
	run(s, 5);
	put(s->upstream, "nobody hears");
	run(s, 50);
	assert_int_equal(s->ends, 1);
}

static void
a_host_that_takes_no_more_still_delivers(void **state)
{
	struct scene *s = *state;

	start(s, STR(""), STR(""));
	put(s->upstream, "tail");
	(void)shutdown(s->upstream, SHUT_RD);
	put(s->sandbox, "unwanted");
	run(s, 5);
	expect(s->sandbox, "tail");
	put(s->upstream, "more");
	run(s, 5);
	expect(s->sandbox, "more");
	assert_int_equal(s->ends, 0);
}

static void
an_answer_that_is_not_tls_is_not_carried(void **state)
{
	struct scene *s = *state;

	s->pump.check = PUMP_TLS;
	start(s, STR("hello"), STR(""));
	put(s->upstream, "SSH-2.0");
	run(s, 50);
	assert_int_equal(s->ended, ST_UPSTREAM_BAD);
	expect_nothing(s->sandbox);
}

static void
only_the_first_byte_of_an_answer_is_looked_at(void **state)
{
	struct scene *s = *state;

	s->pump.check = PUMP_TLS;
	start(s, STR("hello"), STR(""));
	put(s->upstream, "\x16");
	run(s, 5);
	put(s->upstream, "anything");
	run(s, 5);
	expect(s->sandbox, "\x16"
			   "anything");
	assert_int_equal(s->ends, 0);
}

static void
a_budget_that_is_used_up_ends_it(void **state)
{
	struct scene *s = *state;

	s->budget = ST_LIMIT_BYTES;
	start(s, STR(""), STR(""));
	put(s->sandbox, "too much");
	run(s, 50);
	assert_int_equal(s->ended, ST_LIMIT_BYTES);
	assert_int_equal(s->ends, 1);
}

static void
idle_and_stalled_pumps_are_told_apart_from_busy_ones(void **state)
{
	struct scene *s = *state;

	start(s, STR(""), STR(""));
	run(s, 30);
	pump_tick(&s->pump, 1000000, 1);
	assert_int_equal(s->ends, 0);
	pump_tick(&s->pump, 20, 1000000);
	assert_int_equal(s->ended, ST_TIMEOUT);
	pump_tick(&s->pump, 0, 0);
	assert_int_equal(s->ends, 1);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(bytes_go_both_ways_and_what_was_held_goes_first),
		TEST(an_idle_pump_owns_no_buffer),
		TEST(each_direction_ends_by_itself),
		TEST(a_blocked_side_stops_the_reading_of_the_other),
		TEST(a_client_that_is_gone_ends_it_at_the_next_byte),
		TEST(a_host_that_takes_no_more_still_delivers),
		TEST(an_answer_that_is_not_tls_is_not_carried),
		TEST(only_the_first_byte_of_an_answer_is_looked_at),
		TEST(a_budget_that_is_used_up_ends_it),
		TEST(idle_and_stalled_pumps_are_told_apart_from_busy_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/io/loop.h"

struct scene {
	struct loop *loop;
	struct loop_io io, first;
	struct loop_timer timer;
	char said[32];
	size_t n;
	int fds[2], again;
};

static void
say(struct scene *s, char c)
{
	need(s->n < sizeof s->said - 1);
	s->said[s->n++] = c;
	s->said[s->n] = '\0';
}

static int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);

	*state = s;
	return loop_new(&s->loop) == ST_OK && pipe2(s->fds, O_CLOEXEC) == 0 ? 0 : -1;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;

	loop_io_clear(&s->io);
	loop_free(s->loop);
	(void)close(s->fds[0]);
	(void)close(s->fds[1]);
	test_free(s);
	return 0;
}

static void
stop(void *ctx)
{
	struct scene *s = ctx;

	say(s, 's');
	loop_stop(s->loop);
}

static void
defer_again(void *ctx)
{
	struct scene *s = ctx;

	say(s, 'd');
	if (--s->again > 0)
		loop_defer(s->loop, defer_again, s);
	else
		loop_stop(s->loop);
}

static void
readable(void *ctx, unsigned events)
{
	struct scene *s = ctx;

	assert_int_equal(events, LOOP_READ);
	say(s, 'r');
	loop_defer(s->loop, stop, s);
	say(s, 'R');
	loop_io_want(&s->io, 0);
}

static void
work_put_off_runs_after_the_callback(void **state)
{
	struct scene *s = *state;

	assert_int_equal(write(s->fds[1], "x", 1), 1);
	loop_io_init(&s->io, s->loop, s->fds[0], readable, s);
	loop_io_want(&s->io, LOOP_READ);
	assert_int_equal(s->io.armed, LOOP_READ);
	loop_run(s->loop);
	assert_string_equal(s->said, "rRs");
	assert_int_equal(s->io.armed, 0);
}

static void
first_readable(void *ctx, unsigned events)
{
	struct scene *s = ctx;

	(void)events;
	say(s, 'f');
	if (s->again == 0)
		loop_io_want(&s->first, 0);
	else
		loop_stop(s->loop);
}

/* A pipe whose other end is closed stays readable. */
static void
two_are_ready(struct scene *s, int again, const char *said)
{
	int fds[2];

	s->again = again;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(write(s->fds[1], "x", 1), 1);
	loop_io_init(&s->io, s->loop, s->fds[0], readable, s);
	loop_io_want(&s->io, LOOP_READ);
	assert_int_equal(close(fds[1]), 0);
	loop_io_init(&s->first, s->loop, fds[0], first_readable, s);
	loop_io_first(&s->first);
	loop_io_want(&s->first, LOOP_READ);
	loop_run(s->loop);
	loop_io_clear(&s->first);
	assert_int_equal(close(fds[0]), 0);
	assert_string_equal(s->said, said);
}

static void
who_is_to_be_first_comes_before_one_that_was_ready_before(void **state)
{
	two_are_ready(*state, 0, "frRs");
}

static void
who_is_to_be_first_may_stop_it_while_others_wait(void **state)
{
	two_are_ready(*state, 1, "f");
}

static void
work_that_puts_off_more_comes_to_an_end_without_any_event(void **state)
{
	struct scene *s = *state;

	s->again = 3;
	loop_defer(s->loop, defer_again, s);
	loop_run(s->loop);
	assert_string_equal(s->said, "ddd");
}

static void
a_loop_with_nothing_to_wait_for_returns(void **state)
{
	struct scene *s = *state;

	loop_run(s->loop);
	assert_string_equal(s->said, "");
}

static void
freeing_the_loop_runs_what_was_put_off(void **state)
{
	struct scene s = { 0 };

	(void)state;
	s.again = 2;
	assert_int_equal(loop_new(&s.loop), ST_OK);
	loop_defer(s.loop, stop, &s);
	loop_free(s.loop);
	assert_string_equal(s.said, "s");
}

static void
a_timer_fires_once_and_moving_it_moves_it(void **state)
{
	struct scene *s = *state;

	loop_timer_init(&s->timer, s->loop, stop, s);
	assert_false(loop_timer_is_set(&s->timer));
	loop_timer_set(&s->timer, 60000);
	loop_timer_set(&s->timer, 5);
	assert_true(loop_timer_is_set(&s->timer));
	loop_run(s->loop);
	assert_string_equal(s->said, "s");
	assert_false(loop_timer_is_set(&s->timer));
	loop_timer_set(&s->timer, 5);
	loop_timer_clear(&s->timer);
	assert_false(loop_timer_is_set(&s->timer));
}

static void
writable(void *ctx, unsigned events)
{
	struct scene *s = ctx;

	assert_int_equal(events, LOOP_WRITE);
	say(s, 'w');
	loop_io_clear(&s->io);
	loop_stop(s->loop);
}

static void
wanting_the_same_again_changes_nothing(void **state)
{
	struct scene *s = *state;

	loop_io_init(&s->io, s->loop, s->fds[1], writable, s);
	for (int i = 0; i < 3; i++) {
		loop_io_want(&s->io, LOOP_WRITE);
		assert_int_equal(s->io.armed, LOOP_WRITE);
	}
	loop_run(s->loop);
	assert_string_equal(s->said, "w");
	loop_io_clear(&s->io);
}

static void
the_clock_stands_still_within_a_turn(void **state)
{
	struct scene *s = *state;
	uint64_t now = loop_now_ms(s->loop);

	assert_true(now > 0);
	(void)usleep(3000);
	assert_int_equal(loop_now_ms(s->loop), now);
}

static void
stop_at_two(void *ctx, unsigned events)
{
	struct scene *s = ctx;

	assert_int_equal(events, LOOP_READ);
	say(s, 'p');
	if (s->n == 1)
		assert_int_equal(write(s->fds[1], "x", 1), 1);
	else
		loop_stop(s->loop);
}

/* The first call comes of the poke, the second of the kernel. */
static void
a_poke_calls_back_once_and_the_descriptor_is_watched_as_before(void **state)
{
	struct scene *s = *state;

	loop_io_init(&s->io, s->loop, s->fds[0], stop_at_two, s);
	loop_timer_init(&s->timer, s->loop, stop, s);
	loop_timer_set(&s->timer, 2000);
	loop_io_want(&s->io, LOOP_READ);
	loop_io_poke(&s->io);
	loop_run(s->loop);
	assert_string_equal(s->said, "pp");
	loop_timer_clear(&s->timer);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(work_put_off_runs_after_the_callback),
		CASE(who_is_to_be_first_comes_before_one_that_was_ready_before),
		CASE(who_is_to_be_first_may_stop_it_while_others_wait),
		CASE(work_that_puts_off_more_comes_to_an_end_without_any_event),
		CASE(a_loop_with_nothing_to_wait_for_returns),
		cmocka_unit_test(freeing_the_loop_runs_what_was_put_off),
		CASE(a_timer_fires_once_and_moving_it_moves_it),
		CASE(wanting_the_same_again_changes_nothing),
		CASE(a_poke_calls_back_once_and_the_descriptor_is_watched_as_before),
		CASE(the_clock_stands_still_within_a_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

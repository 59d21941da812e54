#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/h2_world.h"

static bool
all_asked_are_through(struct world *w)
{
	for (size_t i = 0; i < w->asked_n; i++)
		if (w->asked[i].s != NULL)
			return false;
	return true;
}

static bool
is_over(struct world *w)
{
	return w->is_over;
}

static bool
never(struct world *w)
{
	(void)w;
	return false;
}

static void
a_body_and_trailers_go_there_and_back(void **state)
{
	struct world w;
	struct head trailers;

	(void)state;
	world_open(&w);
	struct end *e = world_ask(&w, "POST", "/echo", false);
	head_init(&trailers, &e->arena);
	assert_int_equal(head_add(&trailers, STR("x-sum"), STR("7")), ST_OK);
	side_put_body(e->s, STR("hello"));
	side_put_end(e->s, &e->out, &trailers);
	assert_int_equal(side_flush(e->s), ST_OK);
	assert_true(world_run(&w, all_asked_are_through, 2000));
	assert_string_equal(end_log(e), "200\nbody hello\nend x-sum=7\n");
	assert_string_equal(end_log(&w.served[0]),
			    "POST /echo\nbody hello\nend x-sum=7\n");
	assert_false(e->is_gone);
	assert_int_equal(w.leg->sides, 0);
	assert_true(w.settled > 0);
	world_close(&w);
}

static void
a_big_body_comes_whole(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	struct end *e = world_ask(&w, "GET", "/big", true);
	assert_true(world_run(&w, all_asked_are_through, 5000));
	assert_int_equal(e->body, WORLD_BIG);
	assert_true(e->is_ended);
	assert_true(w.served[0].rooms > 0);
	world_close(&w);
}

static void
nothing_follows_a_whole_message(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	struct end *e = world_ask(&w, "GET", "/whole", true);
	assert_true(world_run(&w, all_asked_are_through, 2000));
	assert_string_equal(end_log(e), "204\n");
	world_close(&w);
}

static void
what_is_not_read_holds_its_sender(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	struct end *e = world_ask(&w, "GET", "/big", true);
	e->holds = true;
	side_want(e->s, false);
	(void)world_run(&w, never, 50);
	assert_int_equal(e->body, 0);
	assert_int_equal(w.served[0].flushed, ST_AGAIN);
	assert_true(w.served[0].left > WORLD_BIG - 4 * 65536);
	assert_true(w.served[0].s->is_blocked && w.served[0].s->blocked_ms > 0);
	e->holds = false;
	on_any_batch(e);
	assert_true(world_run(&w, all_asked_are_through, 5000));
	assert_int_equal(e->body, WORLD_BIG);
	world_close(&w);
}

/* A side that is blocked before it has put anything would never be asked to. */
static void
a_closed_window_keeps_no_head_back(void **state)
{
	struct world w;

	(void)state;
	world_open_window(&w, 0);
	struct end *e = world_ask(&w, "GET", "/big", true);
	(void)world_run(&w, never, 50);
	assert_string_equal(end_log(e), "200\n");
	assert_int_equal(e->body, 0);
	assert_int_equal(w.served[0].flushed, ST_AGAIN);
	world_close(&w);
}

static void
ninety_nine_that_stand_still_leave_one_at_full_speed(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	(void)world_run(&w, never, 10); /* settings */
	for (size_t i = 0; i < 99; i++) {
		struct end *e = world_ask(&w, "GET", "/big", true);
		e->holds = true;
		side_want(e->s, false);
	}
	struct end *last = world_ask(&w, "GET", "/big", true);
	struct side *more = NULL;
	assert_int_equal(leg_ask(w.leg, &more), ST_AGAIN);
	for (size_t i = 0; i < 2000 && last->s != NULL; i++)
		(void)world_run(&w, never, 1);
	assert_null(last->s);
	assert_int_equal(last->body, WORLD_BIG);
	for (size_t i = 0; i < 99; i++)
		assert_non_null(w.asked[i].s);
	world_close(&w);
}

static void
an_early_answer_is_whole_though_the_request_is_not(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	struct end *e = world_ask(&w, "POST", "/early", false);
	e->left = WORLD_BIG;
	end_flush(e);
	assert_true(world_run(&w, all_asked_are_through, 2000) || e->is_ended);
	assert_string_equal(end_log(e), "403\n");
	assert_false(e->is_gone);
	world_close(&w);
}

static void
a_reset_is_told_to_the_other_end(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	struct end *e = world_ask(&w, "GET", "/reset", true);
	struct end *other = world_ask(&w, "GET", "/big", true);
	assert_true(world_run(&w, all_asked_are_through, 2000));
	assert_true(e->is_gone);
	assert_int_equal(e->gone, ST_UPSTREAM_CLOSED);
	assert_int_equal(other->body, WORLD_BIG);
	world_close(&w);
}

static bool
the_first_served_is_gone(struct world *w)
{
	return w->served_n > 0 && w->served[0].is_gone;
}

static void
a_turn_that_gives_up_resets_its_stream_only(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	struct end *e = world_ask(&w, "GET", "/hold", true);
	(void)world_run(&w, never, 20);
	side_abort(e->s, ST_TIMEOUT);
	e->s = NULL;
	assert_true(world_run(&w, the_first_served_is_gone, 2000));
	assert_int_equal(w.served[0].gone, ST_CLIENT_GONE);
	struct end *next = world_ask(&w, "GET", "/big", true);
	assert_true(world_run(&w, all_asked_are_through, 2000));
	assert_int_equal(next->body, WORLD_BIG);
	world_close(&w);
}

static void
a_front_that_drains_finishes_what_runs(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	struct end *e = world_ask(&w, "GET", "/big", true);
	(void)world_run(&w, never, 2);
	front_drain(w.front);
	assert_true(world_run(&w, is_over, 5000));
	assert_int_equal(e->body, WORLD_BIG);
	assert_true(w.leg->is_over);
	struct side *s;
	assert_int_equal(leg_ask(w.leg, &s), ST_END);
	world_close(&w);
}

static void
a_connection_that_breaks_is_told_to_every_turn(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	(void)world_ask(&w, "GET", "/hold", true);
	(void)world_ask(&w, "GET", "/hold", true);
	(void)world_run(&w, never, 20);
	struct end *unasked = &w.asked[2];
	assert_int_equal(shutdown(w.fds[0], SHUT_RDWR), 0);
	(void)unasked;
	assert_true(world_run(&w, all_asked_are_through, 2000));
	assert_true(w.asked[0].is_gone && w.asked[1].is_gone);
	assert_true(world_run(&w, is_over, 2000));
	assert_true(w.served[0].is_gone && w.served[1].is_gone);
	world_close(&w);
}

static void
a_request_ends_the_connection_when_it_was_the_last(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	w.front_limits.requests = 2;
	(void)world_ask(&w, "GET", "/big", true);
	(void)world_ask(&w, "GET", "/big", true);
	assert_true(world_run(&w, is_over, 5000));
	assert_true(all_asked_are_through(&w));
	assert_int_equal(w.asked[0].body + w.asked[1].body, 2 * WORLD_BIG);
	world_close(&w);
}

static void
a_client_that_takes_nothing_is_given_up(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	w.front_limits.stalled_ms = 30;
	struct end *e = world_ask(&w, "GET", "/big", true);
	e->holds = true;
	side_want(e->s, false);
	for (size_t i = 0; i < 100 && !w.served[0].is_gone; i++) {
		(void)world_run(&w, never, 5);
		front_tick(w.front);
	}
	assert_true(w.served[0].is_gone);
	assert_int_equal(w.served[0].gone, ST_TIMEOUT);
	world_close(&w);
}

static void
an_idle_connection_is_closed_with_a_goodbye(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	w.front_limits.keepalive_ms = 10;
	(void)world_ask(&w, "GET", "/big", true);
	for (size_t i = 0; i < 1000 && !w.is_over; i++) {
		(void)world_run(&w, is_over, 5);
		if (w.front != NULL)
			front_tick(w.front);
	}
	assert_true(w.is_over);
	assert_false(w.is_reset);
	assert_int_equal(w.asked[0].body, WORLD_BIG);
	world_close(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_body_and_trailers_go_there_and_back),
		cmocka_unit_test(a_big_body_comes_whole),
		cmocka_unit_test(nothing_follows_a_whole_message),
		cmocka_unit_test(what_is_not_read_holds_its_sender),
		cmocka_unit_test(a_closed_window_keeps_no_head_back),
		cmocka_unit_test(ninety_nine_that_stand_still_leave_one_at_full_speed),
		cmocka_unit_test(an_early_answer_is_whole_though_the_request_is_not),
		cmocka_unit_test(a_reset_is_told_to_the_other_end),
		cmocka_unit_test(a_turn_that_gives_up_resets_its_stream_only),
		cmocka_unit_test(a_front_that_drains_finishes_what_runs),
		cmocka_unit_test(a_connection_that_breaks_is_told_to_every_turn),
		cmocka_unit_test(a_request_ends_the_connection_when_it_was_the_last),
		cmocka_unit_test(a_client_that_takes_nothing_is_given_up),
		cmocka_unit_test(an_idle_connection_is_closed_with_a_goodbye),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

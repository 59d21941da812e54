#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/io/ask.h"

struct scene {
	struct ask_end worker, dialer;
	struct loop *loop;
	struct ask_line *asking, *answering;
	struct loop_timer guard;
	uint32_t seq, open_seq;
	enum status lost, got;
	unsigned heard, stop_heard, answers, losses, calls;
	enum { ANSWER_NOW, KEEP_QUIET, ANSWER_WRONG, ANSWER_TWICE } manner;
	char text[64];
	bool has_fd;
};

static void
pair(struct scene *s)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	s->worker = (struct ask_end){ fds[0], ROLE_WORKER, ROLE_DIALER };
	s->dialer = (struct ask_end){ fds[1], ROLE_DIALER, ROLE_WORKER };
}

static int
open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 200; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void
too_long(void *ctx)
{
	(void)ctx;
	fail_msg("the loop should have stopped");
}

static void
heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct scene *s = ctx;
	int fd = STDERR_FILENO;

	s->heard++;
	s->seq = m->seq;
	if (s->heard == s->stop_heard)
		loop_stop(s->loop);
	if (s->manner == KEEP_QUIET)
		return;
	uint32_t seq = s->manner == ANSWER_WRONG ? m->seq + 1 : m->seq;
	assert_int_equal(ask_answer(line, ASK_DIAL, seq, m->body, &fd, 1), ST_OK);
	if (s->manner == ANSWER_TWICE)
		assert_int_equal(ask_answer(line, ASK_DIAL, seq, m->body, NULL, 0),
				 ST_OK);
}

static void
lost(void *ctx, struct ask_line *line, enum status why)
{
	struct scene *s = ctx;

	s->losses++;
	s->lost = why;
	s->asking = line == s->asking ? NULL : s->asking;
	s->answering = line == s->answering ? NULL : s->answering;
	ask_line_free(line);
	loop_stop(s->loop);
}

static void
answered(void *ctx, enum status st, struct ask_msg *m)
{
	struct scene *s = ctx;

	s->answers++;
	s->got = st;
	if (st == ST_OK) {
		memcpy(s->text, m->body.p, m->body.n);
		int fd = ask_msg_take(m, 0);
		s->has_fd = fd >= 0;
		(void)close(fd);
	}
	if (s->answers == s->calls)
		loop_stop(s->loop);
}

static int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);

	*state = s;
	pair(s);
	assert_int_equal(loop_new(&s->loop), ST_OK);
	assert_int_equal(ask_line_new(s->loop, &s->worker, heard, lost, s, &s->asking),
			 ST_OK);
	assert_int_equal(
		ask_line_new(s->loop, &s->dialer, heard, lost, s, &s->answering),
		ST_OK);
	loop_timer_init(&s->guard, s->loop, too_long, s);
	loop_timer_set(&s->guard, 10000);
	return 0;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;

	ask_line_free(s->asking);
	ask_line_free(s->answering);
	loop_timer_clear(&s->guard);
	loop_free(s->loop);
	test_free(s);
	return 0;
}

static void
call(struct scene *s, const char *text)
{
	int fd = STDERR_FILENO;

	assert_int_equal(ask_call(s->asking, ASK_DIAL, ASK_LOAD(str_from(text), &fd, 1),
				  answered, s, &s->open_seq),
			 ST_OK);
	s->calls++;
}

static void
a_call_is_answered(void **state)
{
	struct scene *s = *state;

	call(s, "hello");
	assert_int_equal(s->answers, 0);
	loop_run(s->loop);
	assert_int_equal(s->got, ST_OK);
	assert_string_equal(s->text, "hello");
	assert_true(s->has_fd);
}

static void
more_calls_than_the_socket_holds_wait_in_order(void **state)
{
	struct scene *s = *state;
	int before = open_files();

	for (int i = 0; i < 1000; i++)
		call(s, "many");
	loop_run(s->loop);
	assert_int_equal(s->answers, 1000);
	assert_int_equal(s->heard, 1000);
	assert_int_equal(open_files(), before);
}

static void
a_peer_that_never_reads_does_not_eat_memory(void **state)
{
	struct scene *s = *state;
	enum status st;
	int fd = STDERR_FILENO, before = open_files();
	unsigned n = 0;

	while ((st = ask_call(s->asking, ASK_DIAL, ASK_LOAD(STR("x"), &fd, 1), answered,
			      s, NULL)) == ST_OK)
		n++;
	assert_true(st == ST_AGAIN || st == ST_NO_FILES);
	assert_in_range(n, 100, 3000);
	ask_line_free(s->asking);
	s->asking = NULL;
	assert_in_range(open_files(), before - 1, before);
}

static void
a_lost_line_ends_every_call_before_it_is_told(void **state)
{
	struct scene *s = *state;

	s->manner = KEEP_QUIET;
	call(s, "a");
	call(s, "b");
	ask_line_free(s->answering);
	s->answering = NULL;
	loop_run(s->loop);
	assert_int_equal(s->answers, 2);
	assert_int_equal(s->got, ST_END);
	assert_int_equal(s->losses, 1);
	assert_int_equal(s->lost, ST_END);
}

static void
an_answer_to_a_call_never_made_kills_the_line(void **state)
{
	struct scene *s = *state;

	s->manner = ANSWER_WRONG;
	s->calls = 100;
	assert_int_equal(ask_call(s->asking, ASK_DIAL, ASK_LOAD(STR(""), NULL, 0),
				  answered, s, NULL),
			 ST_OK);
	loop_run(s->loop);
	assert_int_equal(s->losses, 1);
	assert_int_equal(s->lost, ST_BAD_MESSAGE);
	assert_int_equal(s->got, ST_END);
}

static void
a_second_answer_is_late_and_nothing_more(void **state)
{
	struct scene *s = *state;

	s->manner = ANSWER_TWICE;
	call(s, "a");
	loop_run(s->loop);
	call(s, "b");
	loop_run(s->loop);
	assert_int_equal(s->answers, 2);
	assert_int_equal(s->losses, 0);
}

static void
a_cancelled_call_is_never_called_back(void **state)
{
	struct scene *s = *state;

	call(s, "a");
	ask_cancel(s->asking, s->open_seq);
	ask_cancel(s->asking, 12345);
	s->calls = 1;
	int fd = STDERR_FILENO;
	assert_int_equal(ask_call(s->asking, ASK_DIAL, ASK_LOAD(STR("b"), &fd, 1),
				  answered, s, NULL),
			 ST_OK);
	loop_run(s->loop);
	assert_int_equal(s->answers, 1);
	assert_string_equal(s->text, "b");
	assert_int_equal(s->heard, 2);
}

static void
nonsense_from_the_asker_kills_its_line(void **state)
{
	struct scene *s = *state;

	assert_int_equal(send(s->worker.fd, "nonsense", 8, 0), 8);
	loop_run(s->loop);
	assert_int_equal(s->losses, 1);
	assert_int_equal(s->lost, ST_BAD_MESSAGE);
	assert_int_equal(s->heard, 0);
}

static void
an_asker_is_limited_and_one_that_ignores_it_is_cut_off(void **state)
{
	struct scene *s = *state;
	struct ask_end worker, control;
	struct ask_line *line, *other;
	unsigned n = 0;
	enum status st;

	pair(s); /* the lines keep their own descriptors */
	worker = s->worker;
	control = s->dialer;
	worker.peer = control.self = ROLE_CONTROL;
	assert_int_equal(ask_line_new(s->loop, &worker, heard, lost, s, &line), ST_OK);
	assert_int_equal(ask_line_new(s->loop, &control, heard, lost, s, &other),
			 ST_OK);
	s->manner = KEEP_QUIET;
	s->calls = UINT32_MAX;
	while ((st = ask_call(line, ASK_WHO, ASK_LOAD(STR(""), NULL, 0), answered, s,
			      NULL)) == ST_OK)
		n++;
	assert_int_equal(st, ST_LIMIT_RATE);
	assert_int_equal(n, 200);
	s->stop_heard = 200;
	loop_run(s->loop);
	s->stop_heard = 0;
	/* 200 are left of the 400 that the answerer allows, and it fills slowly. */
	for (int i = 0; i < 260; i++)
		assert_int_equal(ask_send(&worker, ASK_WHO, false, 500,
					  ASK_LOAD(STR(""), NULL, 0)),
				 ST_OK);
	loop_run(s->loop);
	assert_int_equal(s->losses, 1);
	assert_int_equal(s->lost, ST_LIMIT_RATE);
	assert_in_range(s->heard, 400, 459);
	ask_line_free(line);
}

static void
a_call_without_an_answer_ends_at_its_deadline(void **state)
{
	struct scene *s = *state;
	struct ask_end worker, ledger;
	struct ask_line *line;

	pair(s);
	worker = s->worker;
	ledger = s->dialer;
	worker.peer = ledger.self = ROLE_LEDGER;
	assert_int_equal(ask_line_new(s->loop, &worker, heard, lost, s, &line), ST_OK);
	assert_int_equal(
		ask_call(line, ASK_LAST, ASK_LOAD(STR(""), NULL, 0), answered, s, NULL),
		ST_OK);
	s->calls = 1;
	uint64_t before = loop_now_ms(s->loop);
	loop_run(s->loop);
	assert_int_equal(s->got, ST_TIMEOUT);
	assert_in_range(loop_now_ms(s->loop) - before, 4900, 7000);
	ask_line_free(line);
	(void)close(ledger.fd);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_call_is_answered),
		CASE(more_calls_than_the_socket_holds_wait_in_order),
		CASE(a_peer_that_never_reads_does_not_eat_memory),
		CASE(a_lost_line_ends_every_call_before_it_is_told),
		CASE(an_answer_to_a_call_never_made_kills_the_line),
		CASE(a_second_answer_is_late_and_nothing_more),
		CASE(a_cancelled_call_is_never_called_back),
		CASE(nonsense_from_the_asker_kills_its_line),
		CASE(an_asker_is_limited_and_one_that_ignores_it_is_cut_off),
		CASE(a_call_without_an_answer_ends_at_its_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

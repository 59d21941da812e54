#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/io/ask.h"

struct scene {
	struct ask_end worker, dialer;
	char space[ASK_BODY_MAX + 8];
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
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);

	*state = s;
	pair(s);
	return 0;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;

	(void)close(s->worker.fd);
	(void)close(s->dialer.fd);
	test_free(s);
	return 0;
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
an_ask_and_its_descriptor_arrive(void **state)
{
	struct scene *s = *state;
	struct ask_msg m;
	int here = STDERR_FILENO;

	assert_int_equal(ask_send(&s->worker, ASK_DIAL, false, 7,
				  ASK_LOAD(STR("body"), &here, 1)),
			 ST_OK);
	assert_int_equal(ask_recv(&s->dialer, s->space, &m), ST_OK);
	assert_int_equal(m.ask, ASK_DIAL);
	assert_false(m.is_answer);
	assert_int_equal(m.seq, 7);
	assert_true(str_eq(m.body, STR("body")));
	assert_int_equal(m.fds_n, 1);
	int fd = ask_msg_take(&m, 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(ask_msg_take(&m, 0), -1);
	assert_int_equal(ask_msg_take(&m, 1), -1);
	ask_msg_done(&m);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	(void)close(fd);
}

static void
the_table_says_who_may_say_what(void **state)
{
	(void)state;
	assert_true(ask_is_legal(ASK_DIAL, ROLE_WORKER, ROLE_DIALER));
	assert_false(ask_is_legal(ASK_DIAL, ROLE_DIALER, ROLE_WORKER));
	assert_false(ask_is_legal(ASK_SIGN, ROLE_WORKER, ROLE_KEEPER));
	assert_true(ask_is_legal(ASK_GIVE, ROLE_SUPER, ROLE_DNS));
	assert_false(ask_is_legal(ASK_GIVE, ROLE_CONTROL, ROLE_DNS));
	assert_string_equal(ask_name(ASK_DIAL), "DIAL");
	assert_string_equal(role_name(ROLE_DNS), "DNS");
}

static void
say_raw(struct scene *s, struct str packet, int fds_n)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 64)] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)packet.p, packet.n };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fds_n > 0) {
		mh.msg_control = control;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)fds_n);
		struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)fds_n);
		for (int i = 0; i < fds_n; i++)
			memcpy(CMSG_DATA(c) + (size_t)i * sizeof(int), &(int){ 2 },
			       sizeof(int));
	}
	assert_true(sendmsg(s->worker.fd, &mh, 0) >= 0);
}

static void
what_the_table_does_not_list_is_refused_and_leaves_no_descriptor(void **state)
{
	struct scene *s = *state;
	struct ask_msg m;
	char head[8] = { 0x53, 0x47, ASK_DIAL, 0, 0, 0, 0, 1 }, bad[9];
	static char large[600];
	const struct {
		unsigned at;
		char value;
	} changes[] = {
		{ 0, 'X' }, { 2, ASK_COUNT }, { 2, (char)0xff },  { 3, 2 },
		{ 3, 1 },   { 2, ASK_GIVE },  { 2, ASK_RESOLVE },
	};
	int before = open_files();

	for (size_t i = 0; i < COUNT_OF(changes); i++) {
		memcpy(bad, head, sizeof head);
		bad[changes[i].at] = changes[i].value;
		say_raw(s, str_of(bad, 8), 1);
		assert_int_equal(ask_recv(&s->dialer, s->space, &m), ST_BAD_MESSAGE);
	}
	for (size_t n = 1; n < 8; n++) {
		say_raw(s, str_of(head, n), 0);
		assert_int_equal(ask_recv(&s->dialer, s->space, &m), ST_BAD_MESSAGE);
	}
	memcpy(large, head, sizeof head);
	say_raw(s, str_of(large, 8 + 513), 1); /* DIAL: 512 */
	assert_int_equal(ask_recv(&s->dialer, s->space, &m), ST_BAD_MESSAGE);
	say_raw(s, str_of(head, 8), 2); /* DIAL: one */
	assert_int_equal(ask_recv(&s->dialer, s->space, &m), ST_BAD_MESSAGE);
	say_raw(s, str_of(head, 8), 64);
	assert_int_equal(ask_recv(&s->dialer, s->space, &m), ST_BAD_MESSAGE);
	assert_int_equal(open_files(), before);
	say_raw(s, str_of(head, 8), 0);
	assert_int_equal(ask_recv(&s->dialer, s->space, &m), ST_OK);
}

static void
a_packet_longer_than_any_ask_is_refused(void **state)
{
	struct scene *s = *state;
	static char huge[ASK_BODY_MAX + 100];
	struct ask_msg m;

	memcpy(huge, (char[8]){ 0x53, 0x47, ASK_DIAL }, 8);
	say_raw(s, str_of(huge, sizeof huge), 0);
	assert_int_equal(ask_recv(&s->dialer, s->space, &m), ST_BAD_MESSAGE);
	assert_int_equal(ask_send(&s->worker, ASK_DIAL, false, 1,
				  ASK_LOAD(str_of(huge, 513), NULL, 0)),
			 ST_TOO_BIG);
}

static void
a_closed_line_is_the_end(void **state)
{
	struct scene *s = *state;
	struct ask_msg m;

	(void)close(s->worker.fd);
	s->worker.fd = -1;
	assert_int_equal(ask_recv(&s->dialer, s->space, &m), ST_END);
	assert_int_equal(
		ask_send(&s->dialer, ASK_DIAL, true, 1, ASK_LOAD(STR(""), NULL, 0)),
		ST_END);
}

static void
without_room_for_a_descriptor_the_ask_still_arrives(void **state)
{
	struct scene *s = *state;
	struct ask_msg m;
	struct rlimit old, low;
	int here = STDERR_FILENO;

	assert_int_equal(
		ask_send(&s->worker, ASK_DIAL, false, 7, ASK_LOAD(STR("x"), &here, 1)),
		ST_OK);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = (struct rlimit){ 0, old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	enum status st = ask_recv(&s->dialer, s->space, &m);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(st, ST_OK);
	assert_true(m.lost_fds);
	assert_int_equal(m.fds_n, 0);
}

static void
a_bucket_holds_one_second(void **state)
{
	struct ask_rate r = { 0 };
	int n = 0;

	(void)state;
	while (ask_rate_take(&r, ASK_WHO, 1, 1000))
		n++;
	assert_int_equal(n, 200);
	assert_true(ask_rate_take(&r, ASK_WHO, 1, 1005));
	assert_false(ask_rate_take(&r, ASK_WHO, 1, 1005));
	assert_true(ask_rate_take(&r, ASK_WHO, 1, 90000));
	assert_true(ask_rate_take(&r, ASK_DIAL, 1, 1));
}

/* With a loop. */

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
set_up_lines(void **state)
{
	(void)set_up(state);
	struct scene *s = *state;
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
tear_down_lines(void **state)
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

	say_raw(s, STR("nonsense"), 1);
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

#define PLAIN(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define LINES(f) cmocka_unit_test_setup_teardown(f, set_up_lines, tear_down_lines)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		PLAIN(an_ask_and_its_descriptor_arrive),
		PLAIN(the_table_says_who_may_say_what),
		PLAIN(what_the_table_does_not_list_is_refused_and_leaves_no_descriptor),
		PLAIN(a_packet_longer_than_any_ask_is_refused),
		PLAIN(a_closed_line_is_the_end),
		PLAIN(without_room_for_a_descriptor_the_ask_still_arrives),
		PLAIN(a_bucket_holds_one_second),
		LINES(a_call_is_answered),
		LINES(more_calls_than_the_socket_holds_wait_in_order),
		LINES(a_peer_that_never_reads_does_not_eat_memory),
		LINES(a_lost_line_ends_every_call_before_it_is_told),
		LINES(an_answer_to_a_call_never_made_kills_the_line),
		LINES(a_second_answer_is_late_and_nothing_more),
		LINES(a_cancelled_call_is_never_called_back),
		LINES(nonsense_from_the_asker_kills_its_line),
		LINES(an_asker_is_limited_and_one_that_ignores_it_is_cut_off),
		LINES(a_call_without_an_answer_ends_at_its_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

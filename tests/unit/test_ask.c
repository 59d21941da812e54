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

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(an_ask_and_its_descriptor_arrive),
		CASE(the_table_says_who_may_say_what),
		CASE(what_the_table_does_not_list_is_refused_and_leaves_no_descriptor),
		CASE(a_packet_longer_than_any_ask_is_refused),
		CASE(a_closed_line_is_the_end),
		CASE(without_room_for_a_descriptor_the_ask_still_arrives),
		CASE(a_bucket_holds_one_second),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

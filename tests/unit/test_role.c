#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/super_bench.h"

/* The test is super, the role its child.  The child: */

static struct role_self *
self_of(void *ctx)
{
	return ctx;
}

/* What happened is told to super as rows. */
static void
say(struct role_self *r, enum row_kind kind, const struct who *w, const char *what)
{
	struct row row = role_row_begin(r, kind, w);

	row.detail = str_from(what);
	if (role_row(r, &row) != ST_OK)
		_exit(3);
}

static enum status
given(void *ctx, enum give kind, uint32_t index, struct str text, struct ask_msg *m)
{
	if (kind == GIVE_STATE &&
	    (index != 9 || !str_eq(text, STR("dir")) || m->fds_n != 1))
		_exit(4);
	(void)ctx;
	return ST_OK;
}

static void
committed(void *ctx, const struct image *old)
{
	say(self_of(ctx), ROW_RELOAD, NULL, old == NULL ? "first" : "next");
}

static void
sandbox(void *ctx, const struct who *w, bool present)
{
	say(self_of(ctx), present ? ROW_ATTACH : ROW_DETACH, w, "");
}

static void
drain(void *ctx, uint32_t deadline_ms, uint32_t seq)
{
	say(self_of(ctx), ROW_GATEWAY, NULL, deadline_ms == 1234 ? "drains" : "?");
	role_drained(self_of(ctx), seq);
}

NORETURN static void
be_a_role(int line)
{
	struct role_self *r = calloc(1, sizeof *r);
	struct role_hooks hooks = { .ctx = r,
				    .given = given,
				    .commit = committed,
				    .drain = drain,
				    .sandbox = sandbox };
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (r == NULL || dup2(nowhere, STDERR_FILENO) < 0 ||
	    dup2(line, ROLE_SUPER_FD) < 0)
		_exit(2);
	role_start(r, ROLE_DNS, &hooks);
	role_enter(r, NULL);
	for (;;) {
		struct pollfd p = { .fd = ROLE_SUPER_FD, .events = POLLIN };
		if (poll(&p, 1, -1) > 0 && role_heard(r) != ST_OK)
			_exit(0);
	}
}

/* Super's side. */

static int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);
	int fds[2];

	*state = s;
	s->image_fd = compile();
	s->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	assert_int_equal(rowring_create("test", &s->ring_fd), ST_OK);
	assert_int_equal(stats_create(&s->stats_fd), ST_OK);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	s->child = fork();
	assert_true(s->child >= 0);
	if (s->child == 0) {
		(void)close(fds[0]);
		be_a_role(fds[1]);
	}
	(void)close(fds[1]);
	s->line = (struct ask_end){ fds[0], ROLE_SUPER, ROLE_DNS };
	return 0;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;

	(void)close(s->line.fd);
	if (s->child > 0)
		(void)waitpid(s->child, NULL, 0);
	(void)close(s->image_fd);
	(void)close(s->ring_fd);
	(void)close(s->bell);
	(void)close(s->stats_fd);
	test_free(s);
	return 0;
}

static void
give_all(struct scene *s)
{
	int ring[] = { s->ring_fd, s->bell };

	give(s, GIVE_SLOT, 5, STR("dns.0"), NULL, 0);
	give(s, GIVE_RING, 5, STR(""), ring, 2);
	give(s, GIVE_STATS, 5, STR(""), &s->stats_fd, 1);
	give(s, GIVE_STATE, 9, STR("dir"), &s->bell, 1);
}

static void
tell_sandbox(struct scene *s, uint32_t handle, bool present)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 200);
	buf_put_u32(&b, handle);
	buf_put_u8(&b, present);
	buf_put_u64(&b, 77);
	wire_put_str(&b, STR("box"));
	wire_put_str(&b, STR("alice"));
	wire_put_str(&b, STR(""));
	wire_put_str(&b, STR(""));
	wire_put_str(&b, STR("coding"));
	buf_put_u8(&b, 1);
	buf_put_u8(&b, 0); /* no sources */
	buf_put_u8(&b, 0); /* nothing narrowed */
	wire_put_str(&b, STR(""));
	tell(s, ASK_SANDBOX, str_of(b.p, b.len), NULL, 0);
}

static struct row
next_row(struct rowring *ring, struct buf *b)
{
	struct row row = { 0 };

	assert_int_equal(rowring_next(ring, b), ST_OK);
	assert_int_equal(row_get(str_of(b->p, b->len), &row), ST_OK);
	return row;
}

static void
a_role_takes_what_it_is_given_and_a_policy_and_serves(void **state)
{
	struct scene *s = *state;
	struct rowring *ring;
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, ROW_MAX);
	give_all(s);
	take_policy(s, 1);
	tell_sandbox(s, HANDLE_ATTACHED + 1, true);
	tell(s, ASK_START, STR(""), NULL, 0);
	expect(s, ASK_START, ST_OK, 1);
	take_policy(s, 2);
	tell_sandbox(s, HANDLE_ATTACHED + 1, false);
	tell(s, ASK_DRAIN, str_of("\0\0\4\322", 4), NULL, 0);
	expect(s, ASK_DRAIN, ST_OK, 2);

	assert_int_equal(rowring_open_reader(s->ring_fd, &ring), ST_OK);
	struct row row = next_row(ring, &b);
	assert_true(row.kind == ROW_RELOAD && str_eq(row.detail, STR("first")));
	assert_int_equal(row.generation, 1);
	assert_int_equal(row.id >> 16 & 0xff, 5);
	row = next_row(ring, &b);
	assert_true(row.kind == ROW_ATTACH && str_eq(row.sandbox, STR("box")));
	assert_true(str_eq(row.user, STR("alice")));
	row = next_row(ring, &b);
	assert_true(row.kind == ROW_RELOAD && str_eq(row.detail, STR("next")));
	row = next_row(ring, &b);
	assert_true(row.kind == ROW_DETACH && str_eq(row.sandbox, STR("box")));
	row = next_row(ring, &b);
	assert_true(row.kind == ROW_GATEWAY && str_eq(row.detail, STR("drains")));
	rowring_close(ring);

	struct stats *stats;
	assert_int_equal(stats_open(s->stats_fd, false, &stats), ST_OK);
	assert_int_equal(stats_get(stats, STAT_ROWS), 5);
	stats_close(stats);
	assert_int_equal(shutdown(s->line.fd, SHUT_RDWR), 0);
	expect_exit(s, 0);
}

static void
a_policy_that_is_not_one_is_refused_and_the_old_one_stays(void **state)
{
	struct scene *s = *state;

	give_all(s);
	take_policy(s, 1);
	tell_number(s, ASK_PREPARE, 2, &s->ring_fd, 1);
	expect(s, ASK_PREPARE, ST_BAD_MESSAGE, 2);
	tell_number(s, ASK_COMMIT, 2, NULL, 0);
	expect(s, ASK_COMMIT, ST_CONFLICT, 2);
	tell(s, ASK_START, STR(""), NULL, 0);
	expect(s, ASK_START, ST_OK, 1);
}

static void
an_aborted_policy_can_not_be_committed(void **state)
{
	struct scene *s = *state;

	give_all(s);
	tell_number(s, ASK_PREPARE, 3, &s->image_fd, 1);
	expect(s, ASK_PREPARE, ST_OK, 3);
	tell_number(s, ASK_ABORT, 3, NULL, 0);
	tell_number(s, ASK_COMMIT, 3, NULL, 0);
	expect(s, ASK_COMMIT, ST_CONFLICT, 3);
	take_policy(s, 4);
}

static void
nonsense_from_super_ends_the_role(void **state)
{
	struct scene *s = *state;

	tell(s, ASK_GIVE, str_of("\377\0\0\0\0\0\0", 7), NULL, 0);
	expect_exit(s, 1);
}

static void
a_body_with_something_left_over_ends_the_role(void **state)
{
	struct scene *s = *state;

	tell(s, ASK_COMMIT, STR("123456789"), NULL, 0);
	expect_exit(s, 1);
}

static void
a_role_starts_only_once(void **state)
{
	struct scene *s = *state;

	give_all(s);
	take_policy(s, 1);
	tell(s, ASK_START, STR(""), NULL, 0);
	expect(s, ASK_START, ST_OK, 1);
	tell(s, ASK_START, STR(""), NULL, 0);
	expect_exit(s, 1);
}

static void
a_super_that_dies_before_the_start_ends_the_role_quietly(void **state)
{
	struct scene *s = *state;

	assert_int_equal(shutdown(s->line.fd, SHUT_RDWR), 0);
	expect_exit(s, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_role_takes_what_it_is_given_and_a_policy_and_serves),
		CASE(a_policy_that_is_not_one_is_refused_and_the_old_one_stays),
		CASE(an_aborted_policy_can_not_be_committed),
		CASE(nonsense_from_super_ends_the_role),
		CASE(a_body_with_something_left_over_ends_the_role),
		CASE(a_role_starts_only_once),
		CASE(a_super_that_dies_before_the_start_ends_the_role_quietly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

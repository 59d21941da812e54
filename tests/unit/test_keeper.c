#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "proxy/io/chain.h"
#include "tests/unit/super_bench.h"

struct keeper { /* the real process, in its jail */
	struct scene scene;
	struct ask_end ledger; /* the test is the ledger too */
	char path[64];
	int state;
};

NORETURN static void
exec_keeper(int line)
{
	/* A leak check would read /proc, which the jail forbids. */
	(void)setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
	/* KEEPER: where the build puts it (tests/CMakeLists.txt). */
	if (dup2(line, ROLE_SUPER_FD) == ROLE_SUPER_FD)
		(void)execl(KEEPER, "sandgate-keeper", (char *)NULL);
	_exit(2);
}

static int
give_line(struct keeper *k)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	give(&k->scene, GIVE_LINE, ROLE_LEDGER, STR("1"), &fds[1], 1);
	(void)close(fds[1]);
	return fds[0];
}

static int
set_up(void **state)
{
	struct keeper *k = test_calloc(1, sizeof *k);
	struct scene *s = &k->scene;
	int fds[2];

	*state = k;
	memcpy(k->path, "/tmp/sandgate-keeper-XXXXXX", 28);
	assert_non_null(mkdtemp(k->path));
	k->state = open(k->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	s->child = fork();
	assert_true(s->child >= 0);
	if (s->child == 0)
		exec_keeper(fds[1]);
	(void)close(fds[1]);
	s->line = (struct ask_end){ fds[0], ROLE_SUPER, ROLE_KEEPER };
	s->image_fd = compile();
	give(s, GIVE_SLOT, 1, STR("keeper"), NULL, 0);
	give(s, GIVE_STATE, 0, STR("/"), &k->state, 1);
	k->ledger = (struct ask_end){ give_line(k), ROLE_LEDGER, ROLE_KEEPER };
	take_policy(s, 1);
	tell(s, ASK_START, STR(""), NULL, 0);
	expect(s, ASK_START, ST_OK, 1);
	return 0;
}

static int
tear_down(void **state)
{
	struct keeper *k = *state;

	if (k->scene.line.fd >= 0)
		(void)close(k->scene.line.fd);
	(void)close(k->ledger.fd);
	if (k->scene.child > 0)
		expect_exit(&k->scene, 0);
	(void)close(k->scene.image_fd);
	(void)unlinkat(k->state, "keeper.key", 0);
	(void)close(k->state);
	(void)rmdir(k->path);
	test_free(k);
	return 0;
}

static void
ask_sign(struct keeper *k, uint64_t segment, const struct chain_hash *head)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 100);
	buf_put_u64(&b, segment);
	buf_put(&b, chain_str(head));
	assert_int_equal(ask_send(&k->ledger, ASK_SIGN, false, (uint32_t)segment,
				  ASK_LOAD(str_of(b.p, b.len), NULL, 0)),
			 ST_OK);
}

static void
expect_signed(struct keeper *k, uint64_t segment, const struct chain_hash *head)
{
	struct ask_msg m;

	assert_int_equal(ask_recv(&k->ledger, k->scene.space, &m), ST_OK);
	assert_true(m.is_answer);
	assert_int_equal(m.seq, segment);
	assert_int_equal(m.body.n, CHAIN_SIG + CHAIN_KEY);
	assert_true(chain_is_signed(segment, head, str_head(m.body, CHAIN_SIG),
				    str_skip(m.body, CHAIN_SIG)));
}

static void
heads_are_signed_in_the_jail(void **state)
{
	struct keeper *k = *state;
	struct chain_hash head = chain_digest(STR("x"));

	for (uint64_t i = 1; i <= 50; i++) {
		ask_sign(k, i, &head);
		expect_signed(k, i, &head);
	}
}

/* Super is gone, the ledger drains: its last place is still signed. */
static void
the_ledger_is_served_to_its_end(void **state)
{
	struct keeper *k = *state;
	struct chain_hash head = { { 9 } };

	(void)close(k->scene.line.fd);
	k->scene.line.fd = -1;
	ask_sign(k, 3, &head);
	expect_signed(k, 3, &head);
}

static void
a_ledger_that_talks_nonsense_loses_its_line_and_its_successor_is_served(void **state)
{
	struct keeper *k = *state;
	struct chain_hash head = chain_digest(STR("x"));
	struct ask_msg m;

	for (int i = 0; i < 20; i++) {
		assert_int_equal(ask_send(&k->ledger, ASK_SIGN, false, 1,
					  ASK_LOAD(STR("short"), NULL, 0)),
				 ST_OK);
		assert_int_equal(ask_recv(&k->ledger, k->scene.space, &m), ST_END);
		(void)close(k->ledger.fd);
		k->ledger.fd = give_line(k);
		ask_sign(k, 2, &head);
		expect_signed(k, 2, &head);
	}
}

static void
a_ledger_that_asks_too_often_loses_its_line(void **state)
{
	struct keeper *k = *state;
	struct chain_hash head = chain_digest(STR("x"));
	struct ask_msg m;
	unsigned signatures = 0;
	enum status st;

	for (uint64_t i = 1; i <= 270; i++)
		ask_sign(k, i, &head);
	while ((st = ask_recv(&k->ledger, k->scene.space, &m)) == ST_OK)
		signatures++;
	assert_int_equal(st, ST_END);
	assert_in_range(signatures, 200, 269);
}

static void
nobody_else_is_served(void **state)
{
	struct keeper *k = *state;
	struct ask_end worker = { -1, ROLE_WORKER, ROLE_KEEPER };
	struct ask_msg m;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	give(&k->scene, GIVE_LINE, ROLE_WORKER, STR("1"), &fds[1], 1);
	(void)close(fds[1]);
	worker.fd = fds[0];
	assert_int_equal(ask_recv(&worker, k->scene.space, &m), ST_END);
	(void)close(fds[0]);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(heads_are_signed_in_the_jail),
		CASE(the_ledger_is_served_to_its_end),
		CASE(a_ledger_that_talks_nonsense_loses_its_line_and_its_successor_is_served),
		CASE(a_ledger_that_asks_too_often_loses_its_line),
		CASE(nobody_else_is_served),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "approval_bench.h"

#include <netinet/in.h>

#include "proxy/control/approval_in.h"

/* HOLD, over a line. */

enum { NUL_TEXT = 99 };

struct worker {
	struct ask_end end;
	struct ask_line *line;
	char space[ASK_BODY_MAX + 8];
};

static void
line_heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct scene *s = ctx;

	assert_true(m->ask == ASK_HOLD || m->ask == ASK_HOLD_CALL);
	approvals_heard(&s->c, line, m);
}

static void
line_lost(void *ctx, struct ask_line *line, enum status why)
{
	struct scene *s = ctx;

	(void)why;
	approvals_line_lost(&s->c, line);
	ask_line_free(line);
}

static void
connect_worker(struct scene *s, struct worker *w)
{
	struct ask_end end = { -1, ROLE_CONTROL, ROLE_WORKER };
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair),
			 0);
	w->end = (struct ask_end){ pair[0], ROLE_WORKER, ROLE_CONTROL };
	end.fd = pair[1];
	assert_int_equal(
		ask_line_new(s->c.loop, &end, line_heard, line_lost, s, &w->line),
		ST_OK);
}

static void
hold(struct worker *w, uint32_t seq, uint64_t ticket, uint8_t text)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct hold_wish wish = { .ticket = ticket,
				  .level = 2,
				  .what = STR("command"),
				  .why = STR("risk.yaml:1: it removes files"),
				  .text = text == NUL_TEXT ? STR("rm\0-rf")
							   : STR("rm -rf /data") };

	wish.hash[0] = text;
	buf_init(&b, 8192);
	hold_wish_put(&b, &wish);
	assert_int_equal(ask_send(&w->end, ASK_HOLD, false, seq,
				  ASK_LOAD(str_of(b.p, b.len), NULL, 0)),
			 ST_OK);
}

static enum status
hear(struct worker *w, uint32_t seq, uint64_t *ret_id)
{
	struct ask_msg m;

	assert_int_equal(ask_recv(&w->end, w->space, &m), ST_OK);
	assert_int_equal(m.seq, seq);
	struct wire wire = wire_from(m.body);
	uint16_t st = wire_u16(&wire);
	*ret_id = wire_u64(&wire);
	(void)wire_str(&wire);
	assert_int_equal(wire_end(&wire), ST_OK);
	return (enum status)st;
}

static void
a_worker_waits_for_its_ticket(void **state)
{
	struct scene *s = *state;
	struct worker w;
	uint64_t id = 0, told = 0;

	connect_worker(s, &w);
	hold(&w, 1, 1, 1);
	run(s, 20);
	assert_int_equal(s->all->waiting_n, 1);
	id = 1;
	assert_int_equal(decide(s, id, APPROVAL_ALLOWED, "alice", APPROVAL_ONCE),
			 ST_OK);
	run(s, 20);
	assert_int_equal(hear(&w, 1, &told), ST_OK);
	assert_int_equal(told, id);
	/* A ticket that isn't open, or none. */
	hold(&w, 2, 11, 1);
	run(s, 20);
	assert_int_equal(hear(&w, 2, &told), ST_NOT_FOUND);
	hold(&w, 3, 0, 1);
	run(s, 20);
	assert_int_equal(hear(&w, 3, &told), ST_BAD_MESSAGE);
	hold(&w, 5, 1, NUL_TEXT);
	run(s, 20);
	assert_int_equal(hear(&w, 5, &told), ST_BAD_MESSAGE);
	/* The user is the ticket's, whatever a worker says: alice's own is hers. */
	hold(&w, 4, 10, 1);
	run(s, 20);
	assert_int_equal(decide(s, 2, APPROVAL_ALLOWED, "alice", APPROVAL_ONCE),
			 ST_APPROVAL_OWN);
	(void)close(w.end.fd);
	run(s, 20);
}

static void
leaving_a_ticket_cancels_what_it_waits_for(void **state)
{
	struct scene *s = *state;
	struct worker w;
	uint64_t told = 0;

	connect_worker(s, &w);
	hold(&w, 1, 1, 1);
	hold(&w, 2, 2, 2);
	run(s, 20);
	approvals_left(&s->c, w.line, 1);
	approvals_left(&s->c, w.line, 7);
	approvals_left(&s->c, NULL, 2); /* of another line */
	assert_int_equal(state_of(s, 1), APPROVAL_CANCELLED);
	assert_int_equal(state_of(s, 2), APPROVAL_PENDING);
	run(s, 20);
	assert_int_equal(hear(&w, 1, &told), ST_CLIENT_GONE);
	(void)close(w.end.fd);
	run(s, 20);
	assert_int_equal(state_of(s, 2), APPROVAL_CANCELLED);
	assert_int_equal(s->all->waiting_n, 0);
}

static void
control_may_end_while_workers_wait(void **state)
{
	struct scene *s = *state;
	struct worker w;

	connect_worker(s, &w);
	hold(&w, 1, 1, 1);
	run(s, 20);
	approvals_close(s->all);
	assert_int_equal(approvals_open(&s->c, s->db, whose, &s->all), ST_OK);
	assert_int_equal(state_of(s, 1), APPROVAL_CANCELLED);
	ask_line_free(w.line);
	(void)close(w.end.fd);
}

/* HOLD_CALL: whose it is, the socket says. */

static const char calls_config[] =
	"resolver: {servers: [192.0.2.1]}\n"
	"policies: {p: {allow: []}}\n"
	"sandboxes:\n"
	"  - {id: box, source: 127.0.0.1, user: bob, tenant: t, "
	"session: s1, policy: p}\n"
	"  - {id: bare, source: 127.0.0.2, policy: p}\n"
	"exec: {approval_timeout: 1s}\n";

/* A connection from 127.0.0.n, as it was accepted. */
static int
socket_from(uint8_t n)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in from = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(0x7f000000 + n) };
	socklen_t size = sizeof at;
	int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int there = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(door, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(listen(door, 1), 0);
	assert_int_equal(getsockname(door, (struct sockaddr *)&at, &size), 0);
	assert_int_equal(bind(there, (struct sockaddr *)&from, sizeof from), 0);
	assert_int_equal(connect(there, (struct sockaddr *)&at, sizeof at), 0);
	int here = accept(door, NULL, NULL);
	assert_true(here >= 0);
	(void)close(door);
	(void)close(there);
	return here;
}

static void
hold_call(struct worker *w, uint32_t seq, const char *what, uint8_t from)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct hold_wish wish = { .ticket = seq,
				  .level = 2,
				  .what = str_from(what),
				  .why = STR("p.yaml:1: a host"),
				  .text = STR("a.test:443") };
	int fd = from == 0 ? -1 : socket_from(from);

	buf_init(&b, 8192);
	hold_wish_put(&b, &wish);
	assert_int_equal(ask_send(&w->end, ASK_HOLD_CALL, false, seq,
				  ASK_LOAD(str_of(b.p, b.len), &fd, from == 0 ? 0 : 1)),
			 ST_OK);
	if (fd >= 0)
		(void)close(fd);
}

static void
use_calls(struct scene *s)
{
	image_close(s->c.role.image);
	s->c.role.image = make_image(calls_config);
	assert_int_equal(who_new(&s->c.role.who), ST_OK);
	assert_int_equal(who_set_image(s->c.role.who, s->c.role.image), ST_OK);
}

static void
a_sandbox_is_who_its_socket_says(void **state)
{
	struct scene *s = *state;
	struct worker w;
	uint64_t told = 0;

	use_calls(s);
	connect_worker(s, &w);
	hold_call(&w, 1, "host", 0);
	run(s, 20);
	assert_int_equal(hear(&w, 1, &told), ST_UNKNOWN_SANDBOX);
	hold_call(&w, 2, "host", 9);
	run(s, 20);
	assert_int_equal(hear(&w, 2, &told), ST_UNKNOWN_SANDBOX);
	hold_call(&w, 3, "host", 1);
	run(s, 20);
	assert_int_equal(decide(s, 1, APPROVAL_ALLOWED, "bob", APPROVAL_ALWAYS),
			 ST_APPROVAL_OWN);
	assert_int_equal(decide(s, 1, APPROVAL_ALLOWED, "alice", APPROVAL_ALWAYS),
			 ST_OK);
	run(s, 20);
	assert_int_equal(hear(&w, 3, &told), ST_OK);
	/* Granted to bob's sandboxes, and to no other. */
	hold_call(&w, 4, "host", 1);
	run(s, 20);
	assert_int_equal(hear(&w, 4, &told), ST_OK);
	assert_int_equal(told, 1);
	hold_call(&w, 5, "host", 2);
	run(s, 20);
	assert_int_equal(s->all->waiting_n, 1);
	approvals_left(&s->c, w.line, 5);
	run(s, 20);
	assert_int_equal(hear(&w, 5, &told), ST_CLIENT_GONE);
	(void)close(w.end.fd);
	run(s, 20);
	who_free(s->c.role.who);
}

static void
what_is_used_for_the_first_time_is_asked_once(void **state)
{
	struct scene *s = *state;
	struct worker w;
	uint64_t told = 0;

	use_calls(s);
	connect_worker(s, &w);
	hold_call(&w, 1, "host", 1);
	hold_call(&w, 2, "host", 1);
	hold_call(&w, 3, "host", 2);
	hold_call(&w, 4, "request", 1);
	hold_call(&w, 5, "request", 1);
	run(s, 20);
	assert_int_equal(s->all->waiting_n, 4);
	/* The first goes, the one that follows waits on. */
	approvals_left(&s->c, w.line, 1);
	run(s, 20);
	assert_int_equal(hear(&w, 1, &told), ST_CLIENT_GONE);
	assert_int_equal(state_of(s, 1), APPROVAL_PENDING);
	hold_call(&w, 6, "host", 1);
	run(s, 20);
	assert_int_equal(decide(s, 1, APPROVAL_ALLOWED, "alice", APPROVAL_ONCE), ST_OK);
	run(s, 20);
	assert_int_equal(hear(&w, 2, &told), ST_OK);
	assert_int_equal(hear(&w, 6, &told), ST_OK);
	hold_call(&w, 7, "host", 1);
	hold_call(&w, 8, "host", 1);
	run(s, 20);
	approvals_left(&s->c, w.line, 7);
	approvals_left(&s->c, w.line, 8);
	assert_int_equal(state_of(s, 5), APPROVAL_CANCELLED);
	(void)close(w.end.fd);
	run(s, 20);
	assert_int_equal(s->all->waiting_n, 0);
	assert_true(list_is_empty(&s->all->holds));
	who_free(s->c.role.who);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_worker_waits_for_its_ticket),
		TEST(leaving_a_ticket_cancels_what_it_waits_for),
		TEST(control_may_end_while_workers_wait),
		TEST(a_sandbox_is_who_its_socket_says),
		TEST(what_is_used_for_the_first_time_is_asked_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

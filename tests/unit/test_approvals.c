#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "make_image.h"
#include "proxy/control/approval_in.h"
#include "proxy/control/brain_schema.h"
#include "proxy/io/place.h"
#include "proxy/io/rowring.h"

static const char config[] = "state_dir: /tmp\n"
			     "resolver: {servers: [\"127.0.0.1\"]}\n"
			     "exec: {approval_timeout: 1s}\n";

struct scene {
	struct control c;
	struct approvals *all;
	sqlite3 *db;
	int ring_fd, bell;
	struct rowring *rows;
	struct loop_timer stop;
	/* What somebody who waits was told last. */
	int told;
	enum status st;
	uint64_t id;
	char by[64];
};

static void
on_stop(void *ctx)
{
	struct scene *s = ctx;

	loop_stop(s->c.loop);
}

/* Tickets 1 to 9 are bob's in session s1; 10 is alice's; of others nobody knows. */
static bool
whose(struct control *c, const struct ask_line *line, uint64_t ticket,
      struct approval_wish *ret_w)
{
	(void)c;
	(void)line;
	if (ticket > 10)
		return false;
	*ret_w = (struct approval_wish){ .tenant = STR("t"),
					 .user = ticket == 10 ? STR("alice")
							      : STR("bob"),
					 .session = STR("s1"),
					 .sandbox = STR("sb-1") };
	return true;
}

static int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);

	assert_int_equal(sql_open_writer(":memory:", &s->db), ST_OK);
	for (size_t i = 0; i < COUNT_OF(brain_schema); i++)
		assert_int_equal(sql_exec(s->db, brain_schema[i]), ST_OK);
	assert_int_equal(loop_new(&s->c.loop), ST_OK);
	s->c.role.image = make_image(config);
	s->c.role.log = (struct log){ "control", LOG_ERROR };
	s->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	assert_int_equal(rowring_create("test", &s->ring_fd), ST_OK);
	assert_int_equal(rowring_open_writer(s->ring_fd, s->bell, &s->c.role.ring),
			 ST_OK);
	assert_int_equal(rowring_open_reader(s->ring_fd, &s->rows), ST_OK);
	loop_timer_init(&s->stop, s->c.loop, on_stop, s);
	assert_int_equal(approvals_open(&s->c, s->db, whose, &s->all), ST_OK);
	*state = s;
	return 0;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;

	approvals_close(s->all);
	assert_null(s->c.approvals);
	loop_timer_clear(&s->stop);
	loop_free(s->c.loop);
	image_close(s->c.role.image);
	rowring_close(s->c.role.ring);
	rowring_close(s->rows);
	(void)close(s->ring_fd);
	(void)close(s->bell);
	assert_int_equal(sqlite3_close(s->db), SQLITE_OK);
	test_free(s);
	return 0;
}

static void
run(struct scene *s, uint64_t ms)
{
	loop_timer_set(&s->stop, ms);
	loop_run(s->c.loop);
}

static void
on_told(void *ctx, const struct approval_told *t)
{
	struct scene *s = ctx;

	s->told++;
	s->st = t->st;
	s->id = t->id;
	(void)snprintf(s->by, sizeof s->by, "%.*s", STR_ARG(t->by));
}

static struct approval_wish
wish_of(const char *user, uint8_t text)
{
	struct approval_wish w = { .tenant = STR("t"),
				   .user = str_from(user),
				   .session = STR("s1"),
				   .sandbox = STR("sb-1"),
				   .what = STR("command"),
				   .text = STR("curl -u a:topsecret1 https://x.test"),
				   .level = 2 };

	w.hash[0] = text;
	return w;
}

static struct approval *
begin(struct scene *s, const char *user, uint8_t text)
{
	struct approval_wish w = wish_of(user, text);
	struct approval *a = NULL;

	assert_int_equal(approvals_begin(&s->c, &w, on_told, s, &a), ST_OK);
	assert_non_null(a);
	return a;
}

static enum status
decide(struct scene *s, uint64_t id, enum approval_state to, const char *by,
       enum approval_scope scope)
{
	const struct approval_end e = { .state = to,
					.scope = scope,
					.by = str_from(by),
					.now_s = approvals_now_s(),
					.expires_s = approvals_now_s() + 100 };

	return approvals_decide(s->all, id, &e);
}

static bool
copy_state(void *ctx, const struct approval_row *r)
{
	*(enum approval_state *)ctx = r->state;
	return true;
}

static enum approval_state
state_of(struct scene *s, uint64_t id)
{
	enum approval_state st = APPROVAL_STATES;

	assert_int_equal(approval_store_find(s->all->store, id, copy_state, &st),
			 ST_OK);
	return st;
}

/* The next row is of an approval, with this reason and these words. */
static void
expect_row(struct scene *s, enum status reason, const char *word)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct row r;

	buf_init(&b, ROW_MAX);
	assert_int_equal(rowring_next(s->rows, &b), ST_OK);
	assert_int_equal(row_get(str_of(b.p, b.len), &r), ST_OK);
	rowring_advance(s->rows);
	assert_int_equal(r.kind, ROW_APPROVAL);
	assert_int_equal(r.reason, reason);
	assert_non_null(memmem(r.exec.p, r.exec.n, word, strlen(word)));
	assert_null(memmem(r.exec.p, r.exec.n, "topsecret1", 10));
	assert_true(str_eq(r.sandbox, STR("sb-1")));
}

static void
somebody_else_allows_it_once(void **state)
{
	struct scene *s = *state;
	uint64_t id = approval_id(begin(s, "bob", 1));

	assert_int_equal(state_of(s, id), APPROVAL_PENDING);
	expect_row(s, ST_AGAIN, "\"state\":\"pending\"");
	assert_int_equal(decide(s, id, APPROVAL_ALLOWED, "alice", APPROVAL_ONCE),
			 ST_OK);
	assert_int_equal(s->told, 1);
	assert_int_equal(s->st, ST_OK);
	assert_int_equal(s->id, id);
	assert_string_equal(s->by, "alice");
	expect_row(s, ST_OK, "\"by\":\"alice\"");
	assert_int_equal(decide(s, id, APPROVAL_DENIED, "alice", APPROVAL_ONCE),
			 ST_CONFLICT);
	run(s, 1500);
	assert_int_equal(s->told, 1);
	assert_int_equal(state_of(s, id), APPROVAL_ALLOWED);
	assert_int_not_equal(approval_id(begin(s, "bob", 1)), 0);
}

static void
a_denial_is_told(void **state)
{
	struct scene *s = *state;
	uint64_t id = approval_id(begin(s, "bob", 1));

	assert_int_equal(decide(s, id, APPROVAL_DENIED, "alice", APPROVAL_ONCE), ST_OK);
	assert_int_equal(s->st, ST_APPROVAL_DENIED);
	assert_int_equal(state_of(s, id), APPROVAL_DENIED);
}

static void
nobody_decides_on_their_own_whatever_the_letters(void **state)
{
	struct scene *s = *state;
	struct approval_wish w = wish_of("robot", 2);
	struct approval *a = NULL;
	uint64_t own = approval_id(begin(s, "alice", 1));

	w.on_behalf_of = STR("alice");
	assert_int_equal(approvals_begin(&s->c, &w, on_told, s, &a), ST_OK);
	for (int to = APPROVAL_ALLOWED; to <= APPROVAL_DENIED; to++) {
		enum approval_state st = (enum approval_state)to;
		assert_int_equal(decide(s, own, st, "alice", APPROVAL_ONCE),
				 ST_APPROVAL_OWN);
		assert_int_equal(decide(s, own, st, "ALICE", APPROVAL_ONCE),
				 ST_APPROVAL_OWN);
		assert_int_equal(decide(s, approval_id(a), st, "alice", APPROVAL_ONCE),
				 ST_APPROVAL_OWN);
	}
	assert_int_equal(s->told, 0);
	assert_int_equal(state_of(s, own), APPROVAL_PENDING);
	assert_int_equal(decide(s, own, APPROVAL_ALLOWED, "carol", APPROVAL_ONCE),
			 ST_OK);
}

static void
nobody_in_time_is_a_denial(void **state)
{
	struct scene *s = *state;
	uint64_t id = approval_id(begin(s, "bob", 1));

	run(s, 1500);
	assert_int_equal(s->told, 1);
	assert_int_equal(s->st, ST_APPROVAL_EXPIRED);
	assert_int_equal(state_of(s, id), APPROVAL_EXPIRED);
	expect_row(s, ST_AGAIN, "pending");
	expect_row(s, ST_APPROVAL_EXPIRED, "\"state\":\"expired\"");
	assert_int_equal(decide(s, id, APPROVAL_ALLOWED, "alice", APPROVAL_ONCE),
			 ST_CONFLICT);
}

static void
who_no_longer_waits_is_not_told(void **state)
{
	struct scene *s = *state;
	struct approval *a = begin(s, "bob", 1);
	uint64_t id = approval_id(a);

	approval_drop(a);
	assert_int_equal(state_of(s, id), APPROVAL_CANCELLED);
	expect_row(s, ST_AGAIN, "pending");
	expect_row(s, ST_CLIENT_GONE, "cancelled");
	run(s, 1200);
	assert_int_equal(s->told, 0);
	assert_int_equal(decide(s, id, APPROVAL_ALLOWED, "alice", APPROVAL_ONCE),
			 ST_CONFLICT);
	assert_int_equal(decide(s, 777, APPROVAL_ALLOWED, "alice", APPROVAL_ONCE),
			 ST_NOT_FOUND);
	assert_int_equal(decide(s, 0, APPROVAL_ALLOWED, "alice", APPROVAL_ONCE),
			 ST_NOT_FOUND);
}

static void
a_grant_lets_the_same_text_pass_unasked(void **state)
{
	struct scene *s = *state;
	uint64_t id = approval_id(begin(s, "bob", 1));

	assert_int_equal(decide(s, id, APPROVAL_ALLOWED, "alice", APPROVAL_SESSION),
			 ST_OK);
	assert_int_equal(s->told, 1);
	assert_int_equal(approval_id(begin(s, "bob", 1)), 0);
	assert_int_equal(s->told, 1); /* never from inside */
	run(s, 20);
	assert_int_equal(s->told, 2);
	assert_int_equal(s->st, ST_OK);
	assert_int_equal(s->id, id);
	assert_string_equal(s->by, "alice");
	/* Dropped before it is told: nobody hears of it. */
	approval_drop(begin(s, "bob", 1));
	run(s, 20);
	assert_int_equal(s->told, 2);
	assert_int_not_equal(approval_id(begin(s, "bob", 2)), 0);
	assert_int_not_equal(approval_id(begin(s, "eve", 1)), 0);
	begin(s, "bob", 1); /* and closed before it is told */
}

static void
so_many_wait_in_a_tenant_and_no_more(void **state)
{
	struct scene *s = *state;
	struct approval *a = NULL, *last = NULL;

	for (int i = 0; i < APPROVALS_TENANT_MAX; i++)
		last = begin(s, "bob", 1);
	struct approval_wish w = wish_of("carol", 1);
	assert_int_equal(approvals_begin(&s->c, &w, on_told, s, &a),
			 ST_LIMIT_APPROVALS);
	w.tenant = STR("another");
	assert_int_equal(approvals_begin(&s->c, &w, on_told, s, &a), ST_OK);
	approval_drop(last);
	w.tenant = STR("t");
	assert_int_equal(approvals_begin(&s->c, &w, on_told, s, &a), ST_OK);
}

static void
so_many_wait_in_all_and_no_more(void **state)
{
	struct scene *s = *state;
	struct approval *a = NULL;
	struct approval_wish w = wish_of("bob", 1);
	char tenant[8];

	for (int i = 0; i < APPROVALS_MAX; i++) {
		(void)snprintf(tenant, sizeof tenant, "t%d", i / 100);
		w.tenant = str_from(tenant);
		assert_int_equal(approvals_begin(&s->c, &w, on_told, s, &a), ST_OK);
	}
	w.tenant = STR("fresh");
	assert_int_equal(approvals_begin(&s->c, &w, on_told, s, &a),
			 ST_LIMIT_APPROVALS);
}

static void
without_a_ledger_nothing_is_asked_or_allowed(void **state)
{
	struct scene *s = *state;
	uint64_t id = approval_id(begin(s, "bob", 1));
	struct approval_wish w = wish_of("bob", 2);
	struct approval *a = NULL;
	struct rowring *ring = s->c.role.ring;

	s->c.role.ring = NULL;
	assert_int_equal(decide(s, id, APPROVAL_ALLOWED, "alice", APPROVAL_ALWAYS),
			 ST_NO_LEDGER);
	assert_int_equal(s->told, 0);
	assert_int_equal(state_of(s, id), APPROVAL_PENDING);
	assert_int_equal(approvals_begin(&s->c, &w, on_told, s, &a), ST_NO_LEDGER);
	s->c.role.ring = ring;
	assert_int_equal(decide(s, id, APPROVAL_ALLOWED, "alice", APPROVAL_ONCE),
			 ST_OK);
}

/* HOLD, over a line. */

struct worker {
	struct ask_end end;
	struct ask_line *line;
	char space[ASK_BODY_MAX + 8];
};

static void
line_heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct scene *s = ctx;

	assert_int_equal(m->ask, ASK_HOLD);
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
				  .text = STR("rm -rf /data") };

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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(somebody_else_allows_it_once),
		TEST(a_denial_is_told),
		TEST(nobody_decides_on_their_own_whatever_the_letters),
		TEST(nobody_in_time_is_a_denial),
		TEST(who_no_longer_waits_is_not_told),
		TEST(a_grant_lets_the_same_text_pass_unasked),
		TEST(so_many_wait_in_a_tenant_and_no_more),
		TEST(so_many_wait_in_all_and_no_more),
		TEST(without_a_ledger_nothing_is_asked_or_allowed),
		TEST(a_worker_waits_for_its_ticket),
		TEST(leaving_a_ticket_cancels_what_it_waits_for),
		TEST(control_may_end_while_workers_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

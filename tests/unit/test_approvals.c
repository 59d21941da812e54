#include "approval_bench.h"

#include "proxy/control/approval_in.h"

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

static bool
look_for_more(void *ctx, const struct approval_row *r)
{
	const char *more = memmem(r->wish.text.p, r->wish.text.n, "there is more", 13);

	assert_true(r->wish.text.n <= APPROVALS_TEXT_MAX);
	*(bool *)ctx = more != NULL;
	return true;
}

static void
what_is_not_shown_is_said_to_be_there(void **state)
{
	struct scene *s = *state;
	struct approval_wish w = wish_of("bob", 1);
	struct approval *a = NULL;
	bool has_more = false;
	char text[APPROVALS_TEXT_MAX + 10];

	memset(text, 'x', sizeof text);
	const size_t sizes[] = { APPROVALS_TEXT_MAX - 4, APPROVALS_TEXT_MAX - 3,
				 APPROVALS_TEXT_MAX, sizeof text };
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		w.text = str_of(text, sizes[i]);
		assert_int_equal(approvals_begin(&s->c, &w, on_told, s, &a), ST_OK);
		assert_int_equal(approval_store_find(s->all->store, approval_id(a),
						     look_for_more, &has_more),
				 ST_OK);
		assert_int_equal(has_more, i > 0);
	}
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
so_many_wait_of_a_user_and_in_a_tenant_and_no_more(void **state)
{
	struct scene *s = *state;
	struct approval *a = NULL, *last = NULL;

	for (int i = 0; i < APPROVALS_USER_MAX; i++)
		last = begin(s, "bob", 1);
	struct approval_wish w = wish_of("bob", 1);
	assert_int_equal(approvals_begin(&s->c, &w, on_told, s, &a),
			 ST_LIMIT_APPROVALS);
	for (int i = APPROVALS_USER_MAX; i < APPROVALS_TENANT_MAX; i++)
		last = begin(s, ((const char *[]){ "eve", "dan", "fay" })[i % 3], 1);
	w = wish_of("carol", 1);
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
	char tenant[16], user[16];

	for (int i = 0; i < APPROVALS_MAX; i++) {
		(void)snprintf(tenant, sizeof tenant, "t%d", i / 100);
		(void)snprintf(user, sizeof user, "u%d", i % 10);
		w.tenant = str_from(tenant);
		w.user = str_from(user);
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(somebody_else_allows_it_once),
		TEST(a_denial_is_told),
		TEST(what_is_not_shown_is_said_to_be_there),
		TEST(nobody_decides_on_their_own_whatever_the_letters),
		TEST(nobody_in_time_is_a_denial),
		TEST(who_no_longer_waits_is_not_told),
		TEST(a_grant_lets_the_same_text_pass_unasked),
		TEST(so_many_wait_of_a_user_and_in_a_tenant_and_no_more),
		TEST(so_many_wait_in_all_and_no_more),
		TEST(without_a_ledger_nothing_is_asked_or_allowed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/control/approval_store.c"
#include "proxy/control/brain_schema.h"

static sqlite3 *
open_db(void)
{
	sqlite3 *db = NULL;

	assert_int_equal(sql_open_writer(":memory:", &db), ST_OK);
	for (size_t i = 0; i < COUNT_OF(brain_schema); i++)
		assert_int_equal(sql_exec(db, brain_schema[i]), ST_OK);
	return db;
}

struct scene {
	sqlite3 *db;
	struct approval_store *s;
};

static int
set_up(void **state)
{
	struct scene *w = test_calloc(1, sizeof *w);

	w->db = open_db();
	assert_int_equal(approval_store_open(w->db, 1000, &w->s), ST_OK);
	*state = w;
	return 0;
}

static int
tear_down(void **state)
{
	struct scene *w = *state;

	approval_store_close(w->s);
	assert_int_equal(sqlite3_close(w->db), SQLITE_OK);
	test_free(w);
	return 0;
}

static struct approval_wish
wish_of(const char *user, const char *session, uint8_t text)
{
	struct approval_wish w = { .tenant = STR("t"),
				   .user = str_from(user),
				   .agent = STR("coder"),
				   .session = str_from(session),
				   .sandbox = STR("sb-1"),
				   .what = STR("command"),
				   .why = STR("risk.yaml:3: removes files"),
				   .text = STR("rm -rf /data"),
				   .level = 2 };

	w.hash[0] = text;
	return w;
}

static uint64_t
add(struct approval_store *s, const struct approval_wish *w)
{
	uint64_t id = 0;

	assert_int_equal(approval_store_add(s, w, 1000, 1600, &id), ST_OK);
	assert_true(id > 0);
	return id;
}

static enum status
decide(struct approval_store *s, uint64_t id, enum approval_state to,
       enum approval_scope scope)
{
	struct approval_end e = { .state = to,
				  .scope = scope,
				  .by = STR("alice"),
				  .note = STR("fine"),
				  .now_s = 1100,
				  .expires_s = 2000 };

	return approval_store_decide(s, id, &e);
}

static bool
copy_state(void *ctx, const struct approval_row *r)
{
	*(enum approval_state *)ctx = r->state;
	return true;
}

static enum approval_state
state_of(struct approval_store *s, uint64_t id)
{
	enum approval_state st = APPROVAL_STATES;

	assert_int_equal(approval_store_find(s, id, copy_state, &st), ST_OK);
	return st;
}

static bool
look_at_all(void *ctx, const struct approval_row *r)
{
	struct approval_wish w = wish_of("bob", "s1", 7);

	assert_int_equal(r->id, *(uint64_t *)ctx);
	assert_true(str_eq(r->wish.user, w.user) && str_eq(r->wish.text, w.text) &&
		    str_eq(r->wish.why, w.why) && str_eq(r->wish.what, w.what) &&
		    str_eq(r->wish.session, w.session) &&
		    str_eq(r->wish.sandbox, w.sandbox) &&
		    str_eq(r->wish.agent, w.agent) && str_eq(r->wish.tenant, w.tenant));
	assert_memory_equal(r->wish.hash, w.hash, 32);
	assert_int_equal(r->wish.level, 2);
	assert_int_equal(r->asked_s, 1000);
	assert_int_equal(r->deadline_s, 1600);
	assert_int_equal(r->state, APPROVAL_PENDING);
	*(uint64_t *)ctx = 0;
	return true;
}

static void
what_was_asked_comes_back_as_it_was(void **state)
{
	struct scene *w = *state;
	struct approval_wish bob = wish_of("bob", "s1", 7);
	uint64_t id = add(w->s, &bob);

	assert_int_equal(approval_store_find(w->s, id, look_at_all, &id), ST_OK);
	assert_int_equal(id, 0);
	assert_int_equal(approval_store_find(w->s, 99, look_at_all, &id), ST_NOT_FOUND);
	assert_int_equal(approval_store_find(w->s, UINT64_MAX, look_at_all, &id),
			 ST_NOT_FOUND);
}

static void
what_is_decided_stays_so(void **state)
{
	struct scene *w = *state;
	struct approval_wish bob = wish_of("bob", "s1", 7);

	for (int to = APPROVAL_ALLOWED; to < APPROVAL_STATES; to++) {
		uint64_t id = add(w->s, &bob);
		assert_int_equal(
			decide(w->s, id, (enum approval_state)to, APPROVAL_ONCE),
			ST_OK);
		for (int other = APPROVAL_ALLOWED; other < APPROVAL_STATES; other++)
			assert_int_equal(decide(w->s, id, (enum approval_state)other,
						APPROVAL_ONCE),
					 ST_CONFLICT);
		assert_int_equal(state_of(w->s, id), to);
	}
	assert_int_equal(decide(w->s, 999, APPROVAL_ALLOWED, APPROVAL_ONCE),
			 ST_CONFLICT);
}

static void
the_table_itself_lets_nobody_allow_their_own(void **state)
{
	struct scene *w = *state;
	struct approval_wish own = wish_of("alice", "s1", 7);
	struct approval_wish theirs = wish_of("robot", "s1", 7);

	theirs.on_behalf_of = STR("alice");
	uint64_t a = add(w->s, &own), b = add(w->s, &theirs);
	assert_int_not_equal(decide(w->s, a, APPROVAL_ALLOWED, APPROVAL_ONCE), ST_OK);
	assert_int_not_equal(decide(w->s, b, APPROVAL_ALLOWED, APPROVAL_ONCE), ST_OK);
	assert_int_equal(state_of(w->s, a), APPROVAL_PENDING);
	assert_int_equal(state_of(w->s, b), APPROVAL_PENDING);
}

static bool
is_covered(struct approval_store *s, const struct approval_wish *w, uint64_t now_s)
{
	struct approval_cover c = { 0 };
	enum status st = approval_store_covered(s, w, now_s, &c);

	assert_true(st == ST_OK || st == ST_NOT_FOUND);
	if (st == ST_OK)
		assert_true(str_eq(str_of(c.by, c.by_n), STR("alice")));
	return st == ST_OK;
}

static void
once_lets_nothing_else_pass(void **state)
{
	struct scene *w = *state;
	struct approval_wish bob = wish_of("bob", "s1", 7);

	assert_int_equal(decide(w->s, add(w->s, &bob), APPROVAL_ALLOWED, APPROVAL_ONCE),
			 ST_OK);
	assert_false(is_covered(w->s, &bob, 1200));
	/* A denial makes no grant, whatever scope stands beside it. */
	assert_int_equal(
		decide(w->s, add(w->s, &bob), APPROVAL_DENIED, APPROVAL_ALWAYS), ST_OK);
	assert_false(is_covered(w->s, &bob, 1200));
}

static void
a_session_grant_is_for_the_same_text_in_the_same_session(void **state)
{
	struct scene *w = *state;
	struct approval_wish bob = wish_of("bob", "s1", 7), other;

	assert_int_equal(
		decide(w->s, add(w->s, &bob), APPROVAL_ALLOWED, APPROVAL_SESSION),
		ST_OK);
	assert_true(is_covered(w->s, &bob, 1999));
	assert_false(is_covered(w->s, &bob, 2000));
	other = wish_of("bob", "s2", 7);
	assert_false(is_covered(w->s, &other, 1200));
	other = wish_of("bob", "", 7);
	assert_false(is_covered(w->s, &other, 1200));
	other = wish_of("bob", "s1", 8);
	assert_false(is_covered(w->s, &other, 1200));
	other = wish_of("carol", "s1", 7);
	assert_false(is_covered(w->s, &other, 1200));
	other = bob;
	other.tenant = STR("u");
	assert_false(is_covered(w->s, &other, 1200));
	other = bob;
	other.what = STR("code");
	assert_false(is_covered(w->s, &other, 1200));
	other = bob;
	other.on_behalf_of = STR("dave");
	assert_false(is_covered(w->s, &other, 1200));
	other = bob;
	other.sandbox = STR("sb-2"); /* sandboxes come and go within a session */
	assert_true(is_covered(w->s, &other, 1200));
}

static void
an_always_grant_is_for_every_session_until_it_is_revoked(void **state)
{
	struct scene *w = *state;
	struct approval_wish bob = wish_of("bob", "s1", 7), other;
	struct approval_cover c = { 0 };

	assert_int_equal(
		decide(w->s, add(w->s, &bob), APPROVAL_ALLOWED, APPROVAL_ALWAYS),
		ST_OK);
	other = wish_of("bob", "", 7);
	assert_true(is_covered(w->s, &other, 1200));
	assert_int_equal(approval_store_covered(w->s, &bob, 1200, &c), ST_OK);
	assert_int_equal(c.approval, 1);
	assert_int_equal(approval_store_revoke(w->s, 1, 1300), ST_OK);
	assert_int_equal(approval_store_revoke(w->s, 1, 1300), ST_NOT_FOUND);
	assert_int_equal(approval_store_revoke(w->s, UINT64_MAX, 1300), ST_NOT_FOUND);
	assert_false(is_covered(w->s, &other, 1400));
}

static void
a_session_grant_needs_a_session(void **state)
{
	struct scene *w = *state;
	struct approval_wish bob = wish_of("bob", "", 7);
	uint64_t id = add(w->s, &bob);

	assert_int_equal(approval_store_begin(w->s), ST_OK);
	enum status st = decide(w->s, id, APPROVAL_ALLOWED, APPROVAL_SESSION);
	assert_int_not_equal(st, ST_OK);
	assert_int_equal(approval_store_end(w->s, st), st);
	assert_int_equal(state_of(w->s, id), APPROVAL_PENDING);
}

static void
what_was_pending_is_cancelled_by_a_restart(void **state)
{
	struct scene *w = *state;
	struct approval_wish bob = wish_of("bob", "s1", 7);
	uint64_t id = add(w->s, &bob), n = 0;

	assert_int_equal(approval_store_pending(w->s, STR("t"), &n), ST_OK);
	assert_int_equal(n, 1);
	approval_store_close(w->s);
	assert_int_equal(approval_store_open(w->db, 3000, &w->s), ST_OK);
	assert_int_equal(state_of(w->s, id), APPROVAL_CANCELLED);
	assert_int_equal(approval_store_pending(w->s, STR("t"), &n), ST_OK);
	assert_int_equal(n, 0);
}

static void
pending_ones_are_counted_by_tenant(void **state)
{
	struct scene *w = *state;
	struct approval_wish bob = wish_of("bob", "s1", 7);
	uint64_t n = 9;

	add(w->s, &bob);
	add(w->s, &bob);
	bob.tenant = STR("");
	add(w->s, &bob);
	assert_int_equal(approval_store_pending(w->s, STR("t"), &n), ST_OK);
	assert_int_equal(n, 2);
	assert_int_equal(approval_store_pending(w->s, STR(""), &n), ST_OK);
	assert_int_equal(n, 1);
	assert_int_equal(approval_store_pending(w->s, STR("x"), &n), ST_OK);
	assert_int_equal(n, 0);
}

static bool
count_rows(void *ctx, const struct approval_row *r)
{
	(void)r;
	return ++*(int *)ctx < 3;
}

static bool
count_grants(void *ctx, const struct approval_grant *g)
{
	assert_true(str_eq(g->by, STR("alice")) && str_eq(g->user, STR("bob")));
	assert_true(g->scope == APPROVAL_SESSION ? str_eq(g->session, STR("s1"))
						 : g->session.n == 0);
	++*(int *)ctx;
	return true;
}

static void
lists_show_what_is_pending_or_all_and_stop_when_told(void **state)
{
	struct scene *w = *state;
	struct approval_wish bob = wish_of("bob", "s1", 7);
	int n = 0;

	assert_int_equal(
		decide(w->s, add(w->s, &bob), APPROVAL_ALLOWED, APPROVAL_ALWAYS),
		ST_OK);
	assert_int_equal(
		decide(w->s, add(w->s, &bob), APPROVAL_ALLOWED, APPROVAL_SESSION),
		ST_OK);
	add(w->s, &bob);
	assert_int_equal(approval_store_each(w->s, false, count_rows, &n), ST_OK);
	assert_int_equal(n, 1);
	add(w->s, &bob);
	n = 0;
	assert_int_equal(approval_store_each(w->s, true, count_rows, &n), ST_OK);
	assert_int_equal(n, 3);
	n = 0;
	assert_int_equal(approval_store_grants(w->s, 1200, count_grants, &n), ST_OK);
	assert_int_equal(n, 2);
	n = 0;
	assert_int_equal(approval_store_grants(w->s, 2000, count_grants, &n), ST_OK);
	assert_int_equal(n, 0);
}

static void
what_ended_long_ago_is_forgotten(void **state)
{
	struct scene *w = *state;
	struct approval_wish bob = wish_of("bob", "s1", 7);
	uint64_t old = add(w->s, &bob);
	enum approval_state st = APPROVAL_STATES;

	assert_int_equal(decide(w->s, old, APPROVAL_ALLOWED, APPROVAL_ALWAYS), ST_OK);
	approval_store_close(w->s);
	assert_int_equal(approval_store_open(w->db, 1100 + KEEP_S + 1, &w->s), ST_OK);
	assert_int_equal(approval_store_find(w->s, old, copy_state, &st), ST_NOT_FOUND);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_was_asked_comes_back_as_it_was),
		TEST(what_is_decided_stays_so),
		TEST(the_table_itself_lets_nobody_allow_their_own),
		TEST(once_lets_nothing_else_pass),
		TEST(a_session_grant_is_for_the_same_text_in_the_same_session),
		TEST(an_always_grant_is_for_every_session_until_it_is_revoked),
		TEST(a_session_grant_needs_a_session),
		TEST(what_was_pending_is_cancelled_by_a_restart),
		TEST(pending_ones_are_counted_by_tenant),
		TEST(lists_show_what_is_pending_or_all_and_stop_when_told),
		TEST(what_ended_long_ago_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

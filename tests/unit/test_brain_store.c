/* Whose sandbox is whose: what the store gives, and what its tables refuse. */
#include "tests/unit/brain_bench.h"

#include <fcntl.h>
#include <string.h>

#include "proxy/base/clock.h"

static void
assert_str(struct str got, const char *want)
{
	if (!str_eq(got, str_from(want)))
		fail_msg("%.*s is not %s", STR_ARG(got), want);
}

/* Claims. */

static void
a_claim_is_placed_made_and_found_by_its_owner_alone(void **state)
{
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "");
	const struct brain_owner ann = bench_owner("ann"), bob = bench_owner("bob"),
				 other = { STR("other"), STR("ann") };
	struct brain_sandbox x = bench_take(b, &c, BRAIN_NEW);

	assert_int_equal(x.id.n, BRAIN_ID);
	assert_true(str_starts(x.id, STR("sb-")));
	assert_int_equal(x.state, BRAIN_PLACING);
	assert_int_equal(x.upstream.n, 0);
	assert_str(x.request, "{\"image\":1}");
	assert_int_equal(brain_store_made(b->s, x.id, STR("standard"), STR("u1"), 7),
			 ST_OK);
	assert_int_equal(brain_store_find(b->s, &ann, x.id, &b->a, &x), ST_OK);
	assert_int_equal(x.state, BRAIN_RUNNING);
	assert_str(x.upstream, "u1");
	assert_str(x.agent, "coder");
	assert_int_equal(x.expires_s, 7);
	assert_int_equal(brain_store_find(b->s, &bob, x.id, &b->a, &x), ST_NOT_FOUND);
	assert_int_equal(brain_store_find(b->s, &other, x.id, &b->a, &x), ST_NOT_FOUND);
	assert_int_equal(
		brain_store_by_upstream(b->s, STR("standard"), STR("u1"), &b->a, &x),
		ST_OK);
	assert_int_equal(
		brain_store_by_upstream(b->s, STR("high"), STR("u1"), &b->a, &x),
		ST_NOT_FOUND);
}

static void
the_same_session_and_shape_get_the_same_and_others_do_not(void **state)
{
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "s1");
	struct brain_sandbox x = bench_take(b, &c, BRAIN_NEW), y;

	y = bench_take(b, &c, BRAIN_EXISTING);
	assert_true(str_eq(x.id, y.id));
	c.shape = STR("other");
	(void)bench_take(b, &c, BRAIN_NEW);
	c = bench_claim("ann", "s2");
	(void)bench_take(b, &c, BRAIN_NEW);
	c = bench_claim("bob", "s1");
	(void)bench_take(b, &c, BRAIN_NEW);
	c = bench_claim("ann", "s1");
	c.owner.tenant = STR("other");
	(void)bench_take(b, &c, BRAIN_NEW);
	c = bench_claim("ann", "s1");
	c.tier = 1;
	(void)bench_take(b, &c, BRAIN_NEW);
	c = bench_claim("ann", "s1");
	c.reuse = BRAIN_REUSE_TASK;
	(void)bench_take(b, &c, BRAIN_NEW);
	c = bench_claim("ann", "s1");
	assert_int_equal(brain_store_state(b->s, x.id, BRAIN_KILLING, BENCH_NOW),
			 ST_OK);
	y = bench_take(b, &c, BRAIN_NEW);
	assert_false(str_eq(x.id, y.id));
}

static void
one_that_has_expired_is_not_given_again_but_killed(void **state)
{
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "s1");
	struct brain_sandbox x = bench_take(b, &c, BRAIN_NEW);

	c.now_s = x.expires_s - 1;
	c.expires_s = c.now_s + 3600;
	(void)bench_take(b, &c, BRAIN_EXISTING);
	c.now_s = x.expires_s;
	struct brain_sandbox y = bench_take(b, &c, BRAIN_NEW);
	assert_false(str_eq(x.id, y.id));
	assert_int_equal(bench_get(b, x.id).state, BRAIN_KILLING);
}

static void
a_warm_one_is_given_once(void **state)
{
	struct bench *b = *state;
	struct str warm = bench_warm(b, "w1");
	struct brain_claim c = bench_claim("ann", "");
	uint64_t n;

	assert_int_equal(brain_store_warm_count(b->s, STR("5a5a"), 0, BENCH_NOW, &n),
			 ST_OK);
	assert_int_equal(n, 1);
	c.tier = 1;
	(void)bench_take(b, &c, BRAIN_NEW);
	c.tier = 0;
	c.may_be_warm = false;
	(void)bench_take(b, &c, BRAIN_NEW);
	c.may_be_warm = true;
	struct brain_sandbox x = bench_take(b, &c, BRAIN_WARM);
	assert_true(str_eq(x.id, warm));
	assert_int_equal(x.state, BRAIN_PLACING);
	assert_str(x.upstream, "w1");
	assert_str(x.owner.user, "ann");
	assert_int_equal(x.created_s, BENCH_NOW);
	assert_int_equal(x.expires_s, BENCH_NOW + 3600);
	(void)bench_take(b, &c, BRAIN_NEW);
	c = bench_claim("bob", "");
	(void)bench_take(b, &c, BRAIN_NEW);
	assert_int_equal(brain_store_warm_count(b->s, STR("5a5a"), 0, BENCH_NOW, &n),
			 ST_OK);
	assert_int_equal(n, 0);
	assert_int_equal(brain_store_state(b->s, x.id, BRAIN_RUNNING, BENCH_NOW),
			 ST_OK);
}

static void
a_warm_one_that_is_not_ready_or_has_expired_is_not_given(void **state)
{
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "");
	const struct brain_warm w = { .server = STR("standard"),
				      .shape = STR("5a5a"),
				      .now_s = BENCH_NOW };
	struct str id;

	assert_int_equal(brain_store_warm_add(b->s, &w, &b->a, &id), ST_OK);
	(void)bench_take(b, &c, BRAIN_NEW);
	assert_int_equal(
		brain_store_made(b->s, id, STR("standard"), STR("w1"), BENCH_NOW),
		ST_OK);
	(void)bench_take(b, &c, BRAIN_NEW);
	assert_int_equal(brain_store_state(b->s, id, BRAIN_PAUSED, BENCH_NOW),
			 ST_CONFLICT);
	c.now_s = BENCH_NOW - 1;
	(void)bench_take(b, &c, BRAIN_WARM);
}

static void
a_repeated_request_gets_what_it_got(void **state)
{
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "");
	struct brain_sandbox x, y;
	enum brain_claimed how;

	c.idempotency = STR("key-1");
	c.idempotency_expires_s = BENCH_NOW + 100;
	x = bench_take(b, &c, BRAIN_NEW);
	y = bench_take(b, &c, BRAIN_REPEATED);
	assert_true(str_eq(x.id, y.id));
	c.request_hash[0] = 1;
	assert_int_equal(brain_store_claim(b->s, &c, &b->a, &y, &how), ST_CONFLICT);
	c.owner = bench_owner("bob");
	(void)bench_take(b, &c, BRAIN_NEW);
	c.owner = bench_owner("ann");
	c.request_hash[0] = 0;
	assert_int_equal(brain_store_gone(b->s, x.id, BENCH_NOW), ST_OK);
	assert_int_equal(bench_take(b, &c, BRAIN_REPEATED).state, BRAIN_GONE);
	c.now_s = BENCH_NOW + 100;
	y = bench_take(b, &c, BRAIN_NEW);
	assert_false(str_eq(x.id, y.id));
}

static void
what_failed_is_made_anew_by_a_repeated_request(void **state)
{
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "");

	c.idempotency = STR("key-1");
	c.idempotency_expires_s = BENCH_NOW + 100;
	struct brain_sandbox x = bench_take(b, &c, BRAIN_NEW);
	assert_int_equal(brain_store_state(b->s, x.id, BRAIN_FAILED, BENCH_NOW), ST_OK);
	struct brain_sandbox y = bench_take(b, &c, BRAIN_NEW);
	assert_false(str_eq(x.id, y.id));
	assert_true(str_eq(y.id, bench_take(b, &c, BRAIN_REPEATED).id));
}

static void
nobody_owns_nothing(void **state)
{
	struct bench *b = *state;
	struct brain_claim c = bench_claim("", "s1");
	const struct brain_owner nobody = bench_owner("");
	struct brain_sandbox x;
	enum brain_claimed how;

	struct str warm = bench_warm(b, "w1");
	assert_int_equal(brain_store_claim(b->s, &c, &b->a, &x, &how), ST_CONFLICT);
	c.may_be_warm = false;
	assert_int_equal(brain_store_claim(b->s, &c, &b->a, &x, &how), ST_CONFLICT);
	assert_int_equal(brain_store_find(b->s, &nobody, warm, &b->a, &x),
			 ST_NOT_FOUND);
	c = bench_claim("ann", "");
	c.reuse_key = STR("key of none");
	assert_int_equal(brain_store_claim(b->s, &c, &b->a, &x, &how), ST_CONFLICT);
}

/* States. */

static void
states_change_only_as_drawn(void **state)
{
	/* Rows: from; a letter for each state that may follow. */
	static const char *const may[BRAIN_STATES] = {
		[BRAIN_PLACING] = ".PR..KFG",  [BRAIN_PENDING] = "P....KFG",
		[BRAIN_RUNNING] = "...P.KFG",  [BRAIN_PAUSED] = "..R..KFG",
		[BRAIN_SNAPSHOT] = ".....KFG", [BRAIN_KILLING] = ".......G",
		[BRAIN_FAILED] = ".....K.G",   [BRAIN_GONE] = "........",
	};
	struct bench *b = *state;
	char query[128];

	for (unsigned from = 0; from < BRAIN_STATES; from++) {
		for (unsigned to = 0; to < BRAIN_STATES; to++) {
			struct brain_claim c = bench_claim("ann", "");
			struct brain_sandbox x;
			(void)snprintf(query, sizeof query, "w%u-%u", from, to);
			(void)bench_warm(b, query);
			x = bench_take(b, &c, BRAIN_WARM);
			(void)snprintf(
				query, sizeof query,
				"UPDATE sandboxes SET snapshot = x'41', state = %u"
				" WHERE id = CAST('%.*s' AS BLOB)",
				from, STR_ARG(x.id));
			assert_int_equal(sql_exec(brain_store_db(b->s), query), ST_OK);
			assert_int_equal(brain_store_state(b->s, x.id,
							   (enum brain_state)to,
							   BENCH_NOW + 5),
					 may[from][to] == '.' ? ST_CONFLICT : ST_OK);
		}
	}
	assert_int_equal(
		brain_store_state(b->s, STR("sb-no"), BRAIN_KILLING, BENCH_NOW),
		ST_NOT_FOUND);
}

static void
times_and_costs_are_kept(void **state)
{
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "");
	const struct brain_cost cost = { 1, 2, 3, 4, { true, UINT64_MAX } },
				none = { 1, 2, 3, 4, { 0 } };
	struct brain_sandbox x = bench_take(b, &c, BRAIN_NEW);

	assert_int_equal(brain_store_made(b->s, x.id, STR("standard"), STR("u"), 0),
			 ST_OK);
	assert_int_equal(brain_store_touch(b->s, x.id, BENCH_NOW + 5), ST_OK);
	assert_int_equal(brain_store_touch(b->s, x.id, BENCH_NOW + 3), ST_OK);
	assert_int_equal(bench_get(b, x.id).used_s, BENCH_NOW + 5);
	assert_int_equal(brain_store_state(b->s, x.id, BRAIN_PAUSED, BENCH_NOW + 9),
			 ST_OK);
	assert_int_equal(bench_get(b, x.id).paused_s, BENCH_NOW + 9);
	assert_int_equal(brain_store_state(b->s, x.id, BRAIN_RUNNING, BENCH_NOW + 20),
			 ST_OK);
	assert_int_equal(bench_get(b, x.id).paused_s, 0);
	assert_int_equal(bench_get(b, x.id).used_s, BENCH_NOW + 20);
	assert_int_equal(brain_store_expires(b->s, x.id, 77), ST_OK);
	assert_int_equal(brain_store_cost(b->s, x.id, &cost), ST_OK);
	assert_int_equal(brain_store_policy(b->s, x.id, STR("{\"p\":1}")), ST_OK);
	assert_int_equal(brain_store_endpoints(b->s, x.id, STR("[]")), ST_OK);
	x = bench_get(b, x.id);
	assert_int_equal(x.expires_s, 77);
	assert_int_equal(x.cost.resume_ms, 3);
	assert_int_equal(x.cost.snapshot_ms, 4);
	assert_true(x.cost.freed.is_known);
	assert_int_equal(x.cost.freed.octets, INT64_MAX);
	assert_int_equal(brain_store_cost(b->s, x.id, &none), ST_OK);
	assert_false(bench_get(b, x.id).cost.freed.is_known);
	assert_str(x.policy, "{\"p\":1}");
	assert_str(x.endpoints, "[]");
	assert_int_equal(brain_store_gone(b->s, x.id, BENCH_NOW + 30), ST_OK);
	assert_int_equal(brain_store_gone(b->s, x.id, BENCH_NOW + 31), ST_OK);
	assert_int_equal(bench_get(b, x.id).gone_s, BENCH_NOW + 30);
}

static void
a_snapshot_comes_back_as_another_upstream_and_the_old_one_stays_its_owners(void **state)
{
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "s1");
	struct brain_sandbox x = bench_take(b, &c, BRAIN_NEW), y;

	assert_int_equal(brain_store_made(b->s, x.id, STR("standard"), STR("u1"), 0),
			 ST_OK);
	assert_int_equal(brain_store_frozen(b->s, x.id, STR(""), BENCH_NOW),
			 ST_CONFLICT);
	assert_int_equal(brain_store_frozen(b->s, x.id, STR("snap"), BENCH_NOW), ST_OK);
	assert_int_equal(brain_store_frozen(b->s, x.id, STR("snap"), BENCH_NOW),
			 ST_CONFLICT);
	y = bench_take(b, &c, BRAIN_EXISTING);
	assert_int_equal(y.state, BRAIN_SNAPSHOT);
	assert_str(y.snapshot, "snap");
	assert_int_equal(brain_store_made(b->s, x.id, STR("standard"), STR("u2"), 0),
			 ST_OK);
	assert_str(bench_get(b, x.id).upstream, "u2");
	/* u1 is no row's any more, and still is Ann's. */
	const struct brain_warm w = { .server = STR("standard"),
				      .shape = STR("5a5a"),
				      .now_s = BENCH_NOW };
	struct str id;
	assert_int_equal(brain_store_warm_add(b->s, &w, &b->a, &id), ST_OK);
	assert_int_equal(brain_store_made(b->s, id, STR("standard"), STR("u1"), 0),
			 ST_CONFLICT);
	assert_int_equal(bench_get(b, id).state, BRAIN_PLACING);
	c = bench_claim("bob", "");
	x = bench_take(b, &c, BRAIN_NEW);
	assert_int_equal(brain_store_made(b->s, x.id, STR("standard"), STR("u1"), 0),
			 ST_CONFLICT);
	assert_int_equal(brain_store_made(b->s, x.id, STR("high"), STR("u1"), 0),
			 ST_OK);
}

static void
what_was_killed_while_it_was_made_is_told_and_still_known(void **state)
{
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "");
	struct brain_sandbox x = bench_take(b, &c, BRAIN_NEW);

	assert_int_equal(brain_store_state(b->s, x.id, BRAIN_KILLING, BENCH_NOW),
			 ST_OK);
	assert_int_equal(brain_store_made(b->s, x.id, STR("standard"), STR("u1"), 0),
			 ST_CONFLICT);
	x = bench_get(b, x.id);
	assert_int_equal(x.state, BRAIN_KILLING);
	assert_str(x.upstream, "u1");
	x = bench_take(b, &c, BRAIN_NEW);
	assert_int_equal(brain_store_made(b->s, x.id, STR("standard"), STR("u2"), 0),
			 ST_OK);
	assert_int_equal(brain_store_made(b->s, x.id, STR("standard"), STR("u3"), 0),
			 ST_CONFLICT);
	assert_str(bench_get(b, x.id).upstream, "u2");
	assert_int_equal(
		brain_store_made(b->s, STR("sb-no"), STR("standard"), STR("u9"), 0),
		ST_NOT_FOUND);
}

/* What no code of ours does. */

static const char *const bad_changes[] = {
	"UPDATE sandboxes SET user = x'42'",
	"UPDATE sandboxes SET tenant = x'42'",
	"UPDATE sandboxes SET user = NULL, tenant = NULL",
	"UPDATE sandboxes SET user = NULL, tenant = NULL, reuse = 0, reuse_key "
	"= x'',"
	" upstream = NULL, state = 0",
	"UPDATE owned SET user = x'42'",
	"DELETE FROM owned",
	"DELETE FROM sandboxes",
	"INSERT INTO owned SELECT server, upstream, tenant, x'42', 1 FROM "
	"owned",
	"UPDATE sandboxes SET upstream = x'99'",
	"UPDATE sandboxes SET id = zeroblob(29)",
	"UPDATE sandboxes SET upstream = NULL",
	"UPDATE sandboxes SET state = 8",
	"UPDATE sandboxes SET state = 4",
	"UPDATE sandboxes SET tier = 2",
	"UPDATE sandboxes SET reuse = 0",
	"UPDATE sandboxes SET state = 'running'",
	/* its upstream again, as a warm one and as another's */
	"INSERT INTO sandboxes(id, server, upstream, agent, session, task,"
	" on_behalf_of, tier, state, reuse, reuse_key, shape, created_s, "
	"expires_s,"
	" used_s, request) SELECT zeroblob(29), server, upstream, x'', x'', "
	"x'', x'',"
	" 0, 2, 0, x'', shape, 1, 1, 1, x'' FROM sandboxes",
	"INSERT INTO sandboxes(id, server, upstream, tenant, user, agent, "
	"session,"
	" task, on_behalf_of, tier, state, reuse, reuse_key, shape, created_s,"
	" expires_s, used_s, request) SELECT zeroblob(29), server, upstream, "
	"tenant,"
	" x'42', x'', x'', x'', x'', 0, 2, 0, x'', shape, 1, 1, 1, x''"
	" FROM sandboxes",
};

static void
the_tables_refuse_what_would_give_a_sandbox_away(void **state)
{
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "s1");
	struct brain_sandbox x = bench_take(b, &c, BRAIN_NEW);

	assert_int_equal(brain_store_made(b->s, x.id, STR("standard"), STR("u1"), 0),
			 ST_OK);
	for (size_t i = 0; i < COUNT_OF(bad_changes); i++) {
		if (sql_exec(brain_store_db(b->s), bad_changes[i]) == ST_OK)
			fail_msg("%s", bad_changes[i]);
	}
	bench_check(brain_store_db(b->s));
	assert_int_equal(brain_store_gone(b->s, x.id, BENCH_NOW), ST_OK);
	assert_true(sql_exec(brain_store_db(b->s), "UPDATE sandboxes SET state = 2") !=
		    ST_OK);
	/* Neither as a warm one when its row is forgotten. */
	assert_int_equal(brain_store_forget(b->s, BENCH_NOW, BENCH_NOW + 1), ST_OK);
	assert_int_equal(brain_store_forget(b->s, BENCH_NOW, BENCH_NOW + 1), ST_END);
	assert_int_equal(brain_store_find_any(b->s, x.id, &b->a, &x), ST_NOT_FOUND);
	const struct brain_warm w = { .server = STR("standard"), .shape = STR("5a5a") };
	struct str id;
	assert_int_equal(brain_store_warm_add(b->s, &w, &b->a, &id), ST_OK);
	assert_int_equal(brain_store_made(b->s, id, STR("standard"), STR("u1"), 0),
			 ST_CONFLICT);
}

static void
a_key_keeps_its_owner_and_an_approval_its_end(void **state)
{
	static const char *const good[] = {
		"INSERT INTO keys(id, hash, tenant, user, agent, scopes, may_delegate,"
		" created_s) VALUES(x'41', zeroblob(32), x'', x'41', x'', 1, 0, 1)",
		"UPDATE keys SET last_used_s = 5",
		"UPDATE keys SET revoked_s = 5",
		"INSERT INTO approvals(id, tenant, user, agent, on_behalf_of, session,"
		" sandbox, what, why, text, level, hash, asked_s, deadline_s) "
		"VALUES(1, x'',"
		" x'41', x'', x'42', x'', x'', x'', x'', x'', 2, zeroblob(32), 1, 2)",
	};
	static const char *const bad[] = {
		"UPDATE keys SET revoked_s = 0",
		"UPDATE keys SET user = x'42'",
		"UPDATE approvals SET state = 1",
		"UPDATE approvals SET state = 1, decided_by = x'41'",
		"UPDATE approvals SET state = 1, decided_by = x'42'",
	};
	struct bench *b = *state;
	sqlite3 *db = brain_store_db(b->s);

	for (size_t i = 0; i < COUNT_OF(good); i++)
		if (sql_exec(db, good[i]) != ST_OK)
			fail_msg("%s: %s", good[i], sqlite3_errmsg(db));
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		if (sql_exec(db, bad[i]) == ST_OK)
			fail_msg("%s", bad[i]);
	assert_int_equal(
		sql_exec(db, "UPDATE approvals SET state = 1, decided_by = x'43'"),
		ST_OK);
	assert_true(sql_exec(db, "UPDATE approvals SET state = 2") != ST_OK);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_up, bench_down)
	const struct CMUnitTest tests[] = {
		TEST(a_claim_is_placed_made_and_found_by_its_owner_alone),
		TEST(the_same_session_and_shape_get_the_same_and_others_do_not),
		TEST(one_that_has_expired_is_not_given_again_but_killed),
		TEST(a_warm_one_is_given_once),
		TEST(a_warm_one_that_is_not_ready_or_has_expired_is_not_given),
		TEST(a_repeated_request_gets_what_it_got),
		TEST(what_failed_is_made_anew_by_a_repeated_request),
		TEST(nobody_owns_nothing),
		TEST(states_change_only_as_drawn),
		TEST(times_and_costs_are_kept),
		TEST(a_snapshot_comes_back_as_another_upstream_and_the_old_one_stays_its_owners),
		TEST(what_was_killed_while_it_was_made_is_told_and_still_known),
		TEST(the_tables_refuse_what_would_give_a_sandbox_away),
		TEST(a_key_keeps_its_owner_and_an_approval_its_end),
	};

	return cmocka_run_group_tests_name("brain_store", tests, NULL, NULL);
}

/* More sandboxes than one page of rows, or of a server's list, holds. */
#include "tests/unit/brain_age.h"

/* Whole pages of what was not used for long. */
static void
plant_unused(struct world *w, int n)
{
	static const char *const texts[] = {
		"WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE"
		" i < ?1) INSERT INTO owned SELECT CAST('one' AS BLOB),"
		" CAST('u-' || i AS BLOB), x'62', x'61', 1 FROM x",
		"WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE"
		" i < ?1) INSERT INTO sandboxes(id, server, upstream, tenant, user,"
		" agent, session, task, on_behalf_of, tier, state, reuse, reuse_key,"
		" shape, created_s, expires_s, used_s, request)"
		" SELECT CAST(printf('sb-%026d', i) AS BLOB), CAST('one' AS BLOB),"
		" CAST('u-' || i AS BLOB), x'62', x'61', x'', x'', x'', x'', 0, 2, 0,"
		" x'', x'00', 1, 0, ?2 + i, x'' FROM x",
	};

	for (size_t i = 0; i < COUNT_OF(texts); i++) {
		CLEANUP(sql_done) sqlite3_stmt *q = NULL;

		assert_int_equal(sql_prepare(brain_store_db(w->bench.s), texts[i], &q),
				 ST_OK);
		sql_u64(q, 1, (uint64_t)n);
		if (i == 1)
			sql_u64(q, 2, brain_now_s() - 2000);
		assert_int_equal(sql_run(q), ST_OK);
	}
}

static void
what_cannot_sleep_does_not_keep_others_awake(void **state)
{
	struct world *w = *state;

	plant_unused(w, 260);
	w->http = 501;
	w->says = "{\"code\":\"X\",\"message\":\"y\"}";
	for (int i = 0; i < 40; i++)
		look(w);
	/* Each was tried, and none again at once. */
	assert_int_equal(w->calls_n, 260);
}

/* Of more than one page of rows. */
static void
all_servers_of_ones_own_are_found(void **state)
{
	struct world *w = *state;
	const struct brain_owner o = { STR("b"), STR("a") };
	const struct brain_owner other = { STR("b"), STR("c") };
	struct str names[4];
	size_t n = 9;

	plant_unused(w, 260);
	assert_int_equal(
		sql_exec(brain_store_db(w->bench.s),
			 "INSERT INTO owned VALUES(x'74', x'75', x'62', x'61', "
			 "1); UPDATE sandboxes SET server = x'74', upstream = "
			 "x'75' WHERE upstream = CAST('u-260' AS BLOB)"),
		ST_OK);
	assert_int_equal(brain_store_servers(w->bench.s, &o, &w->bench.a, names, 4, &n),
			 ST_OK);
	assert_int_equal(n, 2);
	assert_true(str_eq(names[0], STR("one")) && str_eq(names[1], STR("t")));
	assert_int_equal(
		brain_store_servers(w->bench.s, &other, &w->bench.a, names, 4, &n),
		ST_OK);
	assert_int_equal(n, 0);
}

static void
a_server_that_says_one_sandbox_often_spoils_no_list(void **state)
{
	struct world *w = *state;
	CLEANUP(buf_done) struct buf says = { 0 };
	char *id = world_create(w, ALICE);
	struct fake_answer *f;

	buf_init(&says, 1 << 22);
	buf_put(&says, STR("{\"items\":["));
	for (int i = 0; i < 60000; i++)
		buf_putf(&says, "{\"id\":\"%s\"},", w->boxes[0].id);
	buf_put(&says, STR("{}],\"pagination\":{\"hasNextPage\":true}}"));
	w->http = 200;
	w->says = buf_cstr(&says);
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_LIST, "", ""));
	assert_int_equal(f->a.kind, PLACE_ANSWER);
	assert_int_equal(f->a.http, 200);
	free(id);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_WORLD(what_cannot_sleep_does_not_keep_others_awake),
		WITH_WORLD(all_servers_of_ones_own_are_found),
		WITH_WORLD(a_server_that_says_one_sandbox_often_spoils_no_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

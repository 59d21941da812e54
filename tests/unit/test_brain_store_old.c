/* A file of the version before becomes one of ours, or stays what it was. */
#include "tests/unit/brain_bench.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "proxy/control/brain_schema.h"

/* As version 1 had them: from the same text, with a column of then for those that came since. */
static void
make_old(const char *path)
{
	static const char now[] = " snapshot_ms INTEGER NOT NULL DEFAULT 0,"
				  " freed INTEGER CHECK(freed >= 0),",
			  then[] = " freed INTEGER NOT NULL DEFAULT 0,";
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	for (size_t i = 0; i < COUNT_OF(brain_schema); i++) {
		char *text = strdup(brain_schema[i]);
		char *at = strstr(text, now);

		if (at != NULL) {
			memcpy(at, then, sizeof then - 1);
			memmove(at + sizeof then - 1, at + sizeof now - 1,
				strlen(at + sizeof now - 1) + 1);
		}
		assert_int_equal(sql_exec(db, text), ST_OK);
		free(text);
	}
	assert_int_equal(sql_exec(db,
				  "PRAGMA user_version=1; INSERT INTO keys(id, hash,"
				  " tenant, user, agent, scopes, may_delegate,"
				  " created_s) VALUES(x'31', zeroblob(32), x'',"
				  " x'61', x'', 0, 0, 1)"),
			 ST_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* Of nobody; the number says which, and what it has as freed was never checked. */
static void
add_old(const char *path, int n)
{
	char text[1024];

	(void)snprintf(
		text, sizeof text,
		"WITH RECURSIVE i(n) AS (VALUES(0) UNION ALL SELECT n + 1 FROM i"
		" WHERE n < %d) INSERT INTO sandboxes(id, server, agent, session,"
		" task, on_behalf_of, tier, state, reuse, reuse_key, shape,"
		" created_s, expires_s, used_s, request, freed)"
		" SELECT CAST(printf('sbx%%026d', n) AS BLOB), x'61', x'', x'', x'',"
		" x'', 0, 0, 0, x'', x'61', 1, 2, 3, zeroblob(500),"
		" CASE n %% 3 WHEN 0 THEN -7 WHEN 1 THEN 9223372036854775807"
		" ELSE -9223372036854775808 END FROM i",
		n - 1);
	bench_sql(path, text);
}

static void
assert_old_rows(struct bench *b, int n)
{
	assert_int_equal(brain_store_open(b->path, &b->s), ST_OK);
	struct sqlite3 *db = brain_store_db(b->s);
	assert_int_equal(bench_number(db, "SELECT count(*) FROM sandboxes WHERE freed"
					  " IS NULL AND snapshot_ms = 0"),
			 n);
	struct brain_sandbox x = bench_get(b, STR("sbx00000000000000000000000001"));
	assert_false(x.cost.freed.is_known);
	assert_int_equal(x.used_s, 3);
	assert_int_equal(x.request.n, 500);
}

static void
begin_old(struct bench *b)
{
	brain_store_close(b->s);
	b->s = NULL;
	bench_remove(b->path, "");
	bench_remove(b->path, "-wal");
	bench_remove(b->path, "-shm");
	make_old(b->path);
}

static void
a_file_of_the_version_before_is_taken_over_whole(void **state)
{
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "");
	const struct brain_cost cost = { .snapshot_ms = 7 };

	begin_old(b);
	assert_int_equal(brain_store_open(b->path, &b->s), ST_OK);
	struct brain_sandbox x = bench_take(b, &c, BRAIN_NEW);
	assert_int_equal(brain_store_cost(b->s, x.id, &cost), ST_OK);
	bench_again(b);
	assert_int_equal(bench_get(b, x.id).cost.snapshot_ms, 7);
	assert_int_equal(
		bench_number(brain_store_db(b->s), "SELECT count(*) FROM keys"), 1);
}

static void
one_of_the_version_before_that_has_more_is_not_touched(void **state)
{
	struct bench *b = *state;
	sqlite3 *db = NULL;

	begin_old(b);
	bench_sql(b->path,
		  "CREATE TRIGGER t AFTER INSERT ON keys BEGIN DELETE FROM keys; "
		  "END");
	bench_damaged(b);
	assert_int_equal(sqlite3_open(b->path, &db), SQLITE_OK);
	assert_int_equal(bench_number(db, "PRAGMA user_version"), 1);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void
what_sandboxes_of_the_version_before_had_as_freed_goes(void **state)
{
	struct bench *b = *state;

	begin_old(b);
	add_old(b->path, 300);
	assert_old_rows(b, 300);
}

static void
one_that_finds_no_room_to_be_taken_over_stays_as_it_was(void **state)
{
	struct bench *b = *state;
	struct rlimit was, full = { 128 * 1024, 0 };
	sqlite3 *db = NULL;

	begin_old(b);
	add_old(b->path, 300);
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	full.rlim_max = was.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
	enum status st = brain_store_open(b->path, &b->s);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_int_not_equal(st, ST_OK);
	assert_int_not_equal(st, ST_STORE_DAMAGED);
	assert_null(b->s);
	assert_int_equal(sqlite3_open(b->path, &db), SQLITE_OK);
	assert_int_equal(bench_number(db, "PRAGMA user_version"), 1);
	assert_int_equal(bench_number(db, "SELECT count(*) FROM sandboxes"), 300);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	assert_old_rows(b, 300);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_up, bench_down)
	const struct CMUnitTest tests[] = {
		TEST(a_file_of_the_version_before_is_taken_over_whole),
		TEST(one_of_the_version_before_that_has_more_is_not_touched),
		TEST(what_sandboxes_of_the_version_before_had_as_freed_goes),
		TEST(one_that_finds_no_room_to_be_taken_over_stays_as_it_was),
	};

	return cmocka_run_group_tests_name("brain_store_old", tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/io/sql.h"

static int
set_up(void **state)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
	assert_int_equal(sql_exec(db, "CREATE TABLE t(v INTEGER UNIQUE)"), ST_OK);
	*state = db;
	return 0;
}

static int
tear_down(void **state)
{
	return sqlite3_close(*state);
}

static uint64_t
rows_in(sqlite3 *db)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;

	assert_int_equal(sql_prepare(db, "SELECT count(*) FROM t", &q), ST_OK);
	assert_int_equal(sql_next(q), ST_OK);
	return sql_get_u64(q, 0);
}

static void
what_went_well_is_kept_and_of_all_else_nothing(void **state)
{
	sqlite3 *db = *state;

	assert_int_equal(sql_begin(db), ST_OK);
	assert_int_equal(sql_end(db, sql_exec(db, "INSERT INTO t VALUES(1)")), ST_OK);
	assert_int_equal(rows_in(db), 1);
	assert_int_equal(sql_begin(db), ST_OK);
	assert_int_equal(sql_exec(db, "INSERT INTO t VALUES(2)"), ST_OK);
	assert_int_equal(sql_end(db, ST_CONFLICT), ST_CONFLICT);
	assert_int_equal(rows_in(db), 1);
	assert_int_equal(sqlite3_get_autocommit(db), 1);
}

/* As after a full disk. */
static void
what_was_taken_back_already_is_no_other_failure(void **state)
{
	sqlite3 *db = *state;

	assert_int_equal(sql_begin(db), ST_OK);
	assert_int_not_equal(sql_exec(db, "INSERT INTO t VALUES(1);"
					  "INSERT OR ROLLBACK INTO t VALUES(1)"),
			     ST_OK);
	assert_int_equal(sqlite3_get_autocommit(db), 1);
	assert_int_equal(sql_end(db, ST_CONFLICT), ST_CONFLICT);
	assert_int_equal(sql_rollback(db), ST_OK);
	assert_int_equal(rows_in(db), 0);
}

static void
what_can_not_be_committed_does_not_stand_open(void **state)
{
	sqlite3 *db = *state;

	assert_int_equal(
		sql_exec(db, "PRAGMA foreign_keys=ON;"
			     "CREATE TABLE u(v REFERENCES t(v) DEFERRABLE INITIALLY "
			     "DEFERRED)"),
		ST_OK);
	assert_int_equal(sql_begin(db), ST_OK);
	assert_int_equal(sql_exec(db, "INSERT INTO t VALUES(1);"
				      "INSERT INTO u VALUES(2)"),
			 ST_OK);
	assert_int_not_equal(sql_end(db, ST_OK), ST_OK);
	assert_int_equal(sqlite3_get_autocommit(db), 1);
	assert_int_equal(rows_in(db), 0);
	assert_int_equal(sql_begin(db), ST_OK);
	assert_int_equal(sql_end(db, ST_OK), ST_OK);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			what_went_well_is_kept_and_of_all_else_nothing, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			what_was_taken_back_already_is_no_other_failure, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			what_can_not_be_committed_does_not_stand_open, set_up,
			tear_down),
	};

	return cmocka_run_group_tests_name("sql", tests, NULL, NULL);
}

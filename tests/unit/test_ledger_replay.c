#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/cli/ledger_exec.h"
#include "proxy/cli/ledger_replay.h"

enum { BEGUN = 1000000 };

/* Rows as they lie in a ledger: each is put with the number behind the one before. */
static void
add(struct replay *all, enum row_kind kind, uint64_t turn, const char *exec)
{
	const struct row r = { .id = 100 + all->rows_n,
			       .turn = turn,
			       .kind = kind,
			       .reason = kind == ROW_DENY ? ST_DENIED : ST_OK,
			       .time_us = BEGUN + all->rows_n,
			       .exec = str_from(exec) };

	assert_int_equal(replay_add(all, all->rows_n + 1, &r), ST_OK);
}

static const struct replay_step *
step_at(const struct replay *all, uint64_t number)
{
	list_each (it, &all->steps) {
		const struct replay_step *s = LIST_OF(it, struct replay_step, link);
		if (s->number == number)
			return s;
	}
	fail_msg("no step %llu", (unsigned long long)number);
	return NULL;
}

/* The numbers of its rows in the ledger. */
static void
assert_rows(const struct replay_step *s, const char *numbers)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 256);
	list_each (it, &s->rows)
		buf_putf(&b, "%llu ",
			 (unsigned long long)LIST_OF(it, struct replay_row, link)->seq);
	assert_string_equal(buf_cstr(&b), numbers);
}

static void
a_beginning_and_an_end_of_one_turn_are_one_step(void **state)
{
	CLEANUP(replay_done) struct replay all = { 0 };

	(void)state;
	replay_init(&all);
	add(&all, ROW_EXEC, 100, "{\"op\":\"command.run\",\"command\":\"a\"}");
	add(&all, ROW_EXEC, 101, "{\"op\":\"command.run\",\"command\":\"b\"}");
	add(&all, ROW_EXEC_END, 101, "{\"op\":\"command.run\",\"exit\":1}");
	add(&all, ROW_EXEC_END, 100, "{\"op\":\"command.run\",\"exit\":0}");
	assert_int_equal(replay_join(&all), ST_OK);
	assert_int_equal(all.steps_n, 2);
	assert_rows(step_at(&all, 1), "1 4 ");
	assert_rows(step_at(&all, 2), "2 3 ");
	assert_int_equal(step_at(&all, 1)->end->seq, 4);
	assert_int_equal(step_at(&all, 1)->start->seq, 1);
	assert_int_equal(all.last_seq, 4);
	assert_int_equal(all.begun_us, BEGUN);
}

static void
an_approval_belongs_to_the_first_step_that_names_it(void **state)
{
	CLEANUP(replay_done) struct replay all = { 0 };

	(void)state;
	replay_init(&all);
	add(&all, ROW_APPROVAL, 7, "{\"op\":\"command.run\",\"approval\":3}");
	add(&all, ROW_APPROVAL, 8,
	    "{\"op\":\"command.run\",\"approval\":3,\"by\":\"bob\"}");
	add(&all, ROW_EXEC, 100, "{\"op\":\"command.run\",\"approval\":\"3\"}");
	add(&all, ROW_EXEC_END, 100, "{\"op\":\"command.run\"}");
	/* The same approval, for the rest of the session. */
	add(&all, ROW_EXEC, 101, "{\"op\":\"command.run\",\"approval\":\"3\"}");
	/* One that was refused. */
	add(&all, ROW_APPROVAL, 9, "{\"op\":\"code.run\",\"approval\":4}");
	add(&all, ROW_DENY, 102, "{\"op\":\"code.run\",\"approval\":\"4\"}");
	assert_int_equal(replay_join(&all), ST_OK);
	assert_int_equal(all.steps_n, 3);
	assert_rows(step_at(&all, 1), "1 2 3 4 ");
	assert_rows(step_at(&all, 2), "5 ");
	assert_rows(step_at(&all, 3), "6 7 ");
	assert_int_equal(step_at(&all, 3)->end->seq, 7);
	assert_int_equal(step_at(&all, 3)->start->seq, 7);
}

/* Each process has a ring of its own, and they are emptied one after the other. */
static void
rows_are_put_in_the_order_of_time(void **state)
{
	const struct row rows[] = {
		{ .kind = ROW_EXEC,
		  .turn = 1,
		  .time_us = 30,
		  .exec = STR("{\"op\":\"b\",\"approval\":\"0000000000003\"}") },
		{ .kind = ROW_APPROVAL,
		  .turn = 2,
		  .time_us = 20,
		  .exec = STR("{\"op\":\"b\",\"approval\":3}") },
		{ .kind = ROW_EXEC,
		  .turn = 3,
		  .time_us = 10,
		  .exec = STR("{\"op\":\"a\"}") },
	};
	CLEANUP(replay_done) struct replay all = { 0 };

	(void)state;
	replay_init(&all);
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		assert_int_equal(replay_add(&all, i + 1, &rows[i]), ST_OK);
	assert_int_equal(replay_join(&all), ST_OK);
	assert_rows(step_at(&all, 1), "3 ");
	assert_rows(step_at(&all, 2), "2 1 ");
	assert_int_equal(all.begun_us, 10);
	assert_int_equal(all.last_seq, 3);
}

static void
a_step_may_lack_its_beginning_or_its_end(void **state)
{
	CLEANUP(replay_done) struct replay all = { 0 };

	(void)state;
	replay_init(&all);
	add(&all, ROW_EXEC_END, 50, "{\"op\":\"command.run\"}");
	add(&all, ROW_EXEC, 51, "no object");
	add(&all, ROW_APPROVAL, 52, "{\"op\":\"command.run\",\"approval\":[]}");
	assert_int_equal(replay_join(&all), ST_OK);
	assert_int_equal(all.steps_n, 3);
	assert_null(step_at(&all, 1)->start);
	assert_null(step_at(&all, 2)->end);
	assert_null(step_at(&all, 3)->start);
	assert_null(step_at(&all, 3)->end);
}

static void
nothing_that_ran_moves_the_cursor(void **state)
{
	static const char exec[] =
		"{\"op\":\"command.run\",\"command\":\"a\\nb\\t\\u001b[2J\\u202e"
		"\\u00e9\\\\\",\"argv\":[\"x\",\"a "
		"b\",\"\"],\"files\":[{\"path\":\"/a\","
		"\"bytes\":3,\"sha256\":\"ab\",\"mode\":755}],\"stdout\":{\"bytes\":9,"
		"\"sha256\":\"cd\"},\"k\\ney\":[1,null],"
		"\"approval\":\"0000000000010\"}";
	CLEANUP(buf_done) struct buf b = { 0 };
	json_t *v = ledger_exec_load(str_from(exec));

	(void)state;
	assert_non_null(v);
	buf_init(&b, 4096);
	ledger_exec_put_all(&b, "  ", v);
	assert_string_equal(buf_cstr(&b),
			    "  command\n    a\n    b\t\\x1b[2J\\xe2\\x80\\xaeé\\\\\n"
			    "  argv x 'a b' ''\n"
			    "  files\n    /a  3 bytes, sha256 ab, mode 755\n"
			    "  stdout 9 bytes, sha256 cd\n"
			    "  k\\ney 1 null\n"
			    "  approval 32\n");
	json_decref(v);
}

static void
a_row_is_one_line(void **state)
{
	const struct row r = { .id = 1,
			       .kind = ROW_EXEC_END,
			       .user = STR("al\x1bice"),
			       .sandbox = STR("sb-1"),
			       .duration_ms = 12,
			       .bytes_down = 9,
			       .exec = STR(
				       "{\"op\":\"command.run\",\"argv\":[\"ls\","
				       "\"-l\\n\"],\"exit\":-1,\"stdout\":{\"bytes\":"
				       "4},\"approval\":3,\"by\":\"bob\"}") };
	const struct row named = { .id = 2,
				   .kind = ROW_EXEC,
				   .exec = STR("{\"op\":\"b\",\"approval\":"
					       "\"000000000000z\"}") };
	const struct row broken = { .kind = ROW_DENY,
				    .reason = ST_DENIED,
				    .exec = STR("{\n") };
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	buf_init(&b, 4096);
	ledger_exec_put_line(&b, &r);
	assert_string_equal(buf_cstr(&b),
			    "1970-01-01T00:00:00.000000Z 0000000000001 al\\x1bice/- "
			    "sb-1 command.run ended ok ls '-l\\n' exit=-1 ms=12 "
			    "stdout=4 down=9 approval=3 by=bob\n");
	buf_clear(&b);
	ledger_exec_put_line(&b, &named);
	assert_string_equal(buf_cstr(&b),
			    "1970-01-01T00:00:00.000000Z 0000000000002 -/- - b allowed "
			    "ok approval=31\n");
	buf_clear(&b);
	ledger_exec_put_line(&b, &broken);
	assert_string_equal(buf_cstr(&b),
			    "1970-01-01T00:00:00.000000Z 0000000000000 -/- - - denied "
			    "denied_by_policy {\\n\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_beginning_and_an_end_of_one_turn_are_one_step),
		cmocka_unit_test(an_approval_belongs_to_the_first_step_that_names_it),
		cmocka_unit_test(rows_are_put_in_the_order_of_time),
		cmocka_unit_test(a_step_may_lack_its_beginning_or_its_end),
		cmocka_unit_test(nothing_that_ran_moves_the_cursor),
		cmocka_unit_test(a_row_is_one_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

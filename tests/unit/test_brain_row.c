/* What the brain does for a caller stands in the ledger before a server hears of it. */
#include "tests/unit/brain_world.h"

struct rows_seen { /* the rows of control's ring, so far */
	size_t n;
	struct row last;
	char exec[ROW_EXEC_MAX], sandbox[64], user[64];
};

static void
read_rows(struct world *w, struct rows_seen *t)
{
	struct rowring *r = NULL;
	CLEANUP(buf_done) struct buf b = { 0 };

	*t = (struct rows_seen){ 0 };
	buf_init(&b, ROW_MAX);
	assert_int_equal(rowring_open_reader(w->ring, &r), ST_OK);
	for (; rowring_next(r, &b) == ST_OK; t->n++) {
		assert_int_equal(row_get(str_of(b.p, b.len), &t->last), ST_OK);
		(void)snprintf(t->exec, sizeof t->exec, "%.*s", STR_ARG(t->last.exec));
		(void)snprintf(t->sandbox, sizeof t->sandbox, "%.*s",
			       STR_ARG(t->last.sandbox));
		(void)snprintf(t->user, sizeof t->user, "%.*s", STR_ARG(t->last.user));
	}
	rowring_close(r);
}

static const enum exec_op changes[] = {
	EXEC_OP_SANDBOX_PAUSE,    EXEC_OP_SANDBOX_RESUME, EXEC_OP_SANDBOX_RENEW,
	EXEC_OP_SANDBOX_METADATA, EXEC_OP_POLICY_PATCH,   EXEC_OP_SANDBOX_SNAPSHOT,
	EXEC_OP_SANDBOX_KILL,
};

static struct place_wish
wish_for(enum exec_op op, const char *id)
{
	struct place_wish wish = wish_of(ALICE, op, id, "{}");

	if (op == EXEC_OP_SANDBOX_RENEW)
		wish.body = STR("{\"expiresAt\":\"2099-01-01T00:00:00Z\"}");
	if (op == EXEC_OP_POLICY_PATCH)
		wish.body = STR("[]");
	wish.turn = 77;
	return wish;
}

static void
a_change_has_its_row_while_its_server_is_being_asked(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE), op[64];
	struct rows_seen before, t;

	for (size_t i = 0; i < COUNT_OF(changes); i++) {
		read_rows(w, &before);
		w->is_held = true;
		(void)world_begin(w, wish_for(changes[i], id));
		world_run(w);
		read_rows(w, &t);
		assert_int_equal(t.n, before.n + 1);
		(void)snprintf(op, sizeof op, "{\"op\":\"%s\"",
			       exec_op_name(changes[i]));
		if (strncmp(t.exec, op, strlen(op)) != 0)
			fail_msg("%s, not %s", t.exec, op);
		assert_non_null(strstr(t.exec, "\"tenant\":\"blue\""));
		assert_int_equal(t.last.kind, ROW_EXEC);
		assert_int_equal(t.last.turn, 77);
		assert_string_equal(t.sandbox, id);
		assert_string_equal(t.user, "alice");
		w->is_held = false;
		world_serve(w);
		world_run(w);
	}
	free(id);
}

static void
a_create_has_its_row_with_its_sandbox_before_a_server_is_asked(void **state)
{
	struct world *w = *state;
	struct place_wish wish =
		wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY);
	struct fake_answer *f;
	struct rows_seen t;

	wish.text = STR("make test");
	w->is_held = true;
	f = world_begin(w, wish);
	world_run(w);
	assert_int_equal(w->calls_n, 1);
	read_rows(w, &t);
	assert_int_equal(t.n, 1);
	assert_non_null(strstr(t.exec, "\"op\":\"sandbox.create\",\"command\":\"make "
				       "test\",\"level\":\"low\""));
	w->is_held = false;
	world_serve(w);
	world_run(w);
	assert_true(f->is_there);
	assert_string_equal(t.sandbox, world_text(f, NULL, "id"));
}

static void
without_a_ledger_nothing_is_done(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	size_t calls = w->calls_n;
	struct rowring *ring = w->c.role.ring;
	struct fake_answer *f;

	w->c.role.ring = NULL;
	for (size_t i = 0; i < COUNT_OF(changes); i++) {
		f = world_ask(w, wish_for(changes[i], id));
		assert_int_equal(f->a.kind, PLACE_REFUSE);
		assert_int_equal(f->a.st, ST_NO_LEDGER);
	}
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY));
	assert_int_equal(f->a.st, ST_NO_LEDGER);
	assert_int_equal(w->calls_n, calls);
	assert_int_equal(bench_get(&w->bench, str_from(id)).state, BRAIN_RUNNING);
	w->c.role.ring = ring;
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_LIST, "", ""));
	assert_int_equal(f->a.http, 200);
	assert_non_null(strstr(f->body, "\"totalItems\":1"));
	free(id);
}

static void
who_only_reads_and_who_is_refused_leave_no_row(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct rows_seen before, t;

	read_rows(w, &before);
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_LIST, "", ""));
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_GET, id, ""));
	(void)world_ask(w, wish_of(BOB, EXEC_OP_SANDBOX_KILL, id, ""));
	(void)world_ask(w, wish_of("sgk_x", EXEC_OP_SANDBOX_KILL, id, ""));
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_TELEMETRY, "", "{}"));
	read_rows(w, &t);
	assert_int_equal(t.n, before.n);
	free(id);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_WORLD(a_change_has_its_row_while_its_server_is_being_asked),
		WITH_WORLD(
			a_create_has_its_row_with_its_sandbox_before_a_server_is_asked),
		WITH_WORLD(without_a_ledger_nothing_is_done),
		WITH_WORLD(who_only_reads_and_who_is_refused_leave_no_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

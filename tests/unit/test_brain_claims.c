/* What workers and servers claim, late or more than was asked for: it takes no room and keeps
 * nothing busy. */
#include "proxy/control/principal.h"
#include "tests/unit/brain_age.h"

/* Nor where the locator, or a server, has come back since. */
static void
what_a_worker_holds_is_heard_of_at_the_beginning_only(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);

	world_kept(w, 77, id);
	assert_int_equal(brain_busy(w->c.brain, str_from(id)), 1);
	world_left(w, 77);
	w->c.brain->ticks = BRAIN_ROUND_TICKS;
	brain_bind_soon(w->c.brain);
	world_kept(w, 78, id);
	assert_int_equal(brain_busy(w->c.brain, str_from(id)), 0);
	free(id);
}

static void
what_can_not_be_written_leaves_nothing_busy(void **state)
{
	struct world *w = *state;
	sqlite3 *db = brain_store_db(w->c.store);
	char *id = world_create(w, ALICE);
	struct place_wish ping = wish_of(ALICE, EXEC_OP_PING, id, "");

	ping.port = 44772;
	backdate(w, "used_s", id, brain_now_s() - 700);
	assert_int_equal(sql_exec(db, "PRAGMA query_only = ON"), ST_OK);
	assert_int_equal(world_ask(w, ping)->a.kind, PLACE_REFUSE);
	assert_int_equal(brain_busy(w->c.brain, str_from(id)), 0);
	assert_int_equal(sql_exec(db, "PRAGMA query_only = OFF"), ST_OK);
	assert_int_equal(world_ask(w, ping)->a.kind, PLACE_ROUTE);
	assert_int_equal(brain_busy(w->c.brain, str_from(id)), 1);
	free(id);
}

/* A round asks each of the three for a page of 200: what is behind is asked for by itself. */
static void
a_server_that_says_more_than_was_asked_for_is_asked_again(void **state)
{
	struct world *w = *state;
	CLEANUP(buf_done) struct buf says = { 0 };
	char *id = world_create(w, ALICE);
	size_t calls = w->calls_n;

	buf_init(&says, 1 << 20);
	buf_put(&says, STR("{\"items\":["));
	for (int i = 0; i < 200; i++)
		buf_putf(&says, "{\"id\":\"stranger-%d\"},", i);
	buf_putf(&says, "{\"id\":\"%s\"}]}", w->boxes[0].id);
	w->http = 200;
	w->says = buf_cstr(&says);
	brain_reconcile(w->c.brain);
	world_run(w);
	assert_int_equal(w->calls_n, calls + 3 + 1);
	assert_int_equal(state_of(w, id), BRAIN_RUNNING);
	free(id);
}

static struct brain_share *
share_of(struct world *w, const char *user)
{
	struct principal who = { .tenant = "blue" };

	assert_int_equal(principal_set(who.user, str_from(user)), ST_OK);
	return brain_share(w->c.brain, &who);
}

/* Servers are asked by a process that does so much at once, and no more. */
static void
one_user_does_not_keep_servers_from_others(void **state)
{
	struct world *w = *state;
	char *hers = world_create(w, ALICE), *his = world_create(w, BOB);
	const struct place_wish pause = wish_of(ALICE, EXEC_OP_SANDBOX_PAUSE, hers, "");
	struct fake_answer *held;

	w->is_held = true;
	held = world_begin(w, wish_of(ALICE, EXEC_OP_SANDBOX_GET, hers, ""));
	world_run(w);
	assert_int_equal(share_of(w, "alice")->calls, 1);
	w->is_held = false;
	share_of(w, "alice")->calls += BRAIN_USER_CALLS - 1;
	struct fake_answer *job = world_begin(w, pause);
	struct fake_answer *create =
		world_begin(w, wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY));
	struct fake_answer *other =
		world_begin(w, wish_of(BOB, EXEC_OP_SANDBOX_PAUSE, his, ""));
	struct fake_answer *open =
		world_begin(w, wish_of(ALICE, EXEC_OP_HEALTH, "", ""));
	world_run(w);
	assert_int_equal(job->a.st, ST_LIMIT_USER);
	assert_int_equal(create->a.st, ST_LIMIT_USER);
	assert_int_equal(other->a.http, 202);
	assert_int_equal(open->a.http, 200);
	assert_int_equal(held->a.http, 200);
	assert_int_equal(w->boxes_n, 2);
	assert_int_equal(world_ask(w, pause)->a.http, 202);
	assert_int_equal(w->c.brain->shares.len, 0);
	free(hers);
	free(his);
}

static void
hear(struct brain *b, const struct ask_line *line, uint64_t ticket,
     const char *language)
{
	CLEANUP(buf_done) struct buf body = { 0 };
	struct ask_msg m = { .ask = ASK_CONTEXT };

	buf_init(&body, 64);
	buf_put_u64(&body, ticket);
	wire_put_str(&body, STR("c1"));
	wire_put_str(&body, str_from(language));
	m.body = str_of(body.p, body.len);
	brain_context_heard(b, line, &m);
}

/* Control hears of a context when its sandbox has been ended already. */
static void
what_is_told_of_sandboxes_that_are_gone_takes_no_room_for_ever(void **state)
{
	struct world *w = *state;
	struct brain *b = w->c.brain;
	const struct ask_line *line = w->c.lines[1];
	struct place_wish wish = wish_of(ALICE, EXEC_OP_CONTEXT_CREATE, "", "");
	char *id;

	for (uint64_t i = 0; i < BRAIN_ENDPOINTS; i++) {
		struct brain_ticket t = { .line = line, .number = 1000000 + i };

		(void)snprintf(t.id, sizeof t.id, "sb-%05d", (int)i);
		assert_int_equal(brain_ticket_add(b, &t), ST_OK);
		hear(b, line, t.number, "bash");
	}
	id = world_create(w, ALICE);
	wish.sandbox = str_from(id);
	wish.port = 44772;
	hear(b, line, world_ask(w, wish)->ticket, "python");
	assert_true(str_eq(brain_context_language(b, str_from(id), STR("c1")),
			   STR("python")));
	free(id);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_WORLD(what_a_worker_holds_is_heard_of_at_the_beginning_only),
		WITH_WORLD(what_can_not_be_written_leaves_nothing_busy),
		WITH_WORLD(one_user_does_not_keep_servers_from_others),
		WITH_WORLD(a_server_that_says_more_than_was_asked_for_is_asked_again),
		WITH_WORLD(
			what_is_told_of_sandboxes_that_are_gone_takes_no_room_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

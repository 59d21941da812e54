/* What happens to sandboxes without anybody asking: sleep, end, comparison with servers, and
 * those that are kept ready. */
#include "proxy/control/principal.h"
#include "tests/unit/brain_world.h"

static void
backdate(struct world *w, const char *column, const char *id, uint64_t s)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	char text[128];

	(void)snprintf(text, sizeof text, "UPDATE sandboxes SET %s = ?1 WHERE id = ?2",
		       column);
	assert_int_equal(sql_prepare(brain_store_db(w->bench.s), text, &q), ST_OK);
	sql_u64(q, 1, s);
	sql_bytes(q, 2, str_from(id));
	assert_int_equal(sql_run(q), ST_OK);
}

static void
look(struct world *w)
{
	brain_idle(w->c.brain);
	world_run(w);
}

static void
compare(struct world *w)
{
	brain_reconcile(w->c.brain);
	for (int i = 0; i < 5; i++)
		world_run(w);
}

static enum brain_state
state_of(struct world *w, const char *id)
{
	return bench_get(&w->bench, str_from(id)).state;
}

static void
what_is_not_used_is_paused_and_woken_by_its_next_call(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct place_wish wish = wish_of(ALICE, EXEC_OP_PING, id, "");

	look(w);
	assert_int_equal(state_of(w, id), BRAIN_RUNNING);
	backdate(w, "used_s", id, brain_now_s() - 700);
	look(w);
	assert_int_equal(state_of(w, id), BRAIN_PAUSED);
	assert_string_equal(w->boxes[0].state, "Paused");
	assert_true(bench_get(&w->bench, str_from(id)).paused_s > 0);
	wish.port = 44772;
	assert_int_equal(world_ask(w, wish)->a.kind, PLACE_ROUTE);
	assert_int_equal(state_of(w, id), BRAIN_RUNNING);
	free(id);
}

static void
what_is_busy_neither_sleeps_nor_ends(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct place_wish wish = wish_of(ALICE, EXEC_OP_PING, id, "");

	wish.port = 44772;
	struct fake_answer *f = world_ask(w, wish);
	backdate(w, "used_s", id, brain_now_s() - 100000);
	backdate(w, "expires_s", id, brain_now_s() - 10);
	look(w);
	assert_int_equal(state_of(w, id), BRAIN_RUNNING);
	world_left(w, f->ticket);
	look(w);
	assert_int_equal(state_of(w, id), BRAIN_GONE);
	assert_true(w->boxes[0].is_gone);
	free(id);
}

static uint64_t
end_of(struct world *w, const char *id)
{
	return bench_get(&w->bench, str_from(id)).expires_s;
}

/* CREATE_BODY asks for ten minutes. */
static void
what_is_used_in_its_last_quarter_lives_as_long_again(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct place_wish wish = wish_of(ALICE, EXEC_OP_PING, id, "");
	uint64_t now = brain_now_s();

	wish.port = 44772;
	backdate(w, "expires_s", id, now + 155);
	world_left(w, world_ask(w, wish)->ticket);
	assert_int_equal(end_of(w, id), now + 155);
	brain_span_forget(w->c.brain, str_from(id));
	backdate(w, "expires_s", id, now + 140);
	world_left(w, world_ask(w, wish)->ticket);
	assert_non_null(strstr(w->last, "renew-expiration"));
	assert_in_range(end_of(w, id), now + 600, now + 602);
	free(id);
}

static void
a_request_that_takes_long_renews_again_and_again(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct place_wish wish = wish_of(ALICE, EXEC_OP_PING, id, "");
	struct fake_answer *f = NULL;
	uint64_t now = brain_now_s();

	wish.port = 44772;
	for (int i = 0; i < 3; i++) {
		backdate(w, "expires_s", id, now + 100);
		if (f == NULL)
			f = world_ask(w, wish);
		else
			brain_spans_look(w->c.brain);
		world_run(w);
		assert_in_range(end_of(w, id), now + 600, now + 602);
	}
	world_left(w, f->ticket);
	backdate(w, "expires_s", id, now + 100);
	brain_spans_look(w->c.brain);
	world_run(w);
	assert_int_equal(end_of(w, id), now + 100);
	free(id);
}

static void
a_server_that_does_not_renew_is_asked_later_again(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct place_wish wish = wish_of(ALICE, EXEC_OP_PING, id, "");
	uint64_t soon = brain_now_s() + 100;
	size_t calls;

	wish.port = 44772;
	world_left(w, world_ask(w, wish)->ticket);
	brain_span_forget(w->c.brain, str_from(id));
	backdate(w, "expires_s", id, soon);
	calls = w->calls_n;
	w->http = 501;
	w->says = "{\"code\":\"X\",\"message\":\"y\"}";
	for (int i = 0; i < 5; i++)
		world_left(w, world_ask(w, wish)->ticket);
	assert_int_equal(w->calls_n, calls + 1);
	assert_int_equal(end_of(w, id), soon);
	free(id);
}

static void
keep_told(struct world *w, uint64_t number, const char *id)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 64);
	buf_put_u64(&b, number);
	wire_put_str(&b, str_from(id));
	assert_int_equal(ask_tell(w->worker, ASK_KEPT, str_of(b.p, b.len), NULL, 0),
			 ST_OK);
	world_run(w);
}

/* A control that was started anew knows of no request. */
static void
what_a_worker_still_holds_is_busy(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);

	backdate(w, "used_s", id, brain_now_s() - 700);
	backdate(w, "expires_s", id, brain_now_s() + 100);
	keep_told(w, 77, id);
	assert_int_equal(brain_busy(w->c.brain, str_from(id)), 1);
	assert_in_range(end_of(w, id), brain_now_s() + 590, brain_now_s() + 600);
	look(w);
	assert_int_equal(state_of(w, id), BRAIN_RUNNING);
	world_left(w, 77);
	backdate(w, "used_s", id, brain_now_s() - 700);
	look(w);
	assert_int_equal(state_of(w, id), BRAIN_PAUSED);
	/* Of what is gone, or never was, nothing is kept. */
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_KILL, id, ""));
	keep_told(w, 78, id);
	keep_told(w, 79, "sb-never");
	assert_null(brain_ticket_find(w->c.brain, w->c.lines[1], 78));
	assert_int_equal(w->c.brain->by_number.len, 0);
	assert_int_equal(w->c.brain->shares.len, 0);
	free(id);
}

static struct brain_share *
share_of(struct world *w, const char *user)
{
	struct principal who = { .tenant = "blue" };

	assert_int_equal(principal_set(who.user, str_from(user)), ST_OK);
	return brain_share(w->c.brain, &who);
}

static void
one_user_takes_neither_all_turns_nor_all_tickets(void **state)
{
	struct world *w = *state;
	char *hers = world_create(w, ALICE), *his = world_create(w, BOB);
	struct place_wish ping = wish_of(ALICE, EXEC_OP_PING, hers, "");
	struct fake_answer *held;

	ping.port = 44772;
	w->is_held = true;
	held = world_begin(w, wish_of(ALICE, EXEC_OP_SANDBOX_GET, hers, ""));
	world_run(w);
	assert_int_equal(share_of(w, "alice")->turns, 1);
	share_of(w, "alice")->turns += BRAIN_USER_TURNS - 1;
	w->is_held = false;
	struct fake_answer *more = world_begin(w, ping);
	struct fake_answer *other =
		world_begin(w, wish_of(BOB, EXEC_OP_SANDBOX_GET, his, ""));
	world_run(w);
	assert_int_equal(more->a.kind, PLACE_REFUSE);
	assert_int_equal(more->a.st, ST_LIMIT_USER);
	assert_int_equal(other->a.http, 200);
	assert_int_equal(held->a.http, 200);
	share_of(w, "alice")->turns -= BRAIN_USER_TURNS - 1;
	/* Tickets. */
	held = world_ask(w, ping);
	assert_int_equal(held->a.kind, PLACE_ROUTE);
	assert_int_equal(share_of(w, "alice")->tickets, 1);
	share_of(w, "alice")->tickets = BRAIN_USER_TICKETS;
	assert_int_equal(world_ask(w, ping)->a.st, ST_LIMIT_USER);
	ping.key = STR(BOB);
	ping.sandbox = str_from(his);
	more = world_ask(w, ping);
	assert_int_equal(more->a.kind, PLACE_ROUTE);
	share_of(w, "alice")->tickets = 1;
	world_left(w, held->ticket);
	world_left(w, more->ticket);
	assert_int_equal(w->c.brain->shares.len, 0);
	free(hers);
	free(his);
}

static void
what_sleeps_too_long_is_ended(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);

	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_PAUSE, id, ""));
	backdate(w, "used_s", id, brain_now_s() - 7300);
	look(w);
	assert_int_equal(state_of(w, id), BRAIN_GONE);
	assert_true(w->boxes[0].is_gone);
	free(id);
}

static void
a_server_that_cannot_pause_is_not_asked_each_second(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	size_t calls = w->calls_n;

	backdate(w, "used_s", id, brain_now_s() - 700);
	w->http = 501;
	w->says = "{\"code\":\"X\",\"message\":\"y\"}";
	for (int i = 0; i < 5; i++)
		look(w);
	assert_int_equal(w->calls_n, calls + 1);
	assert_int_equal(state_of(w, id), BRAIN_RUNNING);
	free(id);
}

static void
what_another_hand_did_is_seen(void **state)
{
	struct world *w = *state;
	char *first = world_create(w, ALICE), *second = world_create(w, ALICE);

	(void)snprintf(w->boxes[0].state, sizeof w->boxes[0].state, "Paused");
	w->boxes[1].is_gone = true;
	compare(w);
	assert_int_equal(state_of(w, first), BRAIN_PAUSED);
	assert_int_equal(state_of(w, second), BRAIN_GONE);
	(void)snprintf(w->boxes[0].state, sizeof w->boxes[0].state, "Running");
	compare(w);
	assert_int_equal(state_of(w, first), BRAIN_RUNNING);
	free(first);
	free(second);
}

static void
a_server_that_is_silent_loses_nothing(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);

	w->down[0] = w->down[1] = w->down[2] = ST_CONNECT_REFUSED;
	compare(w);
	assert_int_equal(state_of(w, id), BRAIN_RUNNING);
	w->down[0] = w->down[1] = w->down[2] = ST_OK;
	w->http = 200;
	w->says = "nonsense";
	compare(w);
	assert_int_equal(state_of(w, id), BRAIN_RUNNING);
	free(id);
}

/* As a server has one: nobody's row. */
static void
plant(struct world *w, const char *server, const char *labels)
{
	struct fake_box *b = &w->boxes[w->boxes_n++];

	*b = (struct fake_box){ .request = json_loads(labels, 0, NULL) };
	assert_non_null(b->request);
	(void)snprintf(b->id, sizeof b->id, "planted-%zu", w->boxes_n);
	(void)snprintf(b->server, sizeof b->server, "%.15s", server);
	(void)snprintf(b->state, sizeof b->state, "Running");
}

static void
only_ones_own_that_nobody_knows_are_ended(void **state)
{
	struct world *w = *state;
	char labels[256];

	plant(w, "one", "{\"metadata\":{}}");
	plant(w, "one",
	      "{\"metadata\":{\"sandgate/id\":\"sb-x\",\"sandgate/"
	      "gateway\":\"other\"}}");
	(void)snprintf(
		labels, sizeof labels,
		"{\"metadata\":{\"sandgate/id\":\"sb-x\",\"sandgate/gateway\":\"%s\"}}",
		w->c.brain->gateway);
	plant(w, "one", labels);
	compare(w);
	assert_false(w->boxes[0].is_gone);
	assert_false(w->boxes[1].is_gone);
	assert_true(w->boxes[2].is_gone);
}

static void
one_that_was_being_made_when_we_ended_is_its_owners(void **state)
{
	struct world *w = *state;
	struct fake_answer *f;
	char id[64], labels[256];

	/* The server made it, and its answer was lost. */
	w->down[0] = w->down[1] = ST_CONNECT_REFUSED;
	struct brain_claim c = bench_claim("alice", "");
	c.owner.tenant = STR("blue");
	c.server = STR("one");
	c.request = STR("{\"body\":{}}");
	struct brain_sandbox x = bench_take(&w->bench, &c, BRAIN_NEW);
	(void)snprintf(id, sizeof id, "%.*s", STR_ARG(x.id));
	(void)snprintf(
		labels, sizeof labels,
		"{\"metadata\":{\"sandgate/id\":\"%s\",\"sandgate/gateway\":\"%s\"}}",
		id, w->c.brain->gateway);
	plant(w, "one", labels);
	w->down[0] = w->down[1] = ST_OK;
	compare(w);
	assert_int_equal(state_of(w, id), BRAIN_RUNNING);
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_GET, id, ""));
	assert_int_equal(f->a.http, 200);
}

/* Kept ready. */

static const char warm_config[] =
	"policies: {p: {connectors: [], allow: []}}\n"
	"resolver: {servers: [192.0.2.1]}\n"
	"listeners: [{name: e, kind: opensandbox, address: '127.0.0.1:8090'}]\n"
	"servers:\n"
	"  - {name: one, url: 'http://127.0.0.1:8081', key: k/one, tier: standard, "
	"endpoints: "
	"[127.0.0.0/8]}\n"
	"exec:\n"
	"  warm:\n"
	"    - {name: py, tier: standard, size: 2, image: 'sg/base:local', entrypoint: "
	"[tail, -f, "
	"/dev/null], limits: {cpu: 500m, memory: 256Mi}}\n";

static int
warm_up(void **state)
{
	return world_up_with(state, warm_config);
}

#define WITH_WARM(test) cmocka_unit_test_setup_teardown(test, warm_up, world_down)

static void
pool(struct world *w)
{
	for (int i = 0; i < 3; i++) {
		brain_pool(w->c.brain);
		world_run(w);
	}
}

static const char *
start_of(const struct fake_answer *f)
{
	static char text[32];

	assert_int_equal(f->a.fields_n, 2);
	(void)snprintf(text, sizeof text, "%.*s", STR_ARG(f->a.fields[1].value));
	return text;
}

static void
a_ready_one_is_given_away_once_and_another_is_made(void **state)
{
	struct world *w = *state;
	struct place_wish wish =
		wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY);
	struct fake_answer *f;
	char id[64];

	pool(w);
	assert_int_equal(w->boxes_n, 2);
	f = world_ask(w, wish);
	assert_int_equal(f->a.http, 202);
	assert_string_equal(start_of(f), "warm");
	assert_string_equal(world_text(f, "metadata", "name"), "n1");
	(void)snprintf(id, sizeof id, "%.60s", world_text(f, NULL, "id"));
	wish.key = STR(BOB);
	f = world_ask(w, wish);
	assert_string_equal(start_of(f), "warm");
	assert_string_not_equal(world_text(f, NULL, "id"), id);
	f = world_ask(w, wish);
	assert_string_equal(start_of(f), "cold");
	assert_int_equal(w->boxes_n, 3);
	pool(w);
	assert_int_equal(w->boxes_n, 5);
	/* What was used is ended, never ready again. */
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_KILL, id, ""));
	pool(w);
	assert_int_equal(w->boxes_n, 5);
	bench_check(brain_store_db(w->bench.s));
}

static void
one_that_differs_in_anything_is_cold(void **state)
{
	struct world *w = *state;
	struct place_wish wish = wish_of(
		ALICE, EXEC_OP_SANDBOX_CREATE, "",
		"{\"image\":{\"uri\":\"sg/"
		"base:local\"},\"entrypoint\":[\"tail\",\"-f\","
		"\"/dev/"
		"null\"],\"resourceLimits\":{\"cpu\":\"500m\",\"memory\":\"256Mi\"},"
		"\"env\":{\"A\":\"1\"}}");

	pool(w);
	assert_string_equal(start_of(world_ask(w, wish)), "cold");
	wish.body = STR(CREATE_BODY);
	assert_string_equal(start_of(world_ask(w, wish)), "warm");
}

static void
a_pool_whose_server_refuses_waits(void **state)
{
	struct world *w = *state;
	size_t calls;

	w->http = 500;
	w->says = "{\"code\":\"X\",\"message\":\"y\"}";
	pool(w);
	calls = w->calls_n;
	assert_true(calls > 0);
	pool(w);
	pool(w);
	assert_int_equal(w->calls_n, calls);
	bench_check(brain_store_db(w->bench.s));
}

static void
what_was_given_away_carries_its_owners_labels(void **state)
{
	struct world *w = *state;

	pool(w);
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY));
	world_run(w);
	/* The last that the server heard of it: how long it lives. */
	assert_non_null(strstr(w->last, "renew-expiration"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_WORLD(what_is_not_used_is_paused_and_woken_by_its_next_call),
		WITH_WORLD(what_is_busy_neither_sleeps_nor_ends),
		WITH_WORLD(what_is_used_in_its_last_quarter_lives_as_long_again),
		WITH_WORLD(a_request_that_takes_long_renews_again_and_again),
		WITH_WORLD(a_server_that_does_not_renew_is_asked_later_again),
		WITH_WORLD(what_a_worker_still_holds_is_busy),
		WITH_WORLD(one_user_takes_neither_all_turns_nor_all_tickets),
		WITH_WORLD(what_sleeps_too_long_is_ended),
		WITH_WORLD(a_server_that_cannot_pause_is_not_asked_each_second),
		WITH_WORLD(what_another_hand_did_is_seen),
		WITH_WORLD(a_server_that_is_silent_loses_nothing),
		WITH_WORLD(only_ones_own_that_nobody_knows_are_ended),
		WITH_WORLD(one_that_was_being_made_when_we_ended_is_its_owners),
		WITH_WARM(a_ready_one_is_given_away_once_and_another_is_made),
		WITH_WARM(one_that_differs_in_anything_is_cold),
		WITH_WARM(a_pool_whose_server_refuses_waits),
		WITH_WARM(what_was_given_away_carries_its_owners_labels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

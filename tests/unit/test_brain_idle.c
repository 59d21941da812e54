/* What happens to sandboxes without anybody asking: sleep, end, comparison with servers, and
 * those that are kept ready. */
#include "tests/unit/brain_age.h"

static void
compare(struct world *w)
{
	brain_reconcile(w->c.brain);
	for (int i = 0; i < 5; i++)
		world_run(w);
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

	backdate(w, "used_s", first, 1);
	(void)snprintf(w->boxes[0].state, sizeof w->boxes[0].state, "Paused");
	w->boxes[1].is_gone = true;
	compare(w);
	assert_int_equal(state_of(w, first), BRAIN_PAUSED);
	assert_int_equal(state_of(w, second), BRAIN_GONE);
	backdate(w, "paused_s", first, 1);
	(void)snprintf(w->boxes[0].state, sizeof w->boxes[0].state, "Running");
	compare(w);
	assert_int_equal(state_of(w, first), BRAIN_RUNNING);
	free(first);
	free(second);
}

static void
what_two_servers_list_stays_whose_it_is(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct fake_box *twin = &w->boxes[w->boxes_n++];

	*twin = w->boxes[0];
	twin->request = json_incref(w->boxes[0].request);
	(void)snprintf(twin->server, sizeof twin->server, "%s",
		       strcmp(w->boxes[0].server, "one") == 0 ? "two" : "one");
	compare(w);
	assert_false(twin->is_gone);
	assert_int_equal(state_of(w, id), BRAIN_RUNNING);
	assert_true(str_eq(bench_get(&w->bench, str_from(id)).server,
			   str_from(w->boxes[0].server)));
	free(id);
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

/* Whole pages of rows, of nobody. */
static void
plant_rows(struct world *w, int n, enum brain_state state)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;

	assert_int_equal(
		sql_prepare(
			brain_store_db(w->bench.s),
			"WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x"
			" WHERE i < ?1) INSERT INTO sandboxes(id, server, upstream,"
			" agent, session, task, on_behalf_of, tier, state, reuse,"
			" reuse_key, shape, created_s, expires_s, used_s, request)"
			" SELECT CAST(printf('sb-%026d', i) AS BLOB), CAST('one' AS "
			"BLOB),"
			" CASE ?2 WHEN 2 THEN CAST('u-' || i AS BLOB) END, x'', x'', "
			"x'',"
			" x'', 0, ?2, 0, x'', x'00', 1, 0, 1, x'' FROM x",
			&q),
		ST_OK);
	sql_u64(q, 1, (uint64_t)n);
	sql_u64(q, 2, state);
	assert_int_equal(sql_run(q), ST_OK);
}

static uint64_t
count_rows(struct world *w, enum brain_state state)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;

	assert_int_equal(sql_prepare(brain_store_db(w->bench.s),
				     "SELECT count(*) FROM sandboxes WHERE state = ?1",
				     &q),
			 ST_OK);
	sql_u64(q, 1, state);
	assert_int_equal(sql_next(q), ST_OK);
	return sql_get_u64(q, 0);
}

static void
servers_are_compared_page_by_page(void **state)
{
	struct world *w = *state;

	plant_rows(w, 450, BRAIN_RUNNING);
	compare(w);
	assert_int_equal(count_rows(w, BRAIN_GONE), 450);
	assert_int_equal(w->c.brain->rounds.len, 0);
}

static void
none_of_many_stays_half_made(void **state)
{
	struct world *w = *state;

	plant_rows(w, 450, BRAIN_PLACING);
	brain_idle_rest(w->c.brain);
	assert_int_equal(count_rows(w, BRAIN_PLACING), 0);
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
		WITH_WORLD(what_sleeps_too_long_is_ended),
		WITH_WORLD(a_server_that_cannot_pause_is_not_asked_each_second),
		WITH_WORLD(what_another_hand_did_is_seen),
		WITH_WORLD(what_two_servers_list_stays_whose_it_is),
		WITH_WORLD(a_server_that_is_silent_loses_nothing),
		WITH_WORLD(servers_are_compared_page_by_page),
		WITH_WORLD(none_of_many_stays_half_made),
		WITH_WORLD(only_ones_own_that_nobody_knows_are_ended),
		WITH_WORLD(one_that_was_being_made_when_we_ended_is_its_owners),
		WITH_WARM(a_ready_one_is_given_away_once_and_another_is_made),
		WITH_WARM(one_that_differs_in_anything_is_cold),
		WITH_WARM(a_pool_whose_server_refuses_waits),
		WITH_WARM(what_was_given_away_carries_its_owners_labels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

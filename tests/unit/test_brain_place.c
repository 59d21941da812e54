/* What callers ask for when they want a sandbox, and what servers are asked because of it. */
#include "tests/unit/brain_world.h"

static const char *
upstream_of(struct world *w, const char *id)
{
	struct brain_sandbox x = bench_get(&w->bench, str_from(id));
	static char text[64];

	(void)snprintf(text, sizeof text, "%.*s", STR_ARG(x.upstream));
	return text;
}

static void
a_create_gives_an_id_of_ours_and_hides_labels(void **state)
{
	struct world *w = *state;
	struct fake_answer *f =
		world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY));
	char id[64];

	assert_int_equal(f->a.kind, PLACE_ANSWER);
	assert_int_equal(f->a.http, 202);
	(void)snprintf(id, sizeof id, "%.60s", world_text(f, NULL, "id"));
	assert_int_equal(strncmp(id, "sb-", 3), 0);
	assert_string_equal(world_text(f, "status", "state"), "Running");
	assert_string_equal(world_text(f, "metadata", "name"), "n1");
	assert_null(strstr(f->body, "sandgate/"));
	assert_null(strstr(f->body, upstream_of(w, id)));
	assert_int_equal(f->a.fields_n, 2);
	assert_true(str_eq(f->a.fields[0].name, STR("location")));
	assert_true(str_eq(f->a.fields[1].value, STR("cold")));
	assert_true(str_eq(f->a.user, STR("alice")));
	assert_true(str_eq(f->a.sandbox, str_from(id)));
	/* The server knows whose it is, not by name, and carries the operator's label. */
	assert_non_null(strstr(w->last_body, "\"sandgate/user\":\"u-"));
	assert_non_null(strstr(w->last_body, "\"team\":\"x\""));
	assert_non_null(strstr(w->last_body, id));
	assert_null(strstr(w->last_body, "alice"));
}

static void
nobody_sees_what_is_not_theirs(void **state)
{
	static const enum exec_op ops[] = {
		EXEC_OP_SANDBOX_GET,
		EXEC_OP_SANDBOX_KILL,
		EXEC_OP_SANDBOX_PAUSE,
		EXEC_OP_SANDBOX_RESUME,
		EXEC_OP_SANDBOX_RENEW,
		EXEC_OP_SANDBOX_METADATA,
		EXEC_OP_SANDBOX_ENDPOINT,
		EXEC_OP_SANDBOX_SNAPSHOT,
		EXEC_OP_NETPOLICY_GET,
		EXEC_OP_DIAGNOSTICS_LOGS,
		EXEC_OP_PING,
		EXEC_OP_COMMAND_RUN,
		EXEC_OP_APP,
		EXEC_OP_POLICY_GET,
		EXEC_OP_POLICY_SET,
		EXEC_OP_VAULT_CREATE,
		EXEC_OP_FILES_DOWNLOAD,
	};
	struct world *w = *state;
	char *id = world_create(w, ALICE), *upstream = strdup(upstream_of(w, id));
	size_t calls = w->calls_n;

	for (size_t i = 0; i < COUNT_OF(ops); i++) {
		struct place_wish wish = wish_of(BOB, ops[i], id, "{}");
		wish.port = 44772;
		struct fake_answer *f = world_ask(w, wish);

		assert_int_equal(f->a.kind, PLACE_ANSWER);
		assert_int_equal(f->a.http, 404);
		assert_string_equal(world_text(f, NULL, "code"),
				    "DOCKER::SANDBOX_NOT_FOUND");
		/* Nor by the server's own name, not even its owner. */
		wish.sandbox = str_from(upstream);
		wish.key = STR(ALICE);
		f = world_ask(w, wish);
		assert_int_equal(f->a.http, 404);
	}
	assert_int_equal(w->calls_n, calls);
	free(upstream);
	free(id);
}

static void
a_wrong_key_gets_nothing(void **state)
{
	struct world *w = *state;
	struct fake_answer *f =
		world_ask(w, wish_of("sgk_x", EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY));

	assert_int_equal(f->a.kind, PLACE_REFUSE);
	assert_int_equal(f->a.st, ST_KEY_INVALID);
	f = world_ask(w, wish_of("", EXEC_OP_SANDBOX_LIST, "", ""));
	assert_int_equal(f->a.st, ST_KEY_MISSING);
	f = world_ask(w, wish_of("", EXEC_OP_HEALTH, "", ""));
	assert_int_equal(f->a.http, 200);
	assert_int_equal(w->calls_n, 0);
}

static void
a_server_that_is_down_is_passed_over_but_never_for_a_weaker_one(void **state)
{
	struct world *w = *state;
	struct fake_answer *f;

	w->down[0] = ST_CONNECT_REFUSED;
	for (int i = 0; i < 8; i++) {
		char *id = world_create(w, ALICE);

		assert_true(
			str_eq(bench_get(&w->bench, str_from(id)).server, STR("two")));
		free(id);
	}
	w->down[2] = ST_CONNECT_REFUSED;
	f = world_ask(
		w,
		wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "",
			"{\"image\":{\"uri\":\"strong/x\"},\"entrypoint\":[\"x\"]}"));
	assert_int_equal(f->a.kind, PLACE_REFUSE);
	assert_int_equal(f->a.st, ST_UPSTREAM_UNAVAILABLE);
	w->down[2] = ST_OK;
	f = world_ask(
		w, wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "",
			   "{\"image\":{\"uri\":\"strong/x\"},\"entrypoint\":[\"x\"],"
			   "\"networkPolicy\":{\"defaultAction\":\"allow\"}}"));
	assert_int_equal(f->a.http, 202);
	assert_true(str_eq(f->a.server, STR("strong")));
	/* On a network of ours the server isn't told a policy: it is kept. */
	assert_null(strstr(w->last_body, "networkPolicy"));
	w->down[0] = w->down[1] = w->down[2] = ST_UPSTREAM_TIMEOUT;
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY));
	assert_int_equal(f->a.st, ST_UPSTREAM_TIMEOUT);
}

/* Of configurations of before, say: whatever their names, there is room for those of now. */
static void
servers_that_are_no_more_keep_none_from_being_passed_over(void **state)
{
	struct world *w = *state;
	const struct call_got got = { .st = ST_NO_DIALER };
	struct str names[BRAIN_SERVERS];
	char name[16];

	for (unsigned i = 0; i < 2 * BRAIN_SERVERS; i++) {
		(void)snprintf(name, sizeof name, "old-%u", i);
		brain_server_told(w->c.brain, str_from(name), &got);
	}
	brain_server_told(w->c.brain, STR("one"), &got);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(brain_servers(w->c.brain, EXEC_TIER_STANDARD, names,
					       BRAIN_SERVERS),
				 2);
		assert_true(str_eq(names[0], STR("two")));
	}
}

static void
what_a_server_says_of_a_request_is_passed_on(void **state)
{
	struct world *w = *state;
	struct fake_answer *f;

	w->http = 422;
	w->says = "{\"detail\":[{\"loc\":[\"body\"],\"msg\":\"x\"}]}";
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY));
	assert_int_equal(f->a.http, 422);
	assert_non_null(strstr(f->body, "\"detail\""));
	/* But not that it refuses our key. */
	w->http = 401;
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY));
	assert_int_equal(f->a.st, ST_UPSTREAM_UNAVAILABLE);
}

static void
a_server_that_lies_is_refused(void **state)
{
	static const char *const lies[] = {
		"",
		"[]",
		"{}",
		"nope",
		"{\"id\":7}",
		"{\"id\":\"../../x\"}",
		"{\"id\":\"a b\"}",
		"{\"id\":\"\"}",
		"{\"id\":{\"id\":\"x\"}}",
		"{\"id\":\"x\",\"id\":\"y\"}",
	};
	struct world *w = *state;

	for (size_t i = 0; i < COUNT_OF(lies); i++) {
		w->http = 202;
		w->says = lies[i];
		struct fake_answer *f = world_ask(
			w, wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY));

		assert_int_equal(f->a.kind, PLACE_REFUSE);
	}
	bench_check(brain_store_db(w->bench.s));
}

static void
a_server_cannot_give_one_sandbox_to_two(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE), text[128];
	struct brain_sandbox x = bench_get(&w->bench, str_from(id));

	(void)snprintf(text, sizeof text, "{\"id\":\"%.*s\"}", STR_ARG(x.upstream));
	w->down[str_eq(x.server, STR("one")) ? 1 : 0] = ST_CONNECT_REFUSED;
	w->http = 202;
	w->says = text;
	struct fake_answer *f =
		world_ask(w, wish_of(BOB, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY));
	assert_int_equal(f->a.kind, PLACE_REFUSE);
	w->http = 0;
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_GET, id, ""));
	assert_string_equal(world_text(f, "status", "state"), "Running");
	bench_check(brain_store_db(w->bench.s));
	free(id);
}

static void
a_session_finds_its_sandbox_again(void **state)
{
	struct world *w = *state;
	struct place_wish wish =
		wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY);
	char first[64];

	wish.session = STR("s1");
	(void)snprintf(first, sizeof first, "%.60s",
		       world_text(world_ask(w, wish), NULL, "id"));
	assert_string_equal(world_text(world_ask(w, wish), NULL, "id"), first);
	assert_int_equal(w->boxes_n, 1);
	wish.key = STR(BOB);
	assert_string_not_equal(world_text(world_ask(w, wish), NULL, "id"), first);
	wish.key = STR(ALICE);
	wish.session = STR("s2");
	assert_string_not_equal(world_text(world_ask(w, wish), NULL, "id"), first);
	wish.session = STR("s1");
	wish.reuse = STR("none");
	assert_string_not_equal(world_text(world_ask(w, wish), NULL, "id"), first);
	/* It lives as long as the last one who asked for it wants. */
	wish.reuse = STR("");
	uint64_t before = bench_get(&w->bench, str_from(first)).expires_s;
	assert_int_equal(world_ask(w, wish)->a.http, 202);
	assert_int_equal(bench_get(&w->bench, str_from(first)).expires_s, before);
	assert_int_equal(
		brain_store_expires(w->bench.s, str_from(first), brain_now_s() + 20),
		ST_OK);
	assert_int_equal(world_ask(w, wish)->a.http, 202);
	assert_true(bench_get(&w->bench, str_from(first)).expires_s >
		    brain_now_s() + 500);
	/* Paused meanwhile: it is woken. */
	wish.reuse = STR("session");
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_PAUSE, first, ""));
	struct fake_answer *f = world_ask(w, wish);
	assert_string_equal(world_text(f, NULL, "id"), first);
	assert_string_equal(world_text(f, "status", "state"), "Running");
}

static void
two_creates_of_a_session_at_once_make_one(void **state)
{
	struct world *w = *state;
	struct place_wish wish =
		wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY);
	struct fake_answer *f[3];
	char id[64];

	wish.task = STR("t1");
	for (size_t i = 0; i < COUNT_OF(f); i++)
		f[i] = world_begin(w, wish);
	world_run(w);
	world_run(w);
	(void)snprintf(id, sizeof id, "%.60s", world_text(f[0], NULL, "id"));
	for (size_t i = 0; i < COUNT_OF(f); i++) {
		assert_true(f[i]->is_there);
		assert_string_equal(world_text(f[i], NULL, "id"), id);
	}
	assert_int_equal(w->boxes_n, 1);
}

static void
a_key_of_idempotency_makes_one(void **state)
{
	struct world *w = *state;
	struct place_wish wish =
		wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY);
	char id[64];

	wish.idempotency = STR("k1");
	(void)snprintf(id, sizeof id, "%.60s",
		       world_text(world_ask(w, wish), NULL, "id"));
	assert_string_equal(world_text(world_ask(w, wish), NULL, "id"), id);
	assert_int_equal(w->boxes_n, 1);
	wish.body = STR("{\"image\":{\"uri\":\"sg/other\"},\"entrypoint\":[\"x\"]}");
	struct fake_answer *f = world_ask(w, wish);
	assert_int_equal(f->a.kind, PLACE_REFUSE);
	assert_int_equal(f->a.st, ST_CONFLICT);
}

static void
what_nobody_waits_for_is_ended(void **state)
{
	struct world *w = *state;
	struct fake_answer *f;

	w->is_held = true;
	f = world_begin(w, wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY));
	world_run(w);
	world_left(w, f->ticket);
	w->is_held = false;
	world_run(w);
	assert_int_equal(w->boxes_n, 1);
	assert_true(w->boxes[0].is_gone);
	assert_false(f->is_there);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_WORLD(a_create_gives_an_id_of_ours_and_hides_labels),
		WITH_WORLD(nobody_sees_what_is_not_theirs),
		WITH_WORLD(a_wrong_key_gets_nothing),
		WITH_WORLD(
			a_server_that_is_down_is_passed_over_but_never_for_a_weaker_one),
		WITH_WORLD(servers_that_are_no_more_keep_none_from_being_passed_over),
		WITH_WORLD(what_a_server_says_of_a_request_is_passed_on),
		WITH_WORLD(a_server_that_lies_is_refused),
		WITH_WORLD(a_server_cannot_give_one_sandbox_to_two),
		WITH_WORLD(a_session_finds_its_sandbox_again),
		WITH_WORLD(two_creates_of_a_session_at_once_make_one),
		WITH_WORLD(a_key_of_idempotency_makes_one),
		WITH_WORLD(what_nobody_waits_for_is_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

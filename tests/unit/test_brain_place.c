/* What callers ask about sandboxes, and what servers are asked because of it. */
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

static void
a_killed_sandbox_is_gone(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct fake_answer *f =
		world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_KILL, id, ""));

	assert_int_equal(f->a.http, 204);
	assert_true(w->boxes[0].is_gone);
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_GET, id, ""));
	assert_int_equal(f->a.http, 404);
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_KILL, id, ""));
	assert_int_equal(f->a.http, 404);
	free(id);
}

static void
pause_and_resume_go_on_to_the_server(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);

	assert_int_equal(
		world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_PAUSE, id, ""))->a.http,
		202);
	assert_string_equal(w->boxes[0].state, "Paused");
	assert_int_equal(
		world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_PAUSE, id, ""))->a.http,
		409);
	assert_string_equal(
		world_text(world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_GET, id, "")),
			   "status", "state"),
		"Paused");
	assert_int_equal(
		world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_RESUME, id, ""))->a.http,
		202);
	assert_string_equal(w->boxes[0].state, "Running");
	free(id);
}

static void
an_endpoint_is_ours_and_opens_with_its_capability(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE), endpoint[256], token[1024];
	struct place_wish wish = wish_of(ALICE, EXEC_OP_SANDBOX_ENDPOINT, id, "");

	wish.port = 44772;
	struct fake_answer *f = world_ask(w, wish);
	assert_int_equal(f->a.http, 200);
	(void)snprintf(endpoint, sizeof endpoint,
		       "gate.example.test:8090/v1/sandboxes/%s/proxy/44772", id);
	assert_string_equal(world_text(f, NULL, "endpoint"), endpoint);
	assert_null(strstr(f->body, "s3cr3t"));
	(void)snprintf(token, sizeof token, "%.1000s",
		       world_text(f, "headers", "X-Sandgate-Capability"));
	wish = wish_of("", EXEC_OP_COMMAND_RUN, id, "{\"command\":\"ls\"}");
	wish.port = 44772;
	f = world_ask(w, wish);
	assert_int_equal(f->a.st, ST_KEY_MISSING);
	wish.capability = str_from(token);
	f = world_ask(w, wish);
	assert_int_equal(f->a.kind, PLACE_ROUTE);
	assert_true(str_eq(f->a.host, STR("127.0.0.1")));
	assert_true(str_eq(f->a.prefix, STR("/proxy/44772")));
	assert_int_equal(f->a.fields_n, 1);
	assert_true(str_eq(f->a.fields[0].value, STR("s3cr3t")));
	assert_int_equal(w->reaches, 1);
	free(id);
}

static void
an_endpoint_elsewhere_is_not_reached(void **state)
{
	static const char *const lies[] = { "169.254.169.254:80",
					    "10.0.0.1:44772",
					    "127.0.0.1:0",
					    "127.0.0.1:99999",
					    "http://127.0.0.1:1",
					    "user@127.0.0.1:1",
					    "127.0.0.1:1/../x",
					    "127.0.0.1:1/a?b",
					    "",
					    "127.1:44772",
					    "[::1:80",
					    "127.0.0.1:1/a b" };
	struct world *w = *state;
	char *id = world_create(w, ALICE);

	for (size_t i = 0; i < COUNT_OF(lies); i++) {
		struct place_wish wish = wish_of(ALICE, EXEC_OP_PING, id, "");

		w->endpoint = lies[i];
		wish.port = 44772;
		struct fake_answer *f = world_ask(w, wish);
		assert_int_equal(f->a.kind, PLACE_REFUSE);
	}
	assert_int_equal(w->reaches, 0);
	free(id);
}

static void
a_call_wakes_what_sleeps_and_its_tickets_keep_it_busy(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct place_wish wish = wish_of(ALICE, EXEC_OP_COMMAND_RUN, id, "{}");
	struct fake_answer *f, *g;

	wish.port = 44772;
	f = world_ask(w, wish);
	assert_int_equal(f->a.kind, PLACE_ROUTE);
	assert_int_equal(brain_busy(w->c.brain, str_from(id)), 1);
	assert_non_null(brain_ticket_find(w->c.brain, w->c.lines[1], f->ticket));
	world_left(w, f->ticket);
	assert_int_equal(brain_busy(w->c.brain, str_from(id)), 0);
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_PAUSE, id, ""));
	f = world_begin(w, wish);
	g = world_begin(w, wish);
	world_run(w);
	world_run(w);
	assert_int_equal(f->a.kind, PLACE_ROUTE);
	assert_int_equal(g->a.kind, PLACE_ROUTE);
	assert_string_equal(w->boxes[0].state, "Running");
	assert_int_equal(brain_busy(w->c.brain, str_from(id)), 2);
	free(id);
}

static void
a_frozen_sandbox_comes_back_from_its_snapshot(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct place_wish wish = wish_of(ALICE, EXEC_OP_PING, id, "");

	assert_int_equal(brain_job(w->c.brain, str_from(id), BRAIN_FREEZE, NULL),
			 ST_OK);
	world_run(w);
	assert_int_equal(bench_get(&w->bench, str_from(id)).state, BRAIN_SNAPSHOT);
	assert_true(w->boxes[0].is_gone);
	assert_string_equal(
		world_text(world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_GET, id, "")),
			   "status", "state"),
		"Paused");
	wish.port = 44772;
	struct fake_answer *f = world_ask(w, wish);
	assert_int_equal(f->a.kind, PLACE_ROUTE);
	assert_int_equal(w->boxes_n, 2);
	assert_non_null(strstr(w->last_body, w->boxes[0].snapshot));
	assert_null(strstr(w->last_body, "\"image\""));
	assert_non_null(strstr(w->last_body, id));
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_GET, id, ""));
	assert_string_equal(world_text(f, "image", "uri"), "sg/base:local");
	assert_string_equal(world_text(f, NULL, "snapshotId"), "");
	free(id);
}

static void
lists_have_true_totals_and_only_ones_own(void **state)
{
	struct world *w = *state;
	struct place_wish wish = wish_of(ALICE, EXEC_OP_SANDBOX_LIST, "", "");
	struct fake_answer *f;
	json_t *v;

	for (int i = 0; i < 5; i++)
		free(world_create(w, ALICE));
	free(world_create(w, BOB));
	(void)snprintf(w->boxes[0].state, sizeof w->boxes[0].state, "Paused");
	wish.query = STR("pageSize=2&page=2");
	f = world_ask(w, wish);
	v = json_loads(f->body, 0, NULL);
	assert_int_equal(json_array_size(json_object_get(v, "items")), 2);
	assert_int_equal(json_integer_value(json_object_get(
				 json_object_get(v, "pagination"), "totalItems")),
			 5);
	assert_true(json_is_true(
		json_object_get(json_object_get(v, "pagination"), "hasNextPage")));
	json_decref(v);
	assert_null(strstr(f->body, "0f0e0d0c"));
	assert_null(strstr(f->body, "sandgate/"));
	/* The server was asked: one is paused that we thought runs, and that isn't used now. */
	assert_int_equal(
		sql_exec(brain_store_db(w->bench.s), "UPDATE sandboxes SET used_s = 1"),
		ST_OK);
	wish.query = STR("state=Paused");
	f = world_ask(w, wish);
	assert_non_null(strstr(f->body, "\"totalItems\":1"));
	wish.query = STR("metadata=name%3Dn1");
	f = world_ask(w, wish);
	assert_non_null(strstr(f->body, "\"totalItems\":5"));
	wish.query = STR("metadata=name%3Dn2");
	f = world_ask(w, wish);
	assert_non_null(strstr(f->body, "\"totalItems\":0"));
	wish.query = STR("page=0");
	f = world_ask(w, wish);
	assert_int_equal(f->a.http, 400);
}

static void
metadata_is_merged_and_ours_cannot_be_written(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct fake_answer *f =
		world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_METADATA, id,
				     "{\"name\":null,\"color\":\"blue\"}"));

	assert_int_equal(f->a.http, 200);
	assert_string_equal(world_text(f, "metadata", "color"), "blue");
	assert_string_equal(world_text(f, "metadata", "name"), "");
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_METADATA, id,
				 "{\"sandgate/user\":\"u-1\"}"));
	assert_int_equal(f->a.st, ST_BAD_PARAMETER);
	f = world_ask(w,
		      wish_of(ALICE, EXEC_OP_SANDBOX_METADATA, id, "{\"team\":\"y\"}"));
	assert_int_equal(f->a.st, ST_EXEC_REFUSED);
	free(id);
}

static void
a_time_can_be_renewed_up_to_the_operators_limit(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE), body[128];
	json_t *soon = brain_time_json(brain_now_s() + 3600);
	json_t *late = brain_time_json(brain_now_s() + 3 * 3600);
	struct fake_answer *f;

	(void)snprintf(body, sizeof body, "{\"expiresAt\":\"%s\"}",
		       json_string_value(soon));
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_RENEW, id, body));
	assert_int_equal(f->a.http, 200);
	(void)snprintf(body, sizeof body, "{\"expiresAt\":\"%s\"}",
		       json_string_value(late));
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_RENEW, id, body));
	assert_int_equal(f->a.st, ST_BAD_PARAMETER);
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_RENEW, id,
				 "{\"expiresAt\":\"2001-01-01T00:00:00Z\"}"));
	assert_int_equal(f->a.http, 400);
	json_decref(soon);
	json_decref(late);
	free(id);
}

static void
snapshots_are_their_owners(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE), sn[64];
	struct fake_answer *f = world_ask(
		w, wish_of(ALICE, EXEC_OP_SANDBOX_SNAPSHOT, id, "{\"name\":\"a\"}"));
	struct place_wish wish = wish_of(BOB, EXEC_OP_SNAPSHOT_GET, "", "");
	char body[256];

	assert_int_equal(f->a.http, 202);
	(void)snprintf(sn, sizeof sn, "%.60s", world_text(f, NULL, "id"));
	assert_int_equal(strncmp(sn, "sn-", 3), 0);
	assert_string_equal(world_text(f, NULL, "sandboxId"), id);
	wish.id = str_from(sn);
	assert_int_equal(world_ask(w, wish)->a.http, 404);
	(void)snprintf(body, sizeof body, "{\"snapshotId\":\"%s\"}", sn);
	f = world_ask(w, wish_of(BOB, EXEC_OP_SANDBOX_CREATE, "", body));
	assert_int_equal(f->a.kind, PLACE_REFUSE);
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", body));
	assert_int_equal(f->a.http, 202);
	assert_string_equal(world_text(f, NULL, "snapshotId"), sn);
	assert_non_null(strstr(w->last_body, w->boxes[0].snapshot));
	wish.key = STR(ALICE);
	assert_int_equal(world_ask(w, wish)->a.http, 200);
	wish.op = EXEC_OP_SNAPSHOT_LIST;
	wish.id = STR("");
	f = world_ask(w, wish);
	assert_non_null(strstr(f->body, sn));
	assert_non_null(strstr(f->body, "\"totalItems\":1"));
	wish.op = EXEC_OP_SNAPSHOT_DELETE;
	wish.id = str_from(sn);
	assert_int_equal(world_ask(w, wish)->a.http, 204);
	assert_int_equal(world_ask(w, wish)->a.http, 404);
	free(id);
}

static void
the_egress_api_is_answered_here(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct fake_answer *f = world_ask(w, wish_of(ALICE, EXEC_OP_HEALTHZ, id, ""));

	assert_int_equal(f->a.http, 200);
	assert_string_equal(f->body, "ok");
	f = world_ask(
		w,
		wish_of(ALICE, EXEC_OP_POLICY_SET, id,
			"{\"egress\":[{\"action\":\"allow\",\"target\":\"A.test\"}]}"));
	assert_int_equal(f->a.http, 200);
	f = world_ask(w, wish_of(ALICE, EXEC_OP_POLICY_PATCH, id,
				 "[{\"action\":\"deny\",\"target\":\"b.test\"}]"));
	assert_string_equal(world_text(f, NULL, "mode"), "enforcing");
	assert_non_null(strstr(f->body,
			       "[{\"action\":\"deny\",\"target\":\"b.test\"},"
			       "{\"action\":\"allow\",\"target\":\"a.test\"}]"));
	f = world_ask(w,
		      wish_of(ALICE, EXEC_OP_POLICY_DELETE, id, "[\"a.test\",\"zz\"]"));
	assert_null(strstr(f->body, "a.test"));
	f = world_ask(w, wish_of(ALICE, EXEC_OP_POLICY_SET, id, "{\"egress\":7}"));
	assert_int_equal(f->a.http, 400);
	assert_true(str_starts(f->a.type, STR("text/plain")));
	free(id);
}

static struct fake_answer *
ask_held(struct world *w, char id[64])
{
	struct place_wish wish =
		wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY);

	wish.level = RISK_HIGH;
	wish.why = STR("r.yaml:1: it deletes");
	struct fake_answer *f = world_ask(w, wish);
	assert_int_equal(f->a.http, 202);
	assert_string_equal(world_text(f, "status", "state"), "Pending");
	assert_string_equal(world_text(f, "status", "reason"), "awaiting_approval");
	(void)snprintf(id, 64, "%.60s", world_text(f, NULL, "id"));
	assert_int_equal(w->calls_n, 0);
	return f;
}

static void
decide(struct world *w, enum approval_state to)
{
	const struct approval_end e = { .state = to,
					.by = STR("carol"),
					.now_s = approvals_now_s() };

	assert_int_equal(approvals_decide(w->c.approvals, 1, &e), ST_OK);
	world_run(w);
}

static void
a_create_that_a_person_is_asked_about_is_pending_until_then(void **state)
{
	struct world *w = *state;
	char id[64];
	struct place_wish ping, endpoint;
	struct fake_answer *f;

	(void)ask_held(w, id);
	ping = wish_of(ALICE, EXEC_OP_PING, id, "");
	endpoint = wish_of(ALICE, EXEC_OP_SANDBOX_ENDPOINT, id, "");
	ping.port = endpoint.port = 44772;
	assert_int_equal(world_ask(w, endpoint)->a.http, 200);
	f = world_ask(w, ping);
	assert_int_equal(f->a.st, ST_SANDBOX_PENDING);
	assert_int_equal(status_words(f->a.st)->http, 503);
	assert_int_equal(w->calls_n, 0);
	decide(w, APPROVAL_ALLOWED);
	assert_int_equal(w->boxes_n, 1);
	assert_int_equal(world_ask(w, ping)->a.kind, PLACE_ROUTE);
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_GET, id, ""));
	assert_string_equal(world_text(f, "status", "state"), "Running");
}

static void
a_create_that_was_denied_or_ended_is_never_made(void **state)
{
	struct world *w = *state;
	char id[64], second[64];
	struct fake_answer *f;

	(void)ask_held(w, id);
	decide(w, APPROVAL_DENIED);
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_GET, id, ""));
	assert_string_equal(world_text(f, "status", "state"), "Failed");
	/* Nothing is left that others would wait for. */
	assert_false(brain_job_runs(w->c.brain, str_from(id)));
	(void)ask_held(w, second);
	assert_int_equal(
		world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_KILL, second, ""))->a.http,
		204);
	assert_int_equal(
		world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_GET, second, ""))->a.http,
		404);
	assert_int_equal(w->boxes_n, 0);
	assert_int_equal(w->calls_n, 0);
}

static void
a_worker_that_ends_takes_its_tickets_with_it(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct place_wish wish = wish_of(ALICE, EXEC_OP_PING, id, "");

	wish.port = 44772;
	assert_int_equal(world_ask(w, wish)->a.kind, PLACE_ROUTE);
	assert_int_equal(brain_busy(w->c.brain, str_from(id)), 1);
	brain_line_lost(w->c.brain, w->c.lines[1]);
	assert_int_equal(brain_busy(w->c.brain, str_from(id)), 0);
	free(id);
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
		WITH_WORLD(what_a_server_says_of_a_request_is_passed_on),
		WITH_WORLD(a_server_that_lies_is_refused),
		WITH_WORLD(a_server_cannot_give_one_sandbox_to_two),
		WITH_WORLD(a_session_finds_its_sandbox_again),
		WITH_WORLD(two_creates_of_a_session_at_once_make_one),
		WITH_WORLD(a_key_of_idempotency_makes_one),
		WITH_WORLD(what_nobody_waits_for_is_ended),
		WITH_WORLD(a_killed_sandbox_is_gone),
		WITH_WORLD(pause_and_resume_go_on_to_the_server),
		WITH_WORLD(an_endpoint_is_ours_and_opens_with_its_capability),
		WITH_WORLD(an_endpoint_elsewhere_is_not_reached),
		WITH_WORLD(a_call_wakes_what_sleeps_and_its_tickets_keep_it_busy),
		WITH_WORLD(a_frozen_sandbox_comes_back_from_its_snapshot),
		WITH_WORLD(lists_have_true_totals_and_only_ones_own),
		WITH_WORLD(metadata_is_merged_and_ours_cannot_be_written),
		WITH_WORLD(a_time_can_be_renewed_up_to_the_operators_limit),
		WITH_WORLD(snapshots_are_their_owners),
		WITH_WORLD(the_egress_api_is_answered_here),
		WITH_WORLD(a_create_that_a_person_is_asked_about_is_pending_until_then),
		WITH_WORLD(a_create_that_was_denied_or_ended_is_never_made),
		WITH_WORLD(a_worker_that_ends_takes_its_tickets_with_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

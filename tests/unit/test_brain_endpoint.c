/* What runs in a sandbox is called: its endpoints, who is busy there, and what wakes for it. */
#include "tests/unit/brain_world.h"

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
		WITH_WORLD(an_endpoint_is_ours_and_opens_with_its_capability),
		WITH_WORLD(an_endpoint_elsewhere_is_not_reached),
		WITH_WORLD(a_call_wakes_what_sleeps_and_its_tickets_keep_it_busy),
		WITH_WORLD(a_frozen_sandbox_comes_back_from_its_snapshot),
		WITH_WORLD(the_egress_api_is_answered_here),
		WITH_WORLD(a_worker_that_ends_takes_its_tickets_with_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Creates that a person is asked about. */
#include "tests/unit/brain_world.h"

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_WORLD(a_create_that_a_person_is_asked_about_is_pending_until_then),
		WITH_WORLD(a_create_that_was_denied_or_ended_is_never_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

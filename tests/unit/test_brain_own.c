/* What callers ask about sandboxes that are theirs: their state, labels, time and snapshots. */
#include "tests/unit/brain_world.h"

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_WORLD(a_killed_sandbox_is_gone),
		WITH_WORLD(pause_and_resume_go_on_to_the_server),
		WITH_WORLD(lists_have_true_totals_and_only_ones_own),
		WITH_WORLD(metadata_is_merged_and_ours_cannot_be_written),
		WITH_WORLD(a_time_can_be_renewed_up_to_the_operators_limit),
		WITH_WORLD(snapshots_are_their_owners),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

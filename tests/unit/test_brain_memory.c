/* The memory that pausing, freezing and ending give back is what docker said that a sandbox
 * held; where docker says nothing, nothing is claimed, and what was asked for is done. */
#include <string.h>

#include "proxy/control/brain_show.h"
#include "tests/unit/brain_age.h"
#include "tests/unit/brain_locator.h"

enum { NOBODY = -1, SILENT = -2, MIB = 1 << 20 };

static struct fake_locator {
	long long
		says[8]; /* octets, or NOBODY, or SILENT; one answer after the other */
	bool is_hung;    /* silent to all */
	size_t asked;
	char upstream[64];
} the_locator;

static void
locator_heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct wire w = wire_from(m->body);
	struct fake_locator *f = &the_locator;
	struct str upstream = wire_str(&w);
	long long says = f->is_hung ? SILENT : f->says[f->asked];

	(void)ctx;
	assert_int_equal(m->ask, ASK_MEASURE);
	assert_int_equal(wire_end(&w), ST_OK);
	(void)snprintf(f->upstream, sizeof f->upstream, "%.*s", STR_ARG(upstream));
	f->asked++;
	if (says == SILENT)
		return;
	buf_init(&b, 16);
	buf_put_u16(&b, says == NOBODY ? ST_NOT_FOUND : ST_OK);
	if (says != NOBODY)
		buf_put_u64(&b, (uint64_t)says);
	assert_int_equal(
		ask_answer(line, ASK_MEASURE, m->seq, str_of(b.p, b.len), NULL, 0),
		ST_OK);
}

static int
up(void **state)
{
	int rc = world_up(state);

	the_locator = (struct fake_locator){ 0 };
	locator_up(*state, locator_heard);
	return rc;
}

#define WITH_LOCATOR(test) cmocka_unit_test_setup_teardown(test, up, locator_down)

static struct brain_memory
freed_of(struct world *w, const char *id)
{
	return bench_get(&w->bench, str_from(id)).cost.freed;
}

/* NOBODY: null. */
static void
assert_costs(struct world *w, const char *what, long long freed, long long measured)
{
	json_t *costs = brain_show_costs(w->c.brain);
	const json_t *one = json_object_get(costs, what);
	const json_t *told = json_object_get(one, "freed");

	assert_non_null(told);
	assert_true(freed == NOBODY ? json_is_null(told)
				    : json_integer_value(told) == freed);
	assert_int_equal(json_integer_value(json_object_get(one, "measured")),
			 measured);
	json_decref(costs);
}

static void
ask(struct world *w, enum exec_op op, const char *id)
{
	(void)world_ask(w, wish_of(ALICE, op, id, ""));
}

static void
a_snapshot_and_an_end_free_what_was_held(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	const long long says[] = { 34 * MIB, 5 * MIB };

	memcpy(the_locator.says, says, sizeof says);
	assert_false(freed_of(w, id).is_known);
	assert_int_equal(brain_job(w->c.brain, str_from(id), BRAIN_FREEZE, NULL),
			 ST_OK);
	world_run(w);
	assert_int_equal(state_of(w, id), BRAIN_SNAPSHOT);
	assert_string_equal(the_locator.upstream, w->boxes[0].id);
	assert_true(freed_of(w, id).is_known);
	assert_int_equal(freed_of(w, id).octets, 34 * MIB);
	assert_costs(w, "snapshot", 34 * MIB, 1);
	ask(w, EXEC_OP_SANDBOX_RESUME, id);
	assert_int_equal(the_locator.asked, 1);
	ask(w, EXEC_OP_SANDBOX_KILL, id);
	assert_int_equal(state_of(w, id), BRAIN_GONE);
	assert_costs(w, "kill", 5 * MIB, 1);
	free(id);
}

static void
a_pause_frees_what_is_less_behind_it(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	const long long says[] = {
		8 * MIB, 6 * MIB, 7 * MIB, 9 * MIB, 7 * MIB, NOBODY
	};

	memcpy(the_locator.says, says, sizeof says);
	ask(w, EXEC_OP_SANDBOX_PAUSE, id);
	assert_int_equal(freed_of(w, id).octets, 2 * MIB);
	ask(w, EXEC_OP_SANDBOX_RESUME, id);
	ask(w, EXEC_OP_SANDBOX_PAUSE, id);
	assert_true(freed_of(w, id).is_known);
	assert_int_equal(freed_of(w, id).octets, 0);
	assert_costs(w, "pause", 2 * MIB, 2);
	ask(w, EXEC_OP_SANDBOX_RESUME, id);
	ask(w, EXEC_OP_SANDBOX_PAUSE, id);
	assert_int_equal(state_of(w, id), BRAIN_PAUSED);
	assert_false(freed_of(w, id).is_known);
	assert_costs(w, "pause", 2 * MIB, 2);
	assert_int_equal(the_locator.asked, 6);
	free(id);
}

/* As when its process ends. */
static void
locator_ends(struct world *w)
{
	ask_line_free(*locator_end());
	*locator_end() = NULL;
	world_run(w);
	ask_line_free(w->c.locator);
	w->c.locator = NULL;
}

static void
what_nobody_measured_is_not_told(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);

	locator_ends(w);
	ask(w, EXEC_OP_SANDBOX_PAUSE, id);
	assert_int_equal(state_of(w, id), BRAIN_PAUSED);
	ask(w, EXEC_OP_SANDBOX_KILL, id);
	assert_int_equal(state_of(w, id), BRAIN_GONE);
	assert_costs(w, "pause", NOBODY, 0);
	assert_costs(w, "kill", NOBODY, 0);
	assert_int_equal(the_locator.asked, 0);
	free(id);
}

static void
a_locator_that_ends_meanwhile_keeps_nothing_from_its_end(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);

	the_locator.says[0] = SILENT;
	struct fake_answer *f =
		world_begin(w, wish_of(ALICE, EXEC_OP_SANDBOX_KILL, id, ""));
	world_run(w);
	assert_false(f->is_there);
	assert_int_equal(state_of(w, id), BRAIN_KILLING);
	locator_ends(w);
	world_run(w);
	assert_true(f->is_there);
	assert_int_equal(f->a.http, 204);
	assert_int_equal(state_of(w, id), BRAIN_GONE);
	assert_costs(w, "kill", NOBODY, 0);
	free(id);
}

static void
a_brain_that_ends_asks_no_more(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);

	the_locator.says[0] = SILENT;
	assert_int_equal(brain_job(w->c.brain, str_from(id), BRAIN_KILL, NULL), ST_OK);
	world_run(w);
	assert_int_equal(the_locator.asked, 1);
	free(id); /* and world_down(), with the question open */
}

/* A docker that hangs, or is asked too much. */

enum { MANY = 40, ASK_MS = 2000, ASKS_A_SECOND = 100 };

static void
wait_for(struct world *w, const struct fake_answer *f)
{
	for (uint64_t end = loop_now_ms(w->c.loop) + 10ULL * ASK_MS;
	     !f->is_there && loop_now_ms(w->c.loop) < end;)
		world_run(w);
	assert_true(f->is_there);
}

static void
many_ends_wait_for_a_docker_that_hangs_no_longer_than_one(void **state)
{
	struct world *w = *state;
	char *ids[MANY];
	struct fake_answer *all[MANY];

	for (size_t i = 0; i < MANY; i++)
		ids[i] = world_create(w, ALICE);
	the_locator.is_hung = true;
	uint64_t since = loop_now_ms(w->c.loop);
	for (size_t i = 0; i < MANY; i++)
		all[i] = world_begin(w,
				     wish_of(ALICE, EXEC_OP_SANDBOX_KILL, ids[i], ""));
	for (size_t i = 0; i < MANY; i++) {
		wait_for(w, all[i]);
		assert_int_equal(all[i]->a.http, 204);
		assert_int_equal(state_of(w, ids[i]), BRAIN_GONE);
		free(ids[i]);
	}
	assert_true(loop_now_ms(w->c.loop) - since < 2ULL * ASK_MS);
	assert_int_equal(the_locator.asked, MANY);
	assert_costs(w, "kill", NOBODY, 0);
}

static void
an_end_while_a_pause_is_still_measured_comes_behind_it(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	const long long says[] = { 8 * MIB, SILENT, 3 * MIB };

	memcpy(the_locator.says, says, sizeof says);
	struct fake_answer *pause =
		world_begin(w, wish_of(ALICE, EXEC_OP_SANDBOX_PAUSE, id, ""));
	world_run(w);
	assert_int_equal(state_of(w, id), BRAIN_PAUSED);
	assert_false(pause->is_there);
	struct fake_answer *kill =
		world_begin(w, wish_of(ALICE, EXEC_OP_SANDBOX_KILL, id, ""));
	wait_for(w, kill);
	assert_true(pause->is_there);
	assert_int_equal(pause->a.http, 202);
	assert_int_equal(kill->a.http, 204);
	assert_int_equal(state_of(w, id), BRAIN_GONE);
	assert_costs(w, "pause", NOBODY, 0);
	assert_costs(w, "kill", 3 * MIB, 1);
	free(id);
}

static void
ignored(void *ctx, enum status st, const struct pin_found *found)
{
	(void)ctx;
	(void)st;
	(void)found;
}

static void
what_is_asked_too_often_is_done_unmeasured_and_at_once(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct pin_wish wish = { .id = STR("x"), .upstream = STR("x"), .fn = ignored };
	struct pin *pins[ASKS_A_SECOND];

	the_locator.is_hung = true;
	for (size_t i = 0; i < ASKS_A_SECOND; i++)
		assert_int_equal(pin_measure(&w->c, &wish, &pins[i]), ST_OK);
	ask(w, EXEC_OP_SANDBOX_KILL, id);
	assert_int_equal(state_of(w, id), BRAIN_GONE);
	assert_costs(w, "kill", NOBODY, 0);
	for (size_t i = 0; i < ASKS_A_SECOND; i++)
		pin_cancel(pins[i]);
	free(id);
}

static void
what_was_freed_is_never_more_than_a_number_holds(void **state)
{
	struct world *w = *state;
	const struct brain_memory most = { true, INT64_MAX };

	for (int i = 0; i < 3; i++)
		brain_spend(w->c.brain, BRAIN_SPENT_KILL, 1, most);
	assert_costs(w, "kill", INT64_MAX, 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_LOCATOR(a_snapshot_and_an_end_free_what_was_held),
		WITH_LOCATOR(a_pause_frees_what_is_less_behind_it),
		WITH_LOCATOR(what_nobody_measured_is_not_told),
		WITH_LOCATOR(a_locator_that_ends_meanwhile_keeps_nothing_from_its_end),
		WITH_LOCATOR(a_brain_that_ends_asks_no_more),
		WITH_LOCATOR(many_ends_wait_for_a_docker_that_hangs_no_longer_than_one),
		WITH_LOCATOR(an_end_while_a_pause_is_still_measured_comes_behind_it),
		WITH_LOCATOR(what_is_asked_too_often_is_done_unmeasured_and_at_once),
		WITH_LOCATOR(what_was_freed_is_never_more_than_a_number_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

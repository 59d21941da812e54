/* In which language a context runs what it gets: what control remembers of it. */
#include "tests/unit/brain_world.h"

static void
tell(struct world *w, uint64_t ticket, const char *id, const char *language)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 512);
	buf_put_u64(&b, ticket);
	wire_put_str(&b, str_from(id));
	wire_put_str(&b, str_from(language));
	assert_int_equal(ask_tell(w->worker, ASK_CONTEXT, str_of(b.p, b.len), NULL, 0),
			 ST_OK);
	world_run(w);
}

static struct fake_answer *
make(struct world *w, const char *id)
{
	struct place_wish wish = wish_of(ALICE, EXEC_OP_CONTEXT_CREATE, id, "");

	wish.port = 44772;
	return world_ask(w, wish);
}

/* As a request that names it is told. */
static void
expect(struct world *w, const char *id, const char *context, const char *language)
{
	struct place_wish wish = wish_of(ALICE, EXEC_OP_CODE_RUN, id, "");

	wish.port = 44772;
	wish.id = str_from(context);
	struct fake_answer *f = world_ask(w, wish);
	assert_int_equal(f->a.kind, PLACE_ROUTE);
	if (!str_eq(f->a.language, str_from(language)))
		fail_msg("%s: %.*s, not %s", context, STR_ARG(f->a.language), language);
	world_left(w, f->ticket);
}

static void
what_execd_said_is_known_to_every_request_of_that_sandbox(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE), *other = world_create(w, ALICE);
	struct fake_answer *f = make(w, id);

	expect(w, id, "c1", "");
	tell(w, f->ticket, "c1", "python");
	tell(w, f->ticket, "c2", "bash");
	world_left(w, f->ticket);
	expect(w, id, "c1", "python");
	expect(w, id, "c2", "bash");
	expect(w, id, "c3", "");
	expect(w, id, "", "");
	expect(w, other, "c1", "");
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_PAUSE, id, ""));
	expect(w, id, "c1", "python");
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_KILL, id, ""));
	assert_string_equal(
		brain_context_language(w->c.brain, str_from(id), STR("c1")).p, "");
	free(id);
	free(other);
}

static void
what_is_said_in_two_ways_or_out_of_turn_is_not_known(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct fake_answer *f = make(w, id);

	tell(w, f->ticket, "c1", "python");
	tell(w, f->ticket, "c1", "bash");
	tell(w, f->ticket, "c1", "python");
	expect(w, id, "c1", "");
	tell(w, f->ticket, "c2", "py thon");
	expect(w, id, "c2", "");
	tell(w, f->ticket + 9, "c3", "python");
	expect(w, id, "c3", "");
	world_left(w, f->ticket);
	tell(w, f->ticket, "c4", "python");
	expect(w, id, "c4", "");
	free(id);
}

static void
many_contexts_push_out_only_their_own(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE), *other = world_create(w, ALICE);
	struct fake_answer *f = make(w, other);

	tell(w, f->ticket, "mine", "python");
	f = make(w, id);
	for (int i = 0; i < 200; i++) {
		char name[16];
		(void)snprintf(name, sizeof name, "c%d", i);
		tell(w, f->ticket, name, "python");
	}
	expect(w, id, "c0", "");
	expect(w, id, "c199", "python");
	expect(w, other, "mine", "python");
	free(id);
	free(other);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_WORLD(what_execd_said_is_known_to_every_request_of_that_sandbox),
		WITH_WORLD(what_is_said_in_two_ways_or_out_of_turn_is_not_known),
		WITH_WORLD(many_contexts_push_out_only_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

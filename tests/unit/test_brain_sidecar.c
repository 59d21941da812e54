/* The egress API of a sandbox that a listener names: who may ask, and what becomes of it. */
#include "tests/unit/brain_world.h"

#include "proxy/control/brain_policy.h"

#define TOKEN "t0ken"
/* Of TOKEN. */
#define TOKEN_SHA256 "b46c09677343261f0b439a472422225e3a230c9c094d6ab16762e2036b597053"

static const char config[] =
	"policies:\n"
	"  wide: {allow: [{any_host: true}], deny: [{hosts: [never.test.example]}]}\n"
	"listeners:\n"
	"  - {name: api, kind: opensandbox, address: '0.0.0.0:18080', plain: true, "
	"sandbox: box, token_sha256: " TOKEN_SHA256 "}\n"
	"resolver: {servers: [192.0.2.1]}\n"
	"exec: {policy: wide}\n";

static int
up(void **state)
{
	return world_up_with(state, config);
}

/* It is known to all roles, with this narrowing. */
static void
enroll(struct world *w, const char *narrow)
{
	(void)snprintf(w->enrolled, sizeof w->enrolled, "box");
	w->who.user = STR("alice");
	w->who.may.narrow = narrow_new(str_from(narrow));
	assert_non_null(w->who.may.narrow);
}

static int
down(void **state)
{
	struct world *w = *state;

	narrow_free((struct narrow *)(uintptr_t)w->who.may.narrow);
	return world_down(state);
}

static struct fake_answer *
ask(struct world *w, enum exec_op op, const char *body)
{
	return world_ask(w, wish_of(TOKEN, op, "box", body));
}

static void
it_is_not_ready_before_the_sandbox_is_known(void **state)
{
	struct world *w = *state;
	struct fake_answer *f = ask(w, EXEC_OP_HEALTHZ, "");

	assert_int_equal(f->a.kind, PLACE_REFUSE);
	assert_int_equal(f->a.st, ST_SANDBOX_PENDING);
	enroll(w, "default deny\n");
	f = ask(w, EXEC_OP_HEALTHZ, "");
	assert_int_equal(f->a.http, 200);
	assert_string_equal(f->body, "ok");
	assert_true(str_eq(f->a.sandbox, STR("box")));
}

static void
only_the_token_of_its_listener_counts(void **state)
{
	static const struct {
		const char *key;
		enum status st;
	} cases[] = { { "", ST_KEY_MISSING },
		      { "t0kem", ST_KEY_INVALID },
		      { "t0ken ", ST_KEY_INVALID },
		      { ALICE, ST_KEY_INVALID },
		      { TOKEN_SHA256, ST_KEY_INVALID } };
	struct world *w = *state;

	enroll(w, "default deny\n");
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct fake_answer *f = world_ask(
			w, wish_of(cases[i].key, EXEC_OP_POLICY_GET, "box", ""));
		assert_int_equal(f->a.kind, PLACE_REFUSE);
		assert_int_equal(f->a.st, cases[i].st);
	}
	/* And it is good for nothing else. */
	struct fake_answer *f =
		world_ask(w, wish_of(TOKEN, EXEC_OP_SANDBOX_GET, "box", ""));
	assert_int_equal(f->a.st, ST_KEY_INVALID);
	f = world_ask(w, wish_of(TOKEN, EXEC_OP_POLICY_GET, "other", ""));
	assert_int_equal(f->a.st, ST_KEY_INVALID);
}

static void
wrong_tokens_are_counted_and_the_right_one_passes(void **state)
{
	struct world *w = *state;
	struct fake_answer *f = NULL;

	enroll(w, "default deny\n");
	/* 40 on a machine that does nothing else. */
	for (int i = 0; i < 1000 && (f == NULL || f->a.st != ST_LIMIT_RATE); i++)
		f = world_ask(w, wish_of("wrong", EXEC_OP_HEALTHZ, "box", ""));
	assert_int_equal(f->a.st, ST_LIMIT_RATE);
	assert_int_equal(ask(w, EXEC_OP_HEALTHZ, "")->a.http, 200);
}

static void
its_policy_is_what_narrows_it(void **state)
{
	struct world *w = *state;
	struct fake_answer *f;

	enroll(w, "default allow\ndeny 10.0.0.0/8\nallow *.a.test\n");
	f = ask(w, EXEC_OP_POLICY_GET, "");
	assert_int_equal(f->a.http, 200);
	assert_non_null(strstr(f->body,
			       "\"defaultAction\":\"allow\",\"egress\":["
			       "{\"action\":\"deny\",\"target\":\"10.0.0.0/8\"},"
			       "{\"action\":\"allow\",\"target\":\"*.a.test\"}]"));
	f = ask(w, EXEC_OP_POLICY_PATCH,
		"[{\"action\":\"deny\",\"target\":\"B.test\"}]");
	assert_int_equal(f->a.http, 200);
	assert_string_equal(w->narrow, "default allow\ndeny b.test\ndeny 10.0.0.0/8\n"
				       "allow *.a.test\n");
	f = ask(w, EXEC_OP_POLICY_DELETE, "[\"*.a.test\"]");
	assert_int_equal(f->a.http, 200);
	assert_string_equal(w->narrow, "default allow\ndeny 10.0.0.0/8\n");
	f = ask(w, EXEC_OP_POLICY_SET, "{}");
	assert_string_equal(world_text(f, NULL, "mode"), "deny_all");
	assert_string_equal(w->narrow, "default deny\n");
	f = ask(w, EXEC_OP_POLICY_SET, "{\"egress\": 7}");
	assert_int_equal(f->a.http, 400);
	assert_true(str_starts(f->a.type, STR("text/plain")));
	assert_string_equal(w->narrow, "default deny\n");
	/* No server is asked, and no store. */
	assert_int_equal(w->calls_n, 0);
}

static void
who_goes_away_changes_the_policy_all_the_same(void **state)
{
	struct world *w = *state;
	struct fake_answer *f;

	enroll(w, "default deny\n");
	f = world_begin(w, wish_of(TOKEN, EXEC_OP_POLICY_SET, "box",
				   "{\"defaultAction\":\"allow\"}"));
	world_left(w, f->ticket);
	world_run(w);
	assert_string_equal(w->narrow, "default allow\n");
}

static void
a_rule_for_every_host_reads_as_a_default(void **state)
{
	struct world *w = *state;
	json_t *wide = netpolicy_of_image(w->c.role.image, 0), *narrow, *both;
	CLEANUP(buf_done) struct buf why = { 0 };

	buf_init(&why, 512);
	assert_non_null(wide);
	assert_true(netpolicy_allows(wide, STR("a.test")));
	assert_false(netpolicy_allows(wide, STR("never.test.example")));
	narrow = json_pack("{s:s, s:[{s:s, s:s}, {s:s, s:s}]}", "defaultAction", "deny",
			   "egress", "action", "allow", "target", "a.test", "action",
			   "allow", "target", "never.test.example");
	both = netpolicy_narrow(wide, narrow);
	assert_true(netpolicy_allows(both, STR("a.test")));
	assert_false(netpolicy_allows(both, STR("b.test")));
	assert_false(netpolicy_allows(both, STR("never.test.example")));
	json_decref(both);
	both = netpolicy_narrow(wide, NULL);
	assert_true(netpolicy_allows(both, STR("b.test")));
	json_decref(both);
	json_decref(narrow);
	json_decref(wide);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, up, down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(it_is_not_ready_before_the_sandbox_is_known),
		WITH(only_the_token_of_its_listener_counts),
		WITH(wrong_tokens_are_counted_and_the_right_one_passes),
		WITH(its_policy_is_what_narrows_it),
		WITH(who_goes_away_changes_the_policy_all_the_same),
		WITH(a_rule_for_every_host_reads_as_a_default),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

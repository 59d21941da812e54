/* credential-vault of the egress API: values go to the keeper, and only where a connector of the
 * operator's takes a user's own. */
#include "proxy/io/vault_op.h"
#include "tests/unit/brain_world.h"

static const char vault_config[] =
	"policies: {p: {connectors: [tracker, fixed], allow: []}}\n"
	"resolver: {servers: [192.0.2.1]}\n"
	"listeners: [{name: e, kind: opensandbox, address: '127.0.0.1:8090'}]\n"
	"connectors:\n"
	"  - {name: tracker, hosts: [tracker.example.test], auth: {kind: bearer, "
	"secret: "
	"'users/{user}/tracker'}, allow: [{methods: [GET]}]}\n"
	"  - {name: fixed, hosts: [fixed.example.test], auth: {kind: bearer, secret: "
	"fixed}, "
	"allow: [{methods: [GET]}]}\n"
	"servers:\n"
	"  - {name: one, url: 'http://127.0.0.1:8081', key: k/one, tier: standard, "
	"network: sg, "
	"endpoints: [127.0.0.0/8]}\n"
	"exec: {policy: p}\n";

struct vault_log { /* what the keeper was asked */
	struct ask_line *line;
	struct ask_line *theirs;
	char said[512];
	bool is_there;
	size_t n;
};

static struct vault_log *
vault_log(void)
{
	static struct vault_log l;

	return &l;
}

static void
keeper_heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct vault_log *l = vault_log();
	struct vault_ask a;
	char value[64] = "", answer[64];
	enum status st = ST_OK;
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)ctx;
	assert_int_equal(m->ask, ASK_VAULT);
	assert_int_equal(vault_ask_get(m->body, &a), ST_OK);
	assert_int_equal(m->fds_n, 1);
	assert_true(pread(m->fds[0], value, sizeof value - 1, 0) > 0);
	if (a.op == VAULT_OP_PUT && l->is_there)
		st = ST_CONFLICT;
	(void)snprintf(l->said, sizeof l->said, "%s %.*s %.*s %.*s %.*s %s",
		       vault_op_word(a.op), STR_ARG(a.name), STR_ARG(a.tenant),
		       STR_ARG(a.connector), STR_ARG(a.user), value);
	l->n++;
	l->is_there = true;
	buf_init(&b, 64);
	buf_put_u16(&b, (uint16_t)st);
	wire_put_str(&b, STR("{}"));
	memcpy(answer, b.p, b.len);
	assert_int_equal(
		ask_answer(line, m->ask, m->seq, str_of(answer, b.len), NULL, 0),
		ST_OK);
}

static int
vault_up(void **state)
{
	int rc = world_up_with(state, vault_config);
	struct world *w = *state;
	struct vault_log *l = vault_log();

	*l = (struct vault_log){ 0 };
	l->theirs = world_line(w, ROLE_KEEPER, keeper_heard, world_ours_lost, &l->line);
	w->c.keeper = l->theirs;
	return rc;
}

static int
vault_down(void **state)
{
	struct vault_log *l = vault_log();

	ask_line_free(l->line);
	ask_line_free(l->theirs);
	return world_down(state);
}

#define WITH_VAULT(test) cmocka_unit_test_setup_teardown(test, vault_up, vault_down)

#define BODY(host, value)                                                              \
	"{\"credentials\":[{\"name\":\"c\",\"source\":{\"type\":\"inline\",\"value\":" \
	"\"" value "\"}}],\"bindings\":[{\"name\":\"b\",\"match\":{\"hosts\":[\"" host \
	"\"]},\"auth\":{\"type\":\"bearer\",\"credential\":\"c\"}}]}"

static void
a_value_goes_to_the_keeper_as_the_users_own(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct fake_answer *f =
		world_ask(w, wish_of(ALICE, EXEC_OP_VAULT_CREATE, id,
				     BODY("tracker.example.test", "s3cr3t")));

	assert_int_equal(f->a.http, 201);
	assert_string_equal(vault_log()->said,
			    "put users/alice/tracker blue tracker alice s3cr3t");
	assert_null(strstr(f->body, "s3cr3t"));
	f = world_ask(w, wish_of(ALICE, EXEC_OP_VAULT_GET, id, ""));
	assert_int_equal(f->a.http, 200);
	assert_non_null(strstr(f->body, "\"sourceType\":\"inline\""));
	assert_null(strstr(f->body, "s3cr3t"));
	f = world_ask(w, wish_of(ALICE, EXEC_OP_VAULT_CREATE, id,
				 BODY("tracker.example.test", "other")));
	assert_int_equal(f->a.http, 409);
	/* Replaced: a new version of the same secret. */
	f = world_ask(
		w,
		wish_of(ALICE, EXEC_OP_VAULT_PATCH, id,
			"{\"expectedRevision\":1,\"credentials\":{\"replace\":[{"
			"\"name\":"
			"\"c\",\"source\":{\"type\":\"inline\",\"value\":\"n3w\"}}]},"
			"\"bindings\":{\"replace\":[{\"name\":\"b\",\"match\":{"
			"\"hosts\":["
			"\"tracker.example.test\"]},\"auth\":{\"type\":\"bearer\","
			"\"credential\":\"c\"}}]}}"));
	assert_int_equal(f->a.http, 200);
	assert_string_equal(vault_log()->said, "rotate users/alice/tracker blue   n3w");
	f = world_ask(
		w, wish_of(ALICE, EXEC_OP_VAULT_PATCH, id, "{\"expectedRevision\":1}"));
	assert_int_equal(f->a.http, 409);
	f = world_ask(w, wish_of(ALICE, EXEC_OP_VAULT_DELETE, id, ""));
	assert_int_equal(f->a.http, 204);
	f = world_ask(w, wish_of(ALICE, EXEC_OP_VAULT_GET, id, ""));
	assert_int_equal(f->a.http, 404);
	free(id);
}

#define PATCH(expected, value)                                                         \
	"{" expected                                                                   \
	"\"credentials\":{\"replace\":[{\"name\":\"c\",\"source\":{\"type\":"          \
	"\"inline\",\"value\":\"" value "\"}}]},\"bindings\":{\"replace\":[{\"name\":" \
	"\"b\",\"match\":{\"hosts\":[\"tracker.example.test\"]},\"auth\":{\"type\":"   \
	"\"bearer\",\"credential\":\"c\"}}]}}"

static json_int_t
revision_of(struct world *w, const char *id)
{
	struct fake_answer *f = world_ask(w, wish_of(ALICE, EXEC_OP_VAULT_GET, id, ""));
	json_t *v = json_loads(f->body, 0, NULL);
	json_int_t n = json_integer_value(json_object_get(v, "revision"));

	json_decref(v);
	return n;
}

/* Both are there before the keeper has answered anybody. */
static void
two_ask(struct world *w, enum exec_op op, const char *id, const char *body,
	const char *other, uint16_t ret_http[2])
{
	struct fake_answer *a = world_begin(w, wish_of(ALICE, op, id, body));
	struct fake_answer *b = world_begin(w, wish_of(ALICE, op, id, other));

	world_run(w);
	assert_true(a->is_there && b->is_there);
	ret_http[0] = a->a.http;
	ret_http[1] = b->a.http;
}

static void
of_two_changes_at_a_time_none_is_lost(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	uint16_t http[2];

	two_ask(w, EXEC_OP_VAULT_CREATE, id, BODY("tracker.example.test", "one"),
		BODY("tracker.example.test", "two"), http);
	assert_int_equal(http[0], 201);
	assert_int_equal(http[1], 409);
	assert_non_null(strstr(vault_log()->said, " one"));
	/* Of the same revision: the keeper hears of the first only. */
	two_ask(w, EXEC_OP_VAULT_PATCH, id, PATCH("\"expectedRevision\":1,", "three"),
		PATCH("\"expectedRevision\":1,", "four"), http);
	assert_int_equal(http[0], 200);
	assert_int_equal(http[1], 409);
	assert_non_null(strstr(vault_log()->said, " three"));
	assert_int_equal(revision_of(w, id), 2);
	/* Of whichever is there: one behind the other. */
	two_ask(w, EXEC_OP_VAULT_PATCH, id, PATCH("", "five"), PATCH("", "six"), http);
	assert_int_equal(http[0], 200);
	assert_int_equal(http[1], 200);
	assert_non_null(strstr(vault_log()->said, " six"));
	assert_int_equal(revision_of(w, id), 4);
	two_ask(w, EXEC_OP_VAULT_PATCH, id, PATCH("\"expectedRevision\":\"4\",", "7"),
		PATCH("\"expectedRevision\":4.5,", "8"), http);
	assert_int_equal(http[0], 400);
	assert_int_equal(http[1], 400);
	free(id);
}

static void
who_waits_for_a_change_of_what_is_ended_is_told(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct fake_answer *a, *b;

	(void)world_ask(w, wish_of(ALICE, EXEC_OP_VAULT_CREATE, id,
				   BODY("tracker.example.test", "one")));
	a = world_begin(w, wish_of(ALICE, EXEC_OP_VAULT_PATCH, id, PATCH("", "two")));
	b = world_begin(w, wish_of(ALICE, EXEC_OP_VAULT_PATCH, id, PATCH("", "three")));
	/* Both are read, and the keeper isn't. */
	ask_line_free(vault_log()->line);
	vault_log()->line = NULL;
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_KILL, id, ""));
	assert_true(a->is_there && b->is_there);
	assert_int_not_equal(a->a.http, 200);
	assert_int_not_equal(b->a.http, 200);
	assert_int_equal(w->c.brain->vaults.len, 0);
	free(id);
}

static void
what_no_connector_takes_is_refused_and_kept_nowhere(void **state)
{
	static const char *const refused[] = {
		BODY("other.example.test", "x"),
		BODY("fixed.example.test", "x"),
		BODY("*.example.test", "x"),
		BODY("127.0.0.1", "x"),
		"{\"credentials\":[{\"name\":\"c\",\"source\":{\"type\":\"inline\","
		"\"value\":\"x\"}}],"
		"\"bindings\":[]}",
		"{\"credentials\":[{\"name\":\"c\",\"source\":{\"type\":\"http\","
		"\"url\":\"x\"}}],"
		"\"bindings\":[]}",
		"{\"credentials\":7}",
		"{\"credentials\":[],\"bindings\":[{\"name\":\"b\",\"match\":{"
		"\"hosts\":["
		"\"tracker.example.test\"]},\"auth\":{\"type\":\"bearer\","
		"\"credential\":\"c\"}}]}",
		"{\"credentials\":[{\"name\":\"c\",\"source\":{\"type\":\"inline\","
		"\"value\":\"x\"}}],"
		"\"bindings\":[{\"name\":\"b\",\"match\":{\"hosts\":[\"tracker.example."
		"test\"]},"
		"\"auth\":{\"type\":\"apiKey\",\"name\":\"x-key\",\"credential\":\"c\"}"
		"}]}",
		"{\"credentials\":[{\"name\":\"c\",\"source\":{\"type\":\"inline\","
		"\"value\":\"x\"}}],"
		"\"bindings\":[{\"name\":\"b\",\"match\":{\"hosts\":[\"tracker.example."
		"test\"],"
		"\"schemes\":[\"http\"]},\"auth\":{\"type\":\"bearer\",\"credential\":"
		"\"c\"}}]}",
	};
	struct world *w = *state;
	char *id = world_create(w, ALICE);

	for (size_t i = 0; i < COUNT_OF(refused); i++) {
		struct fake_answer *f = world_ask(
			w, wish_of(ALICE, EXEC_OP_VAULT_CREATE, id, refused[i]));

		assert_int_equal(f->a.kind, PLACE_ANSWER);
		assert_true(f->a.http == 412 || f->a.http == 400);
	}
	assert_int_equal(vault_log()->n, 0);
	assert_int_equal(
		world_ask(w, wish_of(ALICE, EXEC_OP_VAULT_GET, id, ""))->a.http, 404);
	free(id);
}

static void
a_vault_stays_small(void **state)
{
	static const char one[] = "{\"name\":\"c%d\",\"source\":{\"type\":\"inline\","
				  "\"value\":\"x\"}}";
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	CLEANUP(buf_done) struct buf b = { 0 };
	struct fake_answer *f;

	assert_int_equal(world_ask(w, wish_of(ALICE, EXEC_OP_VAULT_CREATE, id,
					      BODY("tracker.example.test", "x")))
				 ->a.http,
			 201);
	buf_init(&b, 32 * 1024);
	buf_put(&b, STR("{\"credentials\":{\"add\":["));
	for (int i = 0; i < 64; i++) {
		buf_put(&b, i == 0 ? STR("") : STR(","));
		buf_putf(&b, one, i);
	}
	buf_put(&b, STR("]}}"));
	f = world_ask(w, wish_of(ALICE, EXEC_OP_VAULT_PATCH, id, buf_cstr(&b)));
	assert_int_equal(f->a.http, 400);
	assert_non_null(strstr(f->body, "at most 64"));
	buf_clear(&b);
	buf_put(&b, STR("{\"bindings\":{\"replace\":[{\"name\":\"b\",\"match\":{"
			"\"hosts\":[\"tracker.example.test\"],\"methods\":[\""));
	for (int i = 0; i < 9000; i++)
		buf_putc(&b, 'M');
	buf_put(&b,
		STR("\"]},\"auth\":{\"type\":\"bearer\",\"credential\":\"c\"}}]}}"));
	f = world_ask(w, wish_of(ALICE, EXEC_OP_VAULT_PATCH, id, buf_cstr(&b)));
	assert_int_equal(f->a.http, 400);
	assert_non_null(strstr(f->body, "8 KiB"));
	free(id);
}

static void
without_the_keeper_nothing_is_said_to_be_kept(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);

	w->c.keeper = NULL;
	struct fake_answer *f =
		world_ask(w, wish_of(ALICE, EXEC_OP_VAULT_CREATE, id,
				     BODY("tracker.example.test", "x")));
	assert_int_equal(f->a.kind, PLACE_REFUSE);
	assert_int_equal(f->a.st, ST_NO_KEEPER);
	assert_int_equal(
		world_ask(w, wish_of(ALICE, EXEC_OP_VAULT_GET, id, ""))->a.http, 404);
	free(id);
}

/* The same configuration has a network before which the gateway stands. */
static void
a_sandbox_is_known_by_its_address_while_it_lives(void **state)
{
	struct world *w = *state;
	struct fake_answer *f = world_ask(
		w, wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "",
			   "{\"image\":{\"uri\":\"sg/x\"},\"entrypoint\":[\"x\"],"
			   "\"networkPolicy\":{\"egress\":[{\"action\":\"allow\","
			   "\"target\":\"a.test\"}]}}"));
	char id[64];

	assert_int_equal(f->a.http, 202);
	(void)snprintf(id, sizeof id, "%.60s", world_text(f, NULL, "id"));
	assert_string_equal(w->enrolled, id);
	assert_string_equal(w->from, "172.30.0.5");
	assert_string_equal(w->policy, "p");
	assert_string_equal(w->user, "alice");
	assert_string_equal(w->narrow, "default deny\nallow a.test\n");
	assert_null(strstr(w->last_body, "networkPolicy"));
	assert_false(w->trusts_ca);
	assert_null(strstr(w->last_body, "OPENSANDBOX_EGRESS"));
	f = world_ask(w, wish_of(ALICE, EXEC_OP_POLICY_SET, id, "{}"));
	assert_int_equal(f->a.http, 200);
	assert_string_equal(w->narrow, "default deny\n");
	/* Super is another one: it is made known again. */
	w->enrolled[0] = '\0';
	brain_bind_all(w->c.brain);
	world_run(w);
	assert_string_equal(w->enrolled, id);
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_KILL, id, ""));
	assert_int_equal(w->ends, 1);
}

#define OF_SESSION(policy)                                                             \
	"{\"image\":{\"uri\":\"sg/x\"},\"entrypoint\":[\"x\"]" policy "}"
#define ONLY(host)                                                                     \
	",\"networkPolicy\":{\"egress\":[{\"action\":\"allow\",\"target\":\"" host     \
	"\"}]}"

/* Where the gateway enforces it, a policy is no part of what is found again. */
static void
what_is_given_again_reaches_what_the_latest_request_says(void **state)
{
	static const struct {
		const char *body, *narrow;
	} asks[] = {
		{ OF_SESSION(ONLY("a.test")), "default deny\nallow a.test\n" },
		{ OF_SESSION(ONLY("b.test")), "default deny\nallow b.test\n" },
		/* Nothing is asked for: nothing is widened. */
		{ OF_SESSION(""), "default deny\nallow b.test\n" },
	};
	struct world *w = *state;
	char id[64] = "";

	for (size_t i = 0; i < COUNT_OF(asks); i++) {
		struct place_wish wish =
			wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", asks[i].body);

		wish.session = STR("s1");
		struct fake_answer *f = world_ask(w, wish);
		assert_int_equal(f->a.http, 202);
		if (i == 0)
			(void)snprintf(id, sizeof id, "%.60s",
				       world_text(f, NULL, "id"));
		assert_string_equal(world_text(f, NULL, "id"), id);
		assert_string_equal(w->narrow, asks[i].narrow);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_VAULT(a_value_goes_to_the_keeper_as_the_users_own),
		WITH_VAULT(of_two_changes_at_a_time_none_is_lost),
		WITH_VAULT(who_waits_for_a_change_of_what_is_ended_is_told),
		WITH_VAULT(what_no_connector_takes_is_refused_and_kept_nowhere),
		WITH_VAULT(a_sandbox_is_known_by_its_address_while_it_lives),
		WITH_VAULT(what_is_given_again_reaches_what_the_latest_request_says),
		WITH_VAULT(a_vault_stays_small),
		WITH_VAULT(without_the_keeper_nothing_is_said_to_be_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

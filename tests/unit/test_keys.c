/* Who asks on an execution listener: keys, tokens, capabilities, and what they are good for. */
#include "proxy/control/call.h"
#include "proxy/control/issuers.h"
#include "proxy/control/keys_in.h"
#include "proxy/control/principal.h"
#include "tests/unit/brain_bench.h"
#include "tests/unit/jwt_make.h"
#include "tests/unit/make_image.h"

#define KEY   "sgk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define OTHER "sgk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE"

static const char config[] =
	"policies: {p: {connectors: [], allow: []}}\n"
	"resolver: {servers: [192.0.2.1]}\n"
	"listeners: [{name: e, kind: opensandbox, address: '127.0.0.1:8090'}]\n"
	"servers: [{name: s, url: 'http://127.0.0.1:8080', key: s/key, tier: standard,"
	" endpoints: [127.0.0.0/8]}]\n"
	"connectors:\n"
	"  - {name: idp, hosts: [idp.example.test], auth: {kind: bearer, secret: idp},"
	" allow: [{methods: [GET]}]}\n"
	"exec:\n"
	"  jwt:\n"
	"    - {issuer: 'https://idp.example.test', audience: other, jwks_connector: "
	"idp,"
	" jwks_path: /other, user_claim: email}\n"
	"    - {issuer: 'https://idp.example.test', audience: sandgate,"
	" jwks_connector: idp, jwks_path: /jwks, tenant: blue, scopes: [run, read]}\n";

/* Calls are taken down, and answered when the test says so. */
struct fake_call {
	call_fn fn;
	void *ctx;
	char target[64];
	unsigned n;
	enum status refuse; /* ST_OK: begins */
};

static struct fake_call *
fake(void)
{
	static struct fake_call f;

	return &f;
}

enum status
call_begin(struct control *c, const struct call_wish *wish, call_fn fn, void *ctx,
	   struct call **ret_call)
{
	struct fake_call *f = fake();

	(void)c;
	assert_true(str_eq(wish->connector, STR("idp")));
	assert_true(str_eq(wish->method, STR("GET")));
	f->n++;
	if (f->refuse != ST_OK)
		return f->refuse;
	f->fn = fn;
	f->ctx = ctx;
	(void)snprintf(f->target, sizeof f->target, "%.*s", STR_ARG(wish->target));
	*ret_call = (struct call *)(void *)f;
	return ST_OK;
}

void
call_cancel(struct call *call)
{
	if (call != NULL)
		fake()->fn = NULL;
}

static void
fake_answer(enum status st, uint16_t http, struct str body)
{
	struct fake_call *f = fake();
	const struct call_got got = { .st = st, .http = http, .body = body };
	call_fn fn = f->fn;

	assert_non_null(fn);
	f->fn = NULL;
	fn(f->ctx, &got);
}

struct world {
	struct bench bench;
	struct control c;
	struct keys *k;
	EVP_PKEY *key, *key2;
	struct keys_wait wait;
	unsigned woken;
};

static void
on_ready(void *ctx)
{
	((struct world *)ctx)->woken++;
}

static int
world_up(void **state)
{
	struct world *w = calloc(1, sizeof *w);

	need(w != NULL);
	bench_open(&w->bench);
	need(loop_new(&w->c.loop) == ST_OK);
	w->c.role.image = make_image(config);
	w->c.role.generation = 1;
	w->c.role.log = (struct log){ "test", LOG_ERROR };
	need(keys_open(&w->c, w->bench.s, &w->k) == ST_OK);
	w->key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	w->key2 = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	w->wait = (struct keys_wait){ .fn = on_ready, .ctx = w };
	*fake() = (struct fake_call){ .refuse = ST_OK };
	*state = w;
	return 0;
}

static int
world_down(void **state)
{
	struct world *w = *state;

	keys_close(w->k);
	assert_false(w->wait.is_waiting);
	image_close(w->c.role.image);
	loop_free(w->c.loop);
	EVP_PKEY_free(w->key);
	EVP_PKEY_free(w->key2);
	bench_close(&w->bench);
	free(w);
	return 0;
}

static void
add_key(struct world *w, const char *text, const char *id, uint64_t expires_s)
{
	struct key_row row = { .id = str_from(id),
			       .tenant = STR("blue"),
			       .user = STR("alice"),
			       .agent = STR("coder"),
			       .scopes = SCOPE_ALL,
			       .created_s = 1,
			       .expires_s = expires_s };
	uint8_t hash[KEY_HASH];

	token_hash(str_from(text), hash);
	assert_int_equal(key_store_add(&w->k->store, &row, hash), ST_OK);
}

static enum status
ask(struct world *w, const struct place_wish *wish, struct principal *ret_p)
{
	return keys_principal(w->k, wish, &w->wait, ret_p);
}

static enum status
ask_key(struct world *w, const char *key, struct principal *ret_p)
{
	const struct place_wish wish = { .key = str_from(key) };

	return ask(w, &wish, ret_p);
}

static void
a_key_says_who_asks(void **state)
{
	struct world *w = *state;
	struct principal p = { .scopes = 77 };
	const struct place_wish bearer = { .bearer = STR(KEY) };
	const struct place_wish none = { .session = STR("s") };

	add_key(w, KEY, "key-1", 0);
	assert_int_equal(ask_key(w, OTHER, &p), ST_KEY_INVALID);
	assert_int_equal(ask_key(w, KEY "A", &p), ST_KEY_INVALID);
	assert_int_equal(ask_key(w, "sgk_", &p), ST_KEY_INVALID);
	assert_int_equal(ask(w, &none, &p), ST_KEY_MISSING);
	assert_int_equal(p.scopes, 77);
	assert_int_equal(ask_key(w, KEY, &p), ST_OK);
	assert_string_equal(p.tenant, "blue");
	assert_string_equal(p.user, "alice");
	assert_string_equal(p.owner, "alice");
	assert_string_equal(p.agent, "coder");
	assert_string_equal(p.key_id, "key-1");
	assert_int_equal(p.scopes, SCOPE_ALL);
	assert_false(p.may_delegate);
	assert_int_equal(ask(w, &bearer, &p), ST_OK);
}

static void
a_revoked_or_expired_key_ends_at_once(void **state)
{
	struct world *w = *state;
	struct principal p;

	add_key(w, KEY, "key-1", 0);
	add_key(w, OTHER, "key-2", keys_now_s());
	assert_int_equal(ask_key(w, OTHER, &p), ST_KEY_INVALID);
	assert_int_equal(ask_key(w, KEY, &p), ST_OK);
	assert_int_equal(key_store_revoke(&w->k->store, STR("key-1"), keys_now_s()),
			 ST_OK);
	assert_int_equal(ask_key(w, KEY, &p), ST_KEY_INVALID);
	assert_int_equal(key_store_revoke(&w->k->store, STR("key-1"), keys_now_s()),
			 ST_CONFLICT);
	assert_int_equal(key_store_revoke(&w->k->store, STR("key-9"), keys_now_s()),
			 ST_NOT_FOUND);
}

static enum status
rotate(struct world *w, const char *id, const char *new_id, const char *text,
       uint64_t grace_s)
{
	const struct key_rotation r = { .id = str_from(id),
					.new_id = str_from(new_id),
					.now_s = keys_now_s(),
					.grace_s = grace_s };
	uint8_t hash[KEY_HASH];

	token_hash(str_from(text), hash);
	return key_store_rotate(&w->k->store, &r, hash);
}

static void
a_rotated_key_is_another_of_the_same_caller(void **state)
{
	struct world *w = *state;
	struct principal p;

	add_key(w, KEY, "key-1", 0);
	assert_int_equal(rotate(w, "key-1", "key-2", OTHER, 3600), ST_OK);
	assert_int_equal(ask_key(w, KEY, &p), ST_OK);
	assert_int_equal(ask_key(w, OTHER, &p), ST_OK);
	assert_string_equal(p.key_id, "key-2");
	assert_string_equal(p.user, "alice");
	/* Half of it is never done: that id is taken. */
	assert_int_not_equal(rotate(w, "key-1", "key-2", KEY "x", 0), ST_OK);
	assert_int_equal(ask_key(w, KEY, &p), ST_OK);
	assert_int_equal(rotate(w, "key-1", "key-3", KEY "y", 0), ST_OK);
	assert_int_equal(ask_key(w, KEY, &p), ST_KEY_INVALID);
	assert_int_equal(rotate(w, "key-1", "key-4", KEY "z", 0), ST_CONFLICT);
	assert_int_equal(rotate(w, "key-7", "key-8", KEY "z", 0), ST_NOT_FOUND);
}

static void
guesses_are_limited_and_a_right_key_passes_all_the_same(void **state)
{
	struct world *w = *state;
	struct principal p;
	unsigned limited = 0;

	add_key(w, KEY, "key-1", 0);
	for (int i = 0; i < 30; i++)
		limited += ask_key(w, OTHER, &p) == ST_LIMIT_RATE;
	assert_int_equal(limited, 10);
	assert_int_equal(ask_key(w, KEY, &p), ST_OK);
}

static void
when_a_key_was_used_is_written_by_the_minute(void **state)
{
	struct world *w = *state;
	struct principal p;
	sqlite3_stmt *q = NULL;

	add_key(w, KEY, "key-1", 0);
	assert_int_equal(ask_key(w, KEY, &p), ST_OK);
	assert_int_equal(ask_key(w, KEY, &p), ST_OK);
	assert_int_equal(
		sql_prepare(w->k->store.db,
			    "SELECT last_used_s FROM keys WHERE id=x'6b65792d31'", &q),
		ST_OK);
	assert_int_equal(sql_next(q), ST_OK);
	assert_int_equal(sql_get_u64(q, 0), 0);
	assert_int_equal(sql_next(q), ST_END);
	keys_write_used(w->k);
	assert_int_equal(sql_next(q), ST_OK);
	assert_true(sql_get_u64(q, 0) + 5 >= keys_now_s());
	sql_done(&q);
}

/* Delegation. */

static void
only_who_may_asks_on_behalf_of_another(void **state)
{
	struct world *w = *state;
	struct place_wish wish = { .key = STR(KEY), .on_behalf_of = STR("bob") };
	struct principal p;

	add_key(w, KEY, "key-1", 0);
	assert_int_equal(ask(w, &wish, &p), ST_MAY_NOT_DELEGATE);
	wish.on_behalf_of = STR("alice");
	assert_int_equal(ask(w, &wish, &p), ST_OK);
	assert_string_equal(p.owner, "alice");
	assert_int_equal(sql_exec(w->k->store.db, "UPDATE keys SET may_delegate=1"),
			 ST_OK);
	wish.on_behalf_of = STR("bob");
	wish.session = STR("s-1");
	wish.task = STR("t@2");
	assert_int_equal(ask(w, &wish, &p), ST_OK);
	assert_string_equal(p.user, "alice");
	assert_string_equal(p.on_behalf_of, "bob");
	assert_string_equal(p.owner, "alice/bob");
	assert_string_equal(p.session, "s-1");
	assert_string_equal(p.task, "t@2");
}

static void
what_is_no_name_is_refused(void **state)
{
	static const char *const bad[] = { "a b",      "a/b", "a\"b",   "a\nb",
					   "\xc3\xa4", "a*",  "{user}", "a,b",
					   "a%41",     "\\",  "'",      "<b>" };
	struct world *w = *state;
	struct place_wish wish = { .key = STR(KEY) };
	struct principal p;
	char longest[PRINCIPAL_NAME_MAX + 1];

	add_key(w, KEY, "key-1", 0);
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		wish.session = str_from(bad[i]);
		if (ask(w, &wish, &p) != ST_BAD_PRINCIPAL)
			fail_msg("%s", bad[i]);
	}
	memset(longest, 'x', sizeof longest);
	wish.session = str_of(longest, sizeof longest);
	assert_int_equal(ask(w, &wish, &p), ST_BAD_PRINCIPAL);
	wish.session = str_of(longest, sizeof longest - 1);
	assert_int_equal(ask(w, &wish, &p), ST_OK);
	assert_true(principal_is_name(STR("auth0|5f7c-x_y.z~k=v+w:u@example.test")));
	assert_false(principal_is_name(STR("")));
	assert_false(principal_is_name(str_of("a\0b", 3)));
}

/* Scopes. */

static void
each_route_has_its_scope(void **state)
{
	static const struct {
		enum exec_op op;
		unsigned scopes;
	} rows[] = {
		{ EXEC_OP_SANDBOX_CREATE, SCOPE_RUN },
		{ EXEC_OP_SANDBOX_LIST, SCOPE_READ },
		{ EXEC_OP_SANDBOX_ENDPOINT, SCOPE_READ },
		{ EXEC_OP_SANDBOX_KILL, SCOPE_RUN },
		{ EXEC_OP_COMMAND_RUN, SCOPE_RUN },
		{ EXEC_OP_COMMAND_LOGS, SCOPE_RUN },
		{ EXEC_OP_PTY_ATTACH, SCOPE_RUN },
		{ EXEC_OP_MCP_STREAM, SCOPE_RUN },
		{ EXEC_OP_CODE_RUN, SCOPE_RUN },
		{ EXEC_OP_FILES_INFO, SCOPE_FILES },
		{ EXEC_OP_FILES_UPLOAD, SCOPE_FILES },
		{ EXEC_OP_POLICY_GET, SCOPE_READ },
		{ EXEC_OP_POLICY_SET, SCOPE_EGRESS },
		{ EXEC_OP_NETPOLICY_PATCH, SCOPE_EGRESS },
		{ EXEC_OP_VAULT_CREATE, SCOPE_EGRESS },
		{ EXEC_OP_EGRESS_OTHER, SCOPE_EGRESS },
		{ EXEC_OP_EXECD_OTHER, SCOPE_RUN | SCOPE_FILES },
		{ EXEC_OP_APP, SCOPE_RUN },
		{ EXEC_OP_PING, 0 },
		{ EXEC_OP_HEALTH, 0 },
		{ EXEC_OP_TELEMETRY, 0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct principal p = { .scopes = rows[i].scopes };
		assert_int_equal(scope_of_op(rows[i].op), rows[i].scopes);
		assert_int_equal(principal_may(&p, rows[i].op), ST_OK);
		p.scopes = SCOPE_ALL & ~rows[i].scopes;
		assert_int_equal(principal_may(&p, rows[i].op),
				 rows[i].scopes == 0 ? ST_OK : ST_KEY_SCOPE);
	}
	for (int op = 0; op < EXEC_OP_COUNT; op++)
		assert_int_equal(scope_of_op((enum exec_op)op) & ~(unsigned)SCOPE_ALL,
				 0);
}

static void
scopes_are_words(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	unsigned scopes = 99;

	(void)state;
	buf_init(&b, 64);
	assert_false(scopes_read(STR(""), &scopes));
	assert_false(scopes_read(STR(" , "), &scopes));
	assert_false(scopes_read(STR("read,all"), &scopes));
	assert_false(scopes_read(STR("Read"), &scopes));
	assert_int_equal(scopes, 99);
	assert_true(scopes_read(STR("egress, run read"), &scopes));
	scopes_put(&b, scopes);
	assert_string_equal(buf_cstr(&b), "read,run,egress");
}

/* Capabilities. */

static void
make_principal(struct principal *p)
{
	*p = (struct principal){ .scopes = SCOPE_READ | SCOPE_RUN };
	assert_int_equal(principal_set(p->tenant, STR("blue")), ST_OK);
	assert_int_equal(principal_set(p->user, STR("alice")), ST_OK);
	assert_int_equal(principal_set(p->key_id, STR("key-1")), ST_OK);
	assert_int_equal(principal_set(p->on_behalf_of, STR("bob")), ST_OK);
	assert_int_equal(principal_set(p->session, STR("s")), ST_OK);
	principal_own(p);
}

static void
a_capability_is_for_one_sandbox_port_and_time(void **state)
{
	static const uint8_t key[CAPABILITY_KEY] = { 1 };
	static const uint8_t key2[CAPABILITY_KEY] = { 2 };
	CLEANUP(buf_done) struct buf b = { 0 };
	struct principal p, got;
	struct capability c = {
		.principal = &p, .sandbox = STR("sb-1"), .port = 8080, .expires_s = 100
	};

	(void)state;
	make_principal(&p);
	buf_init(&b, CAPABILITY_MAX);
	capability_put(&b, key, &c);
	assert_int_equal(b.st, ST_OK);
	struct str text = str_of(b.p, b.len);
	c.expires_s = 99;
	assert_int_equal(capability_check(text, key, &c, &got), ST_OK);
	assert_memory_equal(&got, &p, sizeof p);
	assert_int_equal(capability_check(text, key2, &c, &got), ST_KEY_INVALID);
	c.expires_s = 100;
	assert_int_equal(capability_check(text, key, &c, &got), ST_KEY_INVALID);
	c.expires_s = 99;
	c.port = 8081;
	assert_int_equal(capability_check(text, key, &c, &got), ST_KEY_INVALID);
	c.port = EXEC_PORT_EXECD;
	assert_int_equal(capability_check(text, key, &c, &got), ST_KEY_INVALID);
	c.port = 8080;
	c.sandbox = STR("sb-2");
	assert_int_equal(capability_check(text, key, &c, &got), ST_KEY_INVALID);
	assert_int_equal(capability_check(STR(""), key, &c, &got), ST_KEY_INVALID);
}

static void
no_octet_of_a_capability_can_be_changed(void **state)
{
	static const uint8_t key[CAPABILITY_KEY] = { 1 };
	CLEANUP(buf_done) struct buf b = { 0 };
	struct principal p, got;
	struct capability c = {
		.principal = &p, .sandbox = STR("sb-1"), .port = 8080, .expires_s = 100
	};

	(void)state;
	make_principal(&p);
	buf_init(&b, CAPABILITY_MAX);
	capability_put(&b, key, &c);
	c.expires_s = 1;
	for (size_t i = 0; i < b.len; i++) {
		char was = b.p[i];
		b.p[i] = was == 'A' ? 'B' : 'A';
		assert_int_equal(capability_check(str_of(b.p, b.len), key, &c, &got),
				 ST_KEY_INVALID);
		b.p[i] = was;
		assert_int_equal(capability_check(str_of(b.p, i), key, &c, &got),
				 ST_KEY_INVALID);
	}
}

static void
who_is_in_execd_reaches_what_listens_there_but_not_our_egress_api(void **state)
{
	static const uint8_t key[CAPABILITY_KEY] = { 1 };
	CLEANUP(buf_done) struct buf b = { 0 };
	struct principal p, got;
	struct capability c = { .principal = &p,
				.sandbox = STR("sb-1"),
				.port = EXEC_PORT_EXECD,
				.expires_s = 100 };

	(void)state;
	make_principal(&p);
	buf_init(&b, CAPABILITY_MAX);
	capability_put(&b, key, &c);
	c.expires_s = 1;
	c.port = 8080;
	assert_int_equal(capability_check(str_of(b.p, b.len), key, &c, &got), ST_OK);
	c.port = EXEC_PORT_EGRESS;
	assert_int_equal(capability_check(str_of(b.p, b.len), key, &c, &got),
			 ST_KEY_INVALID);
	c.port = 0;
	assert_int_equal(capability_check(str_of(b.p, b.len), key, &c, &got),
			 ST_KEY_INVALID);
}

static void
a_capability_ends_with_its_key_and_leads_to_no_other(void **state)
{
	struct world *w = *state;
	CLEANUP(buf_done) struct buf b = { 0 };
	struct principal p, got;
	const struct capability c = { .principal = &p,
				      .sandbox = STR("sb-1"),
				      .port = 8080,
				      .expires_s = keys_now_s() + 60 };
	struct place_wish wish = { .op = EXEC_OP_APP,
				   .sandbox = c.sandbox,
				   .port = 8080 };

	add_key(w, KEY, "key-1", 0);
	assert_int_equal(ask_key(w, KEY, &p), ST_OK);
	buf_init(&b, CAPABILITY_MAX);
	keys_put_capability(w->k, &b, &c);
	wish.capability = str_of(b.p, b.len);
	assert_int_equal(ask(w, &wish, &got), ST_OK);
	assert_memory_equal(&got, &p, sizeof p);
	/* The login of an application doesn't come in between. */
	wish.bearer = STR("app's own");
	assert_int_equal(ask(w, &wish, &got), ST_OK);
	wish.bearer = STR("");
	/* One that could ask for endpoints would make itself anew for ever. */
	wish.op = EXEC_OP_SANDBOX_ENDPOINT;
	assert_int_equal(ask(w, &wish, &got), ST_KEY_INVALID);
	wish.op = EXEC_OP_APP;
	wish.key = STR(OTHER);
	assert_int_equal(ask(w, &wish, &got), ST_KEY_INVALID);
	wish.key = STR("");
	/* What the key is good for counts at each use. */
	assert_int_equal(sql_exec(w->k->store.db, "UPDATE keys SET scopes=2"), ST_OK);
	assert_int_equal(ask(w, &wish, &got), ST_OK);
	assert_int_equal(got.scopes, SCOPE_READ);
	assert_int_equal(key_store_revoke(&w->k->store, STR("key-1"), keys_now_s()),
			 ST_OK);
	assert_int_equal(ask(w, &wish, &got), ST_KEY_INVALID);
}

/* Issuers. */

static struct moment
at(const struct world *w, uint64_t later_ms)
{
	return (struct moment){ .wall_s = 1000000,
				.mono_ms = loop_now_ms(w->c.loop) + later_ms };
}

#define CLAIMS(more)                                                                   \
	"{\"iss\":\"https://"                                                          \
	"idp.example.test\",\"aud\":\"sandgate\",\"exp\":1000100" more "}"
#define ALICE CLAIMS(",\"sub\":\"alice@example.test\",\"azp\":\"coder\"")

static enum status
show(struct world *w, uint64_t later_ms, const char *kid, const char *claims,
     struct principal *ret_p)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct moment now = at(w, later_ms);
	char header[80];

	(void)snprintf(header, sizeof header, "{\"alg\":\"EdDSA\",\"kid\":\"%s\"}",
		       kid);
	buf_init(&b, JWT_MAKE_MAX);
	jwt_put_token(&b, strcmp(kid, "2") == 0 ? w->key2 : w->key, str_from(header),
		      str_from(claims));
	return issuers_principal(w->k->issuers, &now, str_of(b.p, b.len), &w->wait,
				 ret_p);
}

static void
on_turn(void *ctx)
{
	loop_stop(ctx);
}

static void
turn(struct world *w)
{
	struct loop_timer t;

	loop_timer_init(&t, w->c.loop, on_turn, w->c.loop);
	loop_timer_set(&t, 5);
	loop_run(w->c.loop);
	loop_timer_clear(&t);
}

static void
answer_keys(struct world *w, bool both)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, JWT_MAKE_MAX);
	buf_put(&b, STR("{\"keys\":["));
	jwt_put_jwk(&b, w->key, "1");
	if (both) {
		buf_put(&b, STR("},"));
		jwt_put_jwk(&b, w->key2, "2");
	}
	buf_put(&b, STR("}]}"));
	fake_answer(ST_OK, 200, str_of(b.p, b.len));
}

static void
the_first_token_waits_for_the_keys(void **state)
{
	struct world *w = *state;
	struct principal p;

	assert_int_equal(show(w, 0, "1", ALICE, &p), ST_AGAIN);
	assert_int_equal(fake()->n, 1);
	assert_string_equal(fake()->target, "/jwks");
	answer_keys(w, false);
	assert_int_equal(w->woken, 0);
	turn(w);
	assert_int_equal(w->woken, 1);
	assert_int_equal(show(w, 0, "1", ALICE, &p), ST_OK);
	assert_int_equal(fake()->n, 1);
	assert_string_equal(p.tenant, "blue");
	assert_string_equal(p.user, "alice@example.test");
	assert_string_equal(p.agent, "coder");
	assert_int_equal(p.scopes, SCOPE_RUN | SCOPE_READ);
	assert_false(p.may_delegate);
}

static void
who_no_longer_waits_is_not_told(void **state)
{
	struct world *w = *state;
	struct principal p;

	assert_int_equal(show(w, 0, "1", ALICE, &p), ST_AGAIN);
	keys_unwait(&w->wait);
	keys_unwait(&w->wait);
	answer_keys(w, false);
	turn(w);
	assert_int_equal(w->woken, 0);
	/* Also between the answer and its telling. */
	assert_int_equal(show(w, ISSUER_AGAIN_MS, "2", ALICE, &p), ST_AGAIN);
	answer_keys(w, true);
	keys_unwait(&w->wait);
	turn(w);
	assert_int_equal(w->woken, 0);
}

static void
a_new_key_is_looked_for_once_a_minute(void **state)
{
	struct world *w = *state;
	struct principal p;

	assert_int_equal(show(w, 0, "1", ALICE, &p), ST_AGAIN);
	answer_keys(w, false);
	turn(w);
	assert_int_equal(show(w, 1000, "2", ALICE, &p), ST_KEY_INVALID);
	assert_int_equal(fake()->n, 1);
	assert_int_equal(show(w, ISSUER_AGAIN_MS + 1, "2", ALICE, &p), ST_AGAIN);
	assert_int_equal(fake()->n, 2);
	answer_keys(w, true);
	turn(w);
	assert_int_equal(show(w, ISSUER_AGAIN_MS + 1, "2", ALICE, &p), ST_OK);
}

/* Else everybody could make us ask. */
static void
tokens_that_are_not_meant_for_us_fetch_nothing(void **state)
{
	static const char *const claims[] = {
		"{\"iss\":\"https://evil.example.test\",\"aud\":\"sandgate\","
		"\"exp\":1000100,\"sub\":\"a\"}",
		"{\"iss\":\"https://idp.example.test\",\"aud\":\"x\",\"exp\":1000100,"
		"\"sub\":\"a\"}",
		"{\"iss\":\"https://idp.example.test\",\"aud\":\"sandgate\",\"exp\":1,"
		"\"sub\":\"a\"}",
	};
	struct world *w = *state;
	struct principal p;

	for (size_t i = 0; i < COUNT_OF(claims); i++)
		assert_int_equal(show(w, 0, "1", claims[i], &p), ST_KEY_INVALID);
	assert_int_equal(fake()->n, 0);
}

static void
keys_count_for_an_hour_though_nothing_newer_can_be_had(void **state)
{
	struct world *w = *state;
	struct principal p;

	assert_int_equal(show(w, 0, "1", ALICE, &p), ST_AGAIN);
	answer_keys(w, false);
	turn(w);
	/* Looked at again behind a token that is good. */
	assert_int_equal(show(w, ISSUER_FRESH_MS + 100, "1", ALICE, &p), ST_OK);
	assert_int_equal(fake()->n, 2);
	fake_answer(ST_UPSTREAM_TIMEOUT, 0, STR(""));
	turn(w);
	fake()->refuse = ST_NEEDS_CONNECTOR;
	assert_int_equal(show(w, ISSUER_KEPT_MS - 1000, "1", ALICE, &p), ST_OK);
	assert_int_equal(show(w, ISSUER_KEPT_MS + 1000, "1", ALICE, &p),
			 ST_ISSUER_SILENT);
	fake()->refuse = ST_OK;
	assert_int_equal(show(w, ISSUER_KEPT_MS + 1000, "1", ALICE, &p),
			 ST_ISSUER_SILENT);
	assert_int_equal(
		show(w, ISSUER_KEPT_MS + 1000 + ISSUER_RETRY_MS, "1", ALICE, &p),
		ST_AGAIN);
	fake_answer(ST_OK, 500, STR("{}"));
	turn(w);
	assert_int_equal(
		show(w, ISSUER_KEPT_MS + 1100 + ISSUER_RETRY_MS, "1", ALICE, &p),
		ST_ISSUER_SILENT);
}

static void
a_reload_keeps_what_was_fetched_and_lets_go_what_is_gone(void **state)
{
	struct world *w = *state;
	struct principal p;
	struct image *old = w->c.role.image;
	unsigned scopes = 0;
	bool may_delegate = true;

	assert_int_equal(show(w, 0, "1", ALICE, &p), ST_AGAIN);
	answer_keys(w, false);
	turn(w);
	assert_int_equal(show(w, 0, "1", ALICE, &p), ST_OK);
	w->c.role.image = make_image(config);
	w->c.role.generation++;
	image_close(old);
	assert_int_equal(show(w, 0, "1", ALICE, &p), ST_OK);
	assert_int_equal(fake()->n, 1);
	assert_true(issuers_allow(w->k->issuers, str_from(p.key_id), &scopes,
				  &may_delegate));
	assert_int_equal(scopes, SCOPE_RUN | SCOPE_READ);
	assert_false(may_delegate);
	/* One waits for an issuer that is taken away. */
	assert_int_equal(show(w, ISSUER_AGAIN_MS + 1000, "2", ALICE, &p), ST_AGAIN);
	old = w->c.role.image;
	w->c.role.image = make_image("resolver: {servers: [192.0.2.1]}\n");
	w->c.role.generation++;
	image_close(old);
	assert_int_equal(show(w, 0, "1", ALICE, &p), ST_KEY_INVALID);
	assert_null(fake()->fn);
	turn(w);
	assert_int_equal(w->woken, 2);
	assert_false(issuers_allow(w->k->issuers, str_from(p.key_id), &scopes,
				   &may_delegate));
}

static void
claims_name_who_it_is_or_nobody(void **state)
{
	static const struct {
		const char *claims;
		enum status st;
	} rows[] = {
		{ CLAIMS(",\"sub\":\"auth0|5f\""), ST_OK },
		{ CLAIMS(""), ST_BAD_PRINCIPAL },
		{ CLAIMS(",\"sub\":\"\""), ST_BAD_PRINCIPAL },
		{ CLAIMS(",\"sub\":7"), ST_BAD_PRINCIPAL },
		{ CLAIMS(",\"sub\":[\"alice\"]"), ST_BAD_PRINCIPAL },
		{ CLAIMS(",\"sub\":\"alice/bob\""), ST_BAD_PRINCIPAL },
		{ CLAIMS(",\"sub\":\"alice bob\""), ST_BAD_PRINCIPAL },
		{ CLAIMS(",\"sub\":\"a\",\"azp\":{}"), ST_BAD_PRINCIPAL },
		{ CLAIMS(",\"sub\":\"a\",\"azp\":\"x/y\""), ST_BAD_PRINCIPAL },
	};
	struct world *w = *state;
	struct principal p;

	assert_int_equal(show(w, 0, "1", ALICE, &p), ST_AGAIN);
	answer_keys(w, false);
	turn(w);
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		if (show(w, 0, "1", rows[i].claims, &p) != rows[i].st)
			fail_msg("%s", rows[i].claims);
}

/* At some issuers a user writes his address himself. */
static void
an_address_counts_only_when_it_was_verified(void **state)
{
#define MAIL(more)                                                                     \
	"{\"iss\":\"https://idp.example.test\",\"aud\":\"other\",\"exp\":1000100,"     \
	"\"email\":\"ceo@example.test\"" more "}"
	struct world *w = *state;
	struct principal p;

	assert_int_equal(show(w, 0, "1", MAIL(""), &p), ST_AGAIN);
	assert_string_equal(fake()->target, "/other");
	answer_keys(w, false);
	turn(w);
	assert_int_equal(show(w, 0, "1", MAIL(""), &p), ST_KEY_INVALID);
	assert_int_equal(show(w, 0, "1", MAIL(",\"email_verified\":false"), &p),
			 ST_KEY_INVALID);
	assert_int_equal(show(w, 0, "1", MAIL(",\"email_verified\":\"true\""), &p),
			 ST_KEY_INVALID);
	assert_int_equal(show(w, 0, "1", MAIL(",\"email_verified\":true"), &p), ST_OK);
	assert_string_equal(p.user, "ceo@example.test");
	assert_string_equal(p.tenant, "");
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, world_up, world_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_WORLD(a_key_says_who_asks),
		WITH_WORLD(a_revoked_or_expired_key_ends_at_once),
		WITH_WORLD(a_rotated_key_is_another_of_the_same_caller),
		WITH_WORLD(guesses_are_limited_and_a_right_key_passes_all_the_same),
		WITH_WORLD(when_a_key_was_used_is_written_by_the_minute),
		WITH_WORLD(only_who_may_asks_on_behalf_of_another),
		WITH_WORLD(what_is_no_name_is_refused),
		cmocka_unit_test(each_route_has_its_scope),
		cmocka_unit_test(scopes_are_words),
		cmocka_unit_test(a_capability_is_for_one_sandbox_port_and_time),
		cmocka_unit_test(no_octet_of_a_capability_can_be_changed),
		cmocka_unit_test(
			who_is_in_execd_reaches_what_listens_there_but_not_our_egress_api),
		WITH_WORLD(a_capability_ends_with_its_key_and_leads_to_no_other),
		WITH_WORLD(the_first_token_waits_for_the_keys),
		WITH_WORLD(who_no_longer_waits_is_not_told),
		WITH_WORLD(a_new_key_is_looked_for_once_a_minute),
		WITH_WORLD(tokens_that_are_not_meant_for_us_fetch_nothing),
		WITH_WORLD(keys_count_for_an_hour_though_nothing_newer_can_be_had),
		WITH_WORLD(a_reload_keeps_what_was_fetched_and_lets_go_what_is_gone),
		WITH_WORLD(claims_name_who_it_is_or_nobody),
		WITH_WORLD(an_address_counts_only_when_it_was_verified),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

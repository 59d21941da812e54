/* Who asks on an execution listener: by keys and capabilities, and what they are good for. */
#include "tests/unit/keys_bench.h"

#define KEY   "sgk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define OTHER "sgk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE"

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
	/* And so it does for whom it may ask. */
	assert_int_equal(principal_set(p.on_behalf_of, STR("bob")), ST_OK);
	buf_clear(&b);
	keys_put_capability(w->k, &b, &c);
	wish.capability = str_of(b.p, b.len);
	assert_int_equal(ask(w, &wish, &got), ST_MAY_NOT_DELEGATE);
	assert_int_equal(sql_exec(w->k->store.db, "UPDATE keys SET may_delegate=1"),
			 ST_OK);
	assert_int_equal(ask(w, &wish, &got), ST_OK);
	assert_string_equal(got.owner, "alice/bob");
	assert_int_equal(key_store_revoke(&w->k->store, STR("key-1"), keys_now_s()),
			 ST_OK);
	assert_int_equal(ask(w, &wish, &got), ST_KEY_INVALID);
}

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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

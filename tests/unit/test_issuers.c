/* Who asks on an execution listener: by tokens of issuers, whose keys are fetched. */
#include "tests/unit/keys_bench.h"

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
	w->c.role.image = make_image(keys_config);
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

static bool
has_bearer(struct world *w, const char *claims)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, JWT_MAKE_MAX);
	jwt_put_token(&b, w->key2, STR("{\"alg\":\"EdDSA\"}"), str_from(claims));
	const struct place_wish wish = { .key = STR("sgk_x"),
					 .bearer = str_of(b.p, b.len) };
	return keys_has_bearer(w->k, &wish);
}

/* Who runs an application would have the caller's token. */
static void
a_bearer_that_is_for_us_is_no_login_of_an_application(void **state)
{
	struct world *w = *state;
	const struct place_wish key = { .bearer = STR("sgk_x") };
	const struct place_wish other = { .bearer = STR("abc.def") };
	const struct place_wish none = { .key = STR("sgk_x") };

	assert_true(keys_has_bearer(w->k, &key));
	assert_false(keys_has_bearer(w->k, &other));
	assert_false(keys_has_bearer(w->k, &none));
	assert_true(has_bearer(w, ALICE));
	assert_true(has_bearer(w, "{\"iss\":\"https://idp.example.test\",\"aud\":"
				  "[\"other\"],\"exp\":1}"));
	assert_false(has_bearer(w, "{\"iss\":\"https://idp.example.test\",\"aud\":"
				   "\"app\",\"exp\":1}"));
	assert_int_equal(fake()->n, 0);
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_WORLD(the_first_token_waits_for_the_keys),
		WITH_WORLD(who_no_longer_waits_is_not_told),
		WITH_WORLD(a_new_key_is_looked_for_once_a_minute),
		WITH_WORLD(tokens_that_are_not_meant_for_us_fetch_nothing),
		WITH_WORLD(keys_count_for_an_hour_though_nothing_newer_can_be_had),
		WITH_WORLD(a_reload_keeps_what_was_fetched_and_lets_go_what_is_gone),
		WITH_WORLD(claims_name_who_it_is_or_nobody),
		WITH_WORLD(a_bearer_that_is_for_us_is_no_login_of_an_application),
		WITH_WORLD(an_address_counts_only_when_it_was_verified),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

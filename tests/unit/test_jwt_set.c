/* Sets of keys: what can verify is kept, and what can be taken for something else is not. */
#include "tests/unit/jwt_bench.h"

static void
a_set_keeps_only_what_it_can_verify_with(void **state)
{
	static const char *const none[] = {
		"",
		"{}",
		"[]",
		"{\"keys\":{}}",
		"{\"keys\":[]}",
		"{\"keys\":[1,null,{}]}",
		/* symmetric, and nearly so */
		"{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\",\"kid\":\"r\"}]}",
		/* e of 1: all is its own signature; even; nothing */
		"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQ\"}]}",
		"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}",
		"{\"keys\":[{\"kty\":\"RSA\",\"e\":\"AQAB\"}]}",
		/* not on the curve; short; of another curve */
		"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":"
		"\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE\",\"y\":"
		"\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE\"}]}",
		"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AA\",\"y\":"
		"\"AA\"}]}",
		"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-521\",\"x\":\"AA\",\"y\":"
		"\"AA\"}]}",
		"{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":"
		"\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE\"}]}",
		"{\"keys\":[],\"keys\":[]}",
	};
	struct jwks *set = NULL;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(none); i++)
		if (jwks_new(str_from(none[i]), &set) != ST_UPSTREAM_BAD)
			fail_msg("%s", none[i]);
	assert_null(set);
}

/* How many of one key with these members more are of use. */
static size_t
count_with(EVP_PKEY *key, const char *more)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct jwks *set = NULL;
	size_t n;

	buf_init(&b, JWT_MAKE_MAX);
	buf_put(&b, STR("{\"keys\":["));
	jwt_put_jwk(&b, key, "k");
	buf_putf(&b, "%s}]}", more);
	if (jwks_new(str_of(b.p, b.len), &set) != ST_OK)
		return 0;
	n = jwks_count(set);
	jwks_free(set);
	return n;
}

static void
a_key_for_something_else_is_not_there(void **state)
{
	const struct bench *bench = *state;
	EVP_PKEY *small = EVP_RSA_gen(1024);

	assert_int_equal(count_with(bench->rsa, ""), 1);
	assert_int_equal(count_with(bench->rsa, ",\"key_ops\":[\"verify\"]"), 1);
	assert_int_equal(count_with(bench->rsa, ",\"key_ops\":[\"encrypt\"]"), 0);
	assert_int_equal(count_with(bench->rsa, ",\"alg\":\"RS512\""), 0);
	assert_int_equal(count_with(bench->rsa, ",\"alg\":\"HS256\""), 0);
	assert_int_equal(count_with(bench->p256, ",\"alg\":\"RS256\""), 0);
	assert_int_equal(count_with(bench->rsa, ",\"use\":\"enc\""), 0);
	assert_int_equal(count_with(small, ""), 0);
	EVP_PKEY_free(small);
}

static void
two_keys_of_one_name_are_none(void **state)
{
	const struct bench *bench = *state;
	EVP_PKEY *other = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	CLEANUP(buf_done) struct buf set = { 0 };
	CLEANUP(buf_done) struct buf token = { 0 };
	struct jwks *keys = NULL;

	buf_init(&set, JWT_MAKE_MAX);
	buf_put(&set, STR("{\"keys\":["));
	jwt_put_jwk(&set, other, "d");
	buf_put(&set, STR("},"));
	jwt_put_jwk(&set, bench->ed, "d");
	buf_put(&set, STR("}]}"));
	assert_int_equal(jwks_new(str_of(set.p, set.len), &keys), ST_OK);
	buf_init(&token, JWT_MAKE_MAX);
	jwt_put_token(&token, bench->ed, STR(EDDSA), STR(GOOD));
	assert_int_equal(check_with(keys, str_of(token.p, token.len)), ST_NOT_FOUND);
	jwks_free(keys);
	EVP_PKEY_free(other);
}

/* Appendices A.2 and A.3 of RFC 7515, A.4 of RFC 8037: the input is no claim of ours, so the
 * keys are asked directly. */
static void
the_examples_of_the_rfcs_verify(void **state)
{
	static const char set[] =
		"{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":"
		"\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"},"
		"{\"kty\":\"EC\",\"crv\":\"P-256\","
		"\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
		"\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}";
	static const struct {
		const char *alg, *input, *signature;
	} rows[] = {
		{ "EdDSA", "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
		  "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsP"
		  "t9g7sVvpAr_MuM0KAg" },
		{ "ES256",
		  "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQo"
		  "gImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
		  "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQ"
		  "xfKTUJqPP3-Kg6NU1Q" },
	};
	struct jwks *keys = NULL;

	(void)state;
	assert_int_equal(jwks_new(STR(set), &keys), ST_OK);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		CLEANUP(buf_done) struct buf sig = { 0 };
		buf_init(&sig, 256);
		assert_true(enc_get_base64url(&sig, str_from(rows[i].signature)));
		const struct jwks_signed s = { .alg = str_from(rows[i].alg),
					       .input = str_from(rows[i].input),
					       .signature = str_of(sig.p, sig.len) };
		assert_int_equal(jwks_verify(keys, &s), ST_OK);
	}
	jwks_free(keys);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_set_keeps_only_what_it_can_verify_with),
		cmocka_unit_test(a_key_for_something_else_is_not_there),
		cmocka_unit_test(two_keys_of_one_name_are_none),
		cmocka_unit_test(the_examples_of_the_rfcs_verify),
	};

	return cmocka_run_group_tests(tests, bench_up, bench_down);
}

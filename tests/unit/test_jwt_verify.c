/* Tokens of issuers: what is signed and meant for us counts, and nothing else. */
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include "tests/unit/jwt_bench.h"

static void
each_kind_of_key_verifies_what_it_has_signed(void **state)
{
	const struct bench *bench = *state;

	assert_int_equal(jwks_count(bench->keys), 3);
	assert_int_equal(check_signed(bench, bench->rsa, RS256, GOOD), ST_OK);
	assert_int_equal(check_signed(bench, bench->ed, EDDSA, GOOD), ST_OK);
	/* Numbers with leading zeros come up once in 128 signatures. */
	for (int i = 0; i < 300; i++)
		assert_int_equal(check_signed(bench, bench->p256, ES256, GOOD), ST_OK);
	/* Without a name there is one of that algorithm. */
	assert_int_equal(check_signed(bench, bench->p256, "{\"alg\":\"ES256\"}", GOOD),
			 ST_OK);
	assert_int_equal(check_signed(bench, bench->p256,
				      "{\"typ\":\"at+JWT\",\"alg\":\"ES256\"}", GOOD),
			 ST_OK);
}

static void
no_octet_can_be_changed(void **state)
{
	const struct bench *bench = *state;
	EVP_PKEY *const keys[] = { bench->rsa, bench->p256, bench->ed };
	const char *const headers[] = { RS256, ES256, EDDSA };

	for (size_t k = 0; k < COUNT_OF(keys); k++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		buf_init(&b, JWT_MAKE_MAX);
		jwt_put_token(&b, keys[k], str_from(headers[k]), STR(GOOD));
		for (size_t i = 0; i < b.len; i++) {
			char was = b.p[i];
			b.p[i] = was == 'A' ? 'B' : 'A';
			if (check_with(bench->keys, str_of(b.p, b.len)) == ST_OK)
				fail_msg("key %zu: octet %zu does not count", k, i);
			b.p[i] = was;
		}
		for (size_t n = 0; n < b.len; n++)
			assert_int_not_equal(check_with(bench->keys, str_of(b.p, n)),
					     ST_OK);
		assert_int_equal(check_with(bench->keys, str_of(b.p, b.len)), ST_OK);
		buf_putc(&b, 'A');
		assert_int_not_equal(check_with(bench->keys, str_of(b.p, b.len)),
				     ST_OK);
	}
}

/* RFC 8725 section 2.1. */
static void
the_token_does_not_choose_how_it_is_verified(void **state)
{
	static const char *const algs[] = { "none",  "None",   "nOnE",   "HS256",
					    "RS384", "PS256",  "ES256K", "es256",
					    "",      "RS256 ", "Ed25519" };
	const struct bench *bench = *state;
	char header[80];

	for (size_t i = 0; i < COUNT_OF(algs); i++) {
		(void)snprintf(header, sizeof header, "{\"alg\":\"%s\",\"kid\":\"r\"}",
			       algs[i]);
		assert_int_not_equal(check_signed(bench, bench->rsa, header, GOOD),
				     ST_OK);
		CLEANUP(buf_done) struct buf b = { 0 };
		buf_init(&b, JWT_MAKE_MAX);
		jwt_put_parts(&b, str_from(header), STR(GOOD));
		buf_putc(&b, '.');
		assert_int_not_equal(check_with(bench->keys, str_of(b.p, b.len)),
				     ST_OK);
	}
	assert_int_not_equal(check_signed(bench, bench->rsa, "{\"kid\":\"r\"}", GOOD),
			     ST_OK);
	assert_int_not_equal(check_signed(bench, bench->rsa, "{\"alg\":null}", GOOD),
			     ST_OK);
	/* Of another kind than the key that is named. */
	assert_int_not_equal(check_signed(bench, bench->p256,
					  "{\"alg\":\"ES256\",\"kid\":\"r\"}", GOOD),
			     ST_OK);
	assert_int_not_equal(check_signed(bench, bench->rsa,
					  "{\"alg\":\"RS256\",\"kid\":\"e\"}", GOOD),
			     ST_OK);
}

/* The public key isn't secret: as the key of an HMAC it must be worth nothing. */
static void
a_public_key_is_no_key_of_an_hmac(void **state)
{
	const struct bench *bench = *state;
	CLEANUP(buf_done) struct buf b = { 0 };
	unsigned char mac[32];
	unsigned n = sizeof mac;
	BIO *pem = BIO_new(BIO_s_mem());
	char *text;

	assert_int_equal(PEM_write_bio_PUBKEY(pem, bench->rsa), 1);
	long text_n = BIO_get_mem_data(pem, &text);
	buf_init(&b, JWT_MAKE_MAX);
	jwt_put_parts(&b, STR("{\"alg\":\"HS256\",\"kid\":\"r\"}"), STR(GOOD));
	assert_non_null(HMAC(EVP_sha256(), text, (int)text_n, (unsigned char *)b.p,
			     b.len, mac, &n));
	buf_putc(&b, '.');
	enc_put_base64url(&b, str_of(mac, n));
	assert_int_equal(check_with(bench->keys, str_of(b.p, b.len)), ST_NOT_FOUND);
	BIO_free(pem);
}

static void
keys_and_addresses_in_the_header_are_not_looked_at(void **state)
{
	const struct bench *bench = *state;
	EVP_PKEY *own = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	CLEANUP(buf_done) struct buf jwk = { 0 };
	char header[512];

	buf_init(&jwk, JWT_MAKE_MAX);
	jwt_put_jwk(&jwk, own, "d");
	(void)snprintf(header, sizeof header,
		       "{\"alg\":\"EdDSA\",\"kid\":\"d\",\"jwk\":%s}}", buf_cstr(&jwk));
	assert_int_equal(check_signed(bench, own, header, GOOD), ST_KEY_INVALID);
	assert_int_equal(
		check_signed(bench, own,
			     "{\"alg\":\"EdDSA\",\"kid\":\"d\",\"jku\":\"https://"
			     "evil.example.test/jwks\",\"x5u\":\"file:///etc/passwd\"}",
			     GOOD),
		ST_KEY_INVALID);
	EVP_PKEY_free(own);
}

static void
the_name_of_a_key_is_only_a_name(void **state)
{
	static const char *const kids[] = {
		"../../dev/null", "/dev/null", "r' or '1'='1", "D", "d ", "d\\n", ""
	};
	const struct bench *bench = *state;
	char header[80];

	for (size_t i = 0; i < COUNT_OF(kids); i++) {
		(void)snprintf(header, sizeof header,
			       "{\"alg\":\"EdDSA\",\"kid\":\"%s\"}", kids[i]);
		assert_int_equal(check_signed(bench, bench->ed, header, GOOD),
				 ST_NOT_FOUND);
	}
	assert_int_equal(
		check_signed(bench, bench->ed, "{\"alg\":\"EdDSA\",\"kid\":7}", GOOD),
		ST_KEY_INVALID);
	assert_int_equal(check_signed(bench, bench->ed,
				      "{\"alg\":\"EdDSA\",\"kid\":\"d\\u0000\"}", GOOD),
			 ST_KEY_INVALID);
}

static void
what_must_be_understood_is_refused(void **state)
{
	static const char *const more[] = {
		"\"crit\":[\"exp\"]",     "\"crit\":[]",          "\"b64\":false",
		"\"zip\":\"DEF\"",        "\"enc\":\"A128GCM\"",  "\"cty\":\"JWT\"",
		"\"typ\":\"logout+jwt\"", "\"typ\":\"dpop+jwt\"", "\"typ\":1",
		"\"alg\":\"EdDSA\"",      "\"kid\":\"d\"",
	};
	const struct bench *bench = *state;
	char header[80];

	for (size_t i = 0; i < COUNT_OF(more); i++) {
		(void)snprintf(header, sizeof header,
			       "{\"alg\":\"EdDSA\",\"kid\":\"d\",%s}", more[i]);
		assert_int_equal(check_signed(bench, bench->ed, header, GOOD),
				 ST_KEY_INVALID);
	}
}

static void
time_counts_with_a_minute_of_leeway(void **state)
{
	static const struct {
		const char *times;
		bool is_good;
	} rows[] = {
		{ "\"exp\":1800000000", true },
		{ "\"exp\":1799999941", true },
		{ "\"exp\":1799999940", false },
		{ "\"exp\":1799999940.5", true },
		{ "\"exp\":1", false },
		{ "\"exp\":0", false },
		{ "\"exp\":-1", false },
		{ "\"exp\":\"1800000600\"", false },
		{ "\"exp\":null", false },
		{ "\"exp\":true", false },
		{ "\"exp\":[1800000600]", false },
		{ "\"exp\":1e300", false },
		{ "\"exp\":9007199254740992", true },
		{ "\"exp\":9223372036854775807", false },
		{ "\"exp\":99999999999999999999", false },
		{ "\"exp\":1.8000006e9", true },
		{ "\"nbf\":1800000000", false },
		{ "\"exp\":1800000600,\"nbf\":1800000060", true },
		{ "\"exp\":1800000600,\"nbf\":1800000061", false },
		{ "\"exp\":1800000600,\"nbf\":\"0\"", false },
		{ "\"exp\":1800000600,\"iat\":1800000060", true },
		{ "\"exp\":1800000600,\"iat\":1800000061", false },
		{ "\"exp\":1800000600,\"iat\":-5", false },
		{ "\"exp\":1800000600,\"exp\":1900000600", false },
	};
	const struct bench *bench = *state;
	char claims[200];

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		(void)snprintf(claims, sizeof claims,
			       "{\"iss\":\"https://idp.example.test\","
			       "\"aud\":\"sandgate\",%s}",
			       rows[i].times);
		if (check_claims(bench, claims) !=
		    (rows[i].is_good ? ST_OK : ST_KEY_INVALID))
			fail_msg("%s", rows[i].times);
	}
}

static void
it_must_be_for_us(void **state)
{
	static const struct {
		const char *who;
		bool is_good;
	} rows[] = {
		{ "\"iss\":\"https://idp.example.test\",\"aud\":\"sandgate\"", true },
		{ "\"iss\":\"https://idp.example.test\",\"aud\":[\"x\",\"sandgate\"]",
		  true },
		{ "\"iss\":\"https://idp.example.test\",\"aud\":[\"sandgate\",1]",
		  false },
		{ "\"iss\":\"https://idp.example.test\",\"aud\":[]", false },
		{ "\"iss\":\"https://idp.example.test\",\"aud\":[[\"sandgate\"]]",
		  false },
		{ "\"iss\":\"https://idp.example.test\",\"aud\":{\"sandgate\":1}",
		  false },
		{ "\"iss\":\"https://idp.example.test\",\"aud\":\"Sandgate\"", false },
		{ "\"iss\":\"https://idp.example.test\",\"aud\":\"sandgate2\"", false },
		{ "\"iss\":\"https://idp.example.test\",\"aud\":\"\"", false },
		{ "\"iss\":\"https://idp.example.test\",\"aud\":\"sandgate\\u0000x\"",
		  false },
		{ "\"iss\":\"https://idp.example.test\"", false },
		{ "\"iss\":\"https://idp.example.test/\",\"aud\":\"sandgate\"", false },
		{ "\"iss\":[\"https://idp.example.test\"],\"aud\":\"sandgate\"",
		  false },
		{ "\"aud\":\"sandgate\"", false },
		{ "\"iss\":\"https://idp.example.test\",\"aud\":\"other\","
		  "\"aud\":\"sandgate\"",
		  false },
	};
	const struct bench *bench = *state;
	char claims[200];

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		(void)snprintf(claims, sizeof claims, "{%s,\"exp\":1800000600}",
			       rows[i].who);
		if (check_claims(bench, claims) !=
		    (rows[i].is_good ? ST_OK : ST_KEY_INVALID))
			fail_msg("%s", rows[i].who);
	}
}

/* One who wants no audience would take a token for anybody. */
static void
an_issuer_or_audience_that_is_not_set_matches_nothing(void **state)
{
	const struct bench *bench = *state;
	CLEANUP(buf_done) struct buf b = { 0 };
	struct jwt_want none = want;
	struct jwt j;

	buf_init(&b, JWT_MAKE_MAX);
	jwt_put_token(&b, bench->ed, STR(EDDSA),
		      STR("{\"iss\":\"\",\"aud\":\"\",\"exp\":1800000600}"));
	assert_int_equal(jwt_read(str_of(b.p, b.len), &j), ST_OK);
	none.issuer = none.audience = STR("");
	assert_int_equal(jwt_check(&j, bench->keys, &none), ST_KEY_INVALID);
	jwt_done(&j);
}

static void
what_has_not_the_form_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		".",
		"..",
		"...",
		"a.b.c",
		"e30.e30.",
		"e30..AA",
		".e30.AA",
		"e30.e30.AA.AA",
		"e30.e30.AA.AA.AA",
		"e30=.e30.AA",
		"e30.e30 .AA",
		"W10.W10.AA",
		"bnVsbA.e30.AA",
		"e31.e30.AA",
		"sgk_abc",
	};
	const struct bench *bench = *state;
	char big[JWT_TOKEN_MAX + 2];

	for (size_t i = 0; i < COUNT_OF(bad); i++)
		if (check_with(bench->keys, str_from(bad[i])) != ST_KEY_INVALID)
			fail_msg("%s", bad[i]);
	memset(big, 'A', sizeof big);
	assert_int_equal(check_with(bench->keys, str_of(big, sizeof big)),
			 ST_KEY_INVALID);
	memset(big, '.', sizeof big);
	assert_int_equal(check_with(bench->keys, str_of(big, JWT_TOKEN_MAX)),
			 ST_KEY_INVALID);
	/* Behind an object nothing follows; nor is a BOM before it. */
	assert_int_equal(check_claims(bench, GOOD "{}"), ST_KEY_INVALID);
	assert_int_equal(check_claims(bench, "\xef\xbb\xbf" GOOD), ST_KEY_INVALID);
	assert_int_equal(check_claims(bench, "[" GOOD "]"), ST_KEY_INVALID);
}

static void
check_pair(const struct bench *bench, const unsigned char *pair, size_t n)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, JWT_MAKE_MAX);
	jwt_put_parts(&b, STR(ES256), STR(GOOD));
	buf_putc(&b, '.');
	enc_put_base64url(&b, str_of(pair, n));
	assert_int_equal(check_with(bench->keys, str_of(b.p, b.len)), ST_KEY_INVALID);
}

/* Zeros were once good for everything (CVE-2022-21449). */
static void
r_and_s_are_numbers_of_the_curve(void **state)
{
	static const size_t sizes[] = { 1, 63, 64, 65, 70, 72, 96, 128, 132 };
	const struct bench *bench = *state;
	unsigned char pair[132];
	BIGNUM *order = NULL;

	for (int fill = 0; fill < 256; fill += 255) {
		memset(pair, fill, sizeof pair);
		for (size_t i = 0; i < COUNT_OF(sizes); i++)
			check_pair(bench, pair, sizes[i]);
	}
	assert_int_equal(
		EVP_PKEY_get_bn_param(bench->p256, OSSL_PKEY_PARAM_EC_ORDER, &order),
		1);
	assert_int_equal(BN_bn2binpad(order, pair, 32), 32);
	assert_int_equal(BN_bn2binpad(order, pair + 32, 32), 32);
	check_pair(bench, pair, 64);
	BN_free(order);
}

/* DER is how the library has it, not how a token does. */
static void
an_ecdsa_signature_in_der_is_refused(void **state)
{
	const struct bench *bench = *state;
	CLEANUP(buf_done) struct buf b = { 0 };
	unsigned char sig[128];
	size_t n = sizeof sig;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();

	buf_init(&b, JWT_MAKE_MAX);
	jwt_put_parts(&b, STR(ES256), STR(GOOD));
	assert_int_equal(EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, bench->p256),
			 1);
	assert_int_equal(EVP_DigestSign(ctx, sig, &n, (unsigned char *)b.p, b.len), 1);
	EVP_MD_CTX_free(ctx);
	check_pair(bench, sig, n);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_of_key_verifies_what_it_has_signed),
		cmocka_unit_test(no_octet_can_be_changed),
		cmocka_unit_test(the_token_does_not_choose_how_it_is_verified),
		cmocka_unit_test(a_public_key_is_no_key_of_an_hmac),
		cmocka_unit_test(keys_and_addresses_in_the_header_are_not_looked_at),
		cmocka_unit_test(the_name_of_a_key_is_only_a_name),
		cmocka_unit_test(what_must_be_understood_is_refused),
		cmocka_unit_test(time_counts_with_a_minute_of_leeway),
		cmocka_unit_test(it_must_be_for_us),
		cmocka_unit_test(an_issuer_or_audience_that_is_not_set_matches_nothing),
		cmocka_unit_test(what_has_not_the_form_is_refused),
		cmocka_unit_test(r_and_s_are_numbers_of_the_curve),
		cmocka_unit_test(an_ecdsa_signature_in_der_is_refused),
	};

	return cmocka_run_group_tests(tests, bench_up, bench_down);
}

/* Signed claims: RFC 7515's own examples, and what OpenSSL verifies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "connectors/jwt.h"
#include "proxy/base/enc.h"
#include "tests/unit/rfc7515.h"

static const struct jwt_claims claims = {
	.issuer = { "12345", 5 },
	.subject = { "", 0 },
	.audience = { "https://idp.example.test/token", 30 },
	.scope = { "read \"all\"", 10 },
	.key_id = { "k1", 2 },
	.issued_s = 1000,
	.expires_s = 1600,
};

static void
decode(struct str part, struct buf *out)
{
	CLEANUP(buf_done) struct buf plain = { 0 };

	buf_init(&plain, 8192);
	for (size_t i = 0; i < part.n; i++)
		buf_putc(&plain, part.p[i] == '-'   ? '+'
				 : part.p[i] == '_' ? '/'
						    : part.p[i]);
	buf_init(out, 8192);
	assert_true(enc_get_base64(out, str_of(plain.p, plain.len)));
}

static void
an_rs256_signature_is_the_one_of_rfc_7515(void **state)
{
	CLEANUP(cred_done) struct cred out = { 0 };

	(void)state;
	cred_init(&out, 2048);
	assert_int_equal(jwt_put_signature(&out, JWT_RS256, str_from(rfc7515_rsa_key),
					   str_from(rfc7515_input)),
			 ST_OK);
	assert_true(str_eq(cred_since(&out, 0), str_from(rfc7515_rs256_signature)));
}

/* r and s as the JSON form has them, verified as OpenSSL has them. */
static bool
es256_verifies(struct str input, const struct buf *raw)
{
	BIO *bio = BIO_new_mem_buf(rfc7515_ec_key, -1);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
	ECDSA_SIG *sig = ECDSA_SIG_new();
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned char *der = NULL;
	const unsigned char *p = (const unsigned char *)raw->p;

	assert_int_equal(ECDSA_SIG_set0(sig, BN_bin2bn(p, 32, NULL),
					BN_bin2bn(p + 32, 32, NULL)),
			 1);
	int n = i2d_ECDSA_SIG(sig, &der);
	assert_int_equal(EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key), 1);
	bool ok = EVP_DigestVerify(ctx, der, (size_t)n, (const unsigned char *)input.p,
				   input.n) == 1;
	OPENSSL_free(der);
	EVP_MD_CTX_free(ctx);
	ECDSA_SIG_free(sig);
	EVP_PKEY_free(key);
	BIO_free(bio);
	return ok;
}

static void
an_es256_signature_is_two_numbers_side_by_side_and_verifies(void **state)
{
	(void)state;
	/* Numbers with leading zeros come up once in 128 signatures. */
	for (int i = 0; i < 300; i++) {
		CLEANUP(cred_done) struct cred out = { 0 };
		CLEANUP(buf_done) struct buf raw = { 0 };
		cred_init(&out, 2048);
		assert_int_equal(jwt_put_signature(&out, JWT_ES256,
						   str_from(rfc7515_ec_key),
						   str_from(rfc7515_input)),
				 ST_OK);
		decode(cred_since(&out, 0), &raw);
		assert_int_equal(raw.len, 64);
		assert_true(es256_verifies(str_from(rfc7515_input), &raw));
	}
}

static void
a_jwt_is_header_claims_and_signature(void **state)
{
	CLEANUP(cred_done) struct cred out = { 0 };
	CLEANUP(buf_done) struct buf header = { 0 };
	CLEANUP(buf_done) struct buf body = { 0 };
	struct str rest;

	(void)state;
	cred_init(&out, 4096);
	assert_int_equal(jwt_put(&out, JWT_RS256, str_from(rfc7515_rsa_key), &claims),
			 ST_OK);
	rest = cred_since(&out, 0);
	assert_false(str_has(rest, '='));
	decode(str_cut(&rest, '.'), &header);
	decode(str_cut(&rest, '.'), &body);
	assert_true(str_eq(str_of(header.p, header.len),
			   STR("{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"k1\"}")));
	assert_true(
		str_eq(str_of(body.p, body.len),
		       STR("{\"iss\":\"12345\",\"aud\":\"https://idp.example.test/"
			   "token\",\"scope\":\"read \\u0022all\\u0022\",\"iat\":1000,"
			   "\"exp\":1600}")));
	assert_int_equal(rest.n, 342);
	assert_false(str_has(rest, '.'));
}

static void
what_is_no_key_of_that_algorithm_signs_nothing(void **state)
{
	CLEANUP(cred_done) struct cred out = { 0 };
	static const char locked[] = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
				     "MIGjMF8GCSqGSIb3DQEFDTBSMDEGCSqGSIb3DQ==\n"
				     "-----END ENCRYPTED PRIVATE KEY-----\n";

	(void)state;
	cred_init(&out, 4096);
	assert_int_equal(jwt_put(&out, JWT_ES256, str_from(rfc7515_rsa_key), &claims),
			 ST_BAD_SECRET);
	cred_done(&out);
	cred_init(&out, 4096);
	assert_int_equal(jwt_put(&out, JWT_RS256, str_from(rfc7515_ec_key), &claims),
			 ST_BAD_SECRET);
	assert_int_equal(jwt_put(&out, JWT_RS256, str_from(locked), &claims),
			 ST_BAD_SECRET);
	assert_int_equal(jwt_put(&out, JWT_RS256, STR(""), &claims), ST_BAD_SECRET);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_rs256_signature_is_the_one_of_rfc_7515),
		cmocka_unit_test(
			an_es256_signature_is_two_numbers_side_by_side_and_verifies),
		cmocka_unit_test(a_jwt_is_header_claims_and_signature),
		cmocka_unit_test(what_is_no_key_of_that_algorithm_signs_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

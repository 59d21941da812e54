#ifndef TESTS_UNIT_JWT_BENCH_H
#define TESTS_UNIT_JWT_BENCH_H
/* jwt_bench: three keys of an issuer, their set, and tokens that they sign. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/ec.h>
#include <openssl/rsa.h>

#include "proxy/control/jwt.h"
#include "tests/unit/jwt_make.h"

enum { NOW = 1800000000 };

static const struct jwt_want want = {
	.issuer = { "https://idp.example.test", 24 },
	.audience = { "sandgate", 8 },
	.now_s = NOW,
};

#define GOOD                                                                           \
	"{\"iss\":\"https://"                                                          \
	"idp.example.test\",\"aud\":\"sandgate\",\"sub\":\"alice\","                   \
	"\"exp\":1800000600}"
#define RS256 "{\"alg\":\"RS256\",\"kid\":\"r\"}"
#define ES256 "{\"alg\":\"ES256\",\"kid\":\"e\"}"
#define EDDSA "{\"alg\":\"EdDSA\",\"kid\":\"d\"}"

struct bench {
	EVP_PKEY *rsa, *p256, *ed;
	struct jwks *keys;
};

static inline void
put_set(struct buf *b, const struct bench *bench)
{
	buf_put(b, STR("{\"keys\":["));
	jwt_put_jwk(b, bench->rsa, "r");
	buf_put(b, STR(",\"alg\":\"RS256\"},"));
	jwt_put_jwk(b, bench->p256, "e");
	buf_put(b, STR("},"));
	jwt_put_jwk(b, bench->ed, "d");
	buf_put(b, STR(",\"x5u\":\"https://evil.example.test\"}]}"));
}

static inline int
bench_up(void **state)
{
	static struct bench bench;
	CLEANUP(buf_done) struct buf b = { 0 };

	bench.rsa = EVP_RSA_gen(2048);
	bench.p256 = EVP_EC_gen("P-256");
	bench.ed = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	need(bench.rsa != NULL && bench.p256 != NULL && bench.ed != NULL);
	buf_init(&b, JWT_MAKE_MAX);
	put_set(&b, &bench);
	need(jwks_new(str_of(b.p, b.len), &bench.keys) == ST_OK);
	*state = &bench;
	return 0;
}

static inline int
bench_down(void **state)
{
	struct bench *bench = *state;

	EVP_PKEY_free(bench->rsa);
	EVP_PKEY_free(bench->p256);
	EVP_PKEY_free(bench->ed);
	jwks_free(bench->keys);
	return 0;
}

static inline enum status
check_with(const struct jwks *keys, struct str token)
{
	struct jwt j = { .header = NULL };
	enum status st = jwt_read(token, &j);

	if (st != ST_OK) {
		assert_null(j.header);
		return st;
	}
	st = jwt_check(&j, keys, &want);
	jwt_done(&j);
	return st;
}

/* Signed as it should be, whatever it says. */
static inline enum status
check_signed(const struct bench *bench, EVP_PKEY *key, const char *header,
	     const char *claims)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 4 * JWT_MAKE_MAX);
	jwt_put_token(&b, key, str_from(header), str_from(claims));
	assert_int_equal(b.st, ST_OK);
	return check_with(bench->keys, str_of(b.p, b.len));
}

static inline enum status
check_claims(const struct bench *bench, const char *claims)
{
	return check_signed(bench, bench->ed, EDDSA, claims);
}

#endif

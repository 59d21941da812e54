#ifndef TESTS_UNIT_JWT_MAKE_H
#define TESTS_UNIT_JWT_MAKE_H
/* Keys of an issuer, their set, and tokens that they sign: by libcrypto alone, so that what
 * is tested isn't tested with itself. */
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <string.h>

#include "proxy/base/enc.h"

enum { JWT_MAKE_MAX = 16384, JWT_MAKE_P256 = 32 };

static inline void
jwt_put_bn(struct buf *b, const EVP_PKEY *key, const char *param, int width)
{
	unsigned char octets[1024];
	BIGNUM *n = NULL;

	need(EVP_PKEY_get_bn_param(key, param, &n) == 1);
	if (width == 0)
		width = BN_num_bytes(n);
	need(width <= (int)sizeof octets && BN_bn2binpad(n, octets, width) == width);
	enc_put_base64url(b, str_of(octets, (size_t)width));
	BN_free(n);
}

/* The key as a member of a set, without the braces at its end: more may follow. */
static inline void
jwt_put_jwk(struct buf *b, EVP_PKEY *key, const char *kid)
{
	unsigned char x[32];
	size_t n = sizeof x;

	buf_putf(b, "{\"kid\":\"%s\",\"use\":\"sig\",", kid);
	if (EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA) {
		buf_put(b, STR("\"kty\":\"RSA\",\"n\":\""));
		jwt_put_bn(b, key, OSSL_PKEY_PARAM_RSA_N, 0);
		buf_put(b, STR("\",\"e\":\""));
		jwt_put_bn(b, key, OSSL_PKEY_PARAM_RSA_E, 0);
	} else if (EVP_PKEY_get_base_id(key) == EVP_PKEY_EC) {
		buf_put(b, STR("\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\""));
		jwt_put_bn(b, key, OSSL_PKEY_PARAM_EC_PUB_X, JWT_MAKE_P256);
		buf_put(b, STR("\",\"y\":\""));
		jwt_put_bn(b, key, OSSL_PKEY_PARAM_EC_PUB_Y, JWT_MAKE_P256);
	} else {
		need(EVP_PKEY_get_raw_public_key(key, x, &n) == 1);
		buf_put(b, STR("\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\""));
		enc_put_base64url(b, str_of(x, n));
	}
	buf_put(b, STR("\""));
}

/* r and s side by side. */
static inline void
jwt_put_plain_pair(struct buf *b, const unsigned char *der, size_t n)
{
	unsigned char pair[2 * JWT_MAKE_P256];
	ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long)n);

	need(sig != NULL);
	need(BN_bn2binpad(ECDSA_SIG_get0_r(sig), pair, JWT_MAKE_P256) == JWT_MAKE_P256);
	need(BN_bn2binpad(ECDSA_SIG_get0_s(sig), pair + JWT_MAKE_P256, JWT_MAKE_P256) ==
	     JWT_MAKE_P256);
	enc_put_base64url(b, str_of(pair, sizeof pair));
	ECDSA_SIG_free(sig);
}

static inline void
jwt_put_parts(struct buf *b, struct str header, struct str claims)
{
	enc_put_base64url(b, header);
	buf_putc(b, '.');
	enc_put_base64url(b, claims);
}

/* HEADER.CLAIMS.SIGNATURE, whatever they are; nothing stands in b yet. */
static inline void
jwt_put_token(struct buf *b, EVP_PKEY *key, struct str header, struct str claims)
{
	unsigned char sig[1024];
	size_t n = sizeof sig;
	int kind = EVP_PKEY_get_base_id(key);
	const EVP_MD *md = kind == EVP_PKEY_ED25519 ? NULL : EVP_sha256();
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();

	jwt_put_parts(b, header, claims);
	need(EVP_DigestSignInit(ctx, NULL, md, NULL, key) == 1);
	need(EVP_DigestSign(ctx, sig, &n, (const unsigned char *)b->p, b->len) == 1);
	EVP_MD_CTX_free(ctx);
	buf_putc(b, '.');
	if (kind == EVP_PKEY_EC)
		jwt_put_plain_pair(b, sig, n);
	else
		enc_put_base64url(b, str_of(sig, n));
}

#endif

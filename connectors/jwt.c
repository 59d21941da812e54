#include "connectors/jwt.h"

#include <limits.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "proxy/base/buf.h"

enum { P256_PART = 32, P256_BITS = 256, RSA_BITS_MIN = 2048, SIGNATURE_MAX = 1024 };

struct claim {
	const char *name;
	struct str value;
};

/* A key with a passphrase is no key for us, and nobody is there to be asked.  -1 is the
 * answer; the empty text is for a library that would read p all the same. */
static int
no_passphrase(char *p, int n, int is_writing, void *ctx)
{
	if (n > 0)
		p[0] = '\0';
	(void)is_writing;
	(void)ctx;
	return -1;
}

static EVP_PKEY *
key_from(struct str pem)
{
	BIO *bio;
	EVP_PKEY *key;

	if (pem.n > INT_MAX)
		return NULL;
	bio = BIO_new_mem_buf(pem.p, (int)pem.n);
	if (bio == NULL)
		return NULL;
	key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
	BIO_free(bio);
	return key;
}

static bool
key_fits(const EVP_PKEY *key, enum jwt_algorithm alg)
{
	if (alg == JWT_RS256)
		return EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA &&
		       EVP_PKEY_get_bits(key) >= RSA_BITS_MIN;
	return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
	       EVP_PKEY_get_bits(key) == P256_BITS;
}

/* RFC 7515 wants r and s side by side (RFC 7518 section 3.4), not in DER. */
static enum status
put_plain_pair(struct cred *out, const unsigned char *der, size_t n)
{
	unsigned char pair[2 * P256_PART];
	ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long)n);
	bool ok = sig != NULL &&
		  BN_bn2binpad(ECDSA_SIG_get0_r(sig), pair, P256_PART) == P256_PART &&
		  BN_bn2binpad(ECDSA_SIG_get0_s(sig), pair + P256_PART, P256_PART) ==
			  P256_PART;

	ECDSA_SIG_free(sig);
	if (!ok)
		return ST_INTERNAL;
	cred_put_base64url(out, str_of(pair, sizeof pair));
	return out->st;
}

static enum status
sign(EVP_PKEY *key, struct str input, unsigned char *ret_der, size_t *ret_n)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t n = SIGNATURE_MAX;
	bool ok = ctx != NULL &&
		  EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
		  EVP_DigestSign(ctx, ret_der, &n, (const unsigned char *)input.p,
				 input.n) == 1;

	EVP_MD_CTX_free(ctx);
	if (!ok)
		return ST_BAD_SECRET;
	*ret_n = n;
	return ST_OK;
}

enum status
jwt_put_signature(struct cred *out, enum jwt_algorithm alg, struct str pem,
		  struct str input)
{
	unsigned char der[SIGNATURE_MAX];
	EVP_PKEY *key = key_from(pem);
	size_t n = 0;
	enum status st = ST_BAD_SECRET;

	if (key != NULL && key_fits(key, alg))
		st = sign(key, input, der, &n);
	EVP_PKEY_free(key);
	if (st != ST_OK)
		return st;
	if (alg == JWT_ES256)
		return put_plain_pair(out, der, n);
	cred_put_base64url(out, str_of(der, n));
	return out->st;
}

static void
put_header(struct buf *b, enum jwt_algorithm alg, const struct jwt_claims *c)
{
	buf_putf(b, "{\"alg\":\"%s\",\"typ\":\"JWT\"",
		 alg == JWT_RS256 ? "RS256" : "ES256");
	if (c->key_id.n > 0) {
		buf_put(b, STR(",\"kid\":"));
		buf_put_json(b, c->key_id);
	}
	buf_putc(b, '}');
}

static void
put_claims(struct buf *b, const struct jwt_claims *c)
{
	const struct claim texts[] = { { "iss", c->issuer },
				       { "sub", c->subject },
				       { "aud", c->audience },
				       { "scope", c->scope } };

	buf_putc(b, '{');
	for (size_t i = 0; i < COUNT_OF(texts); i++) {
		if (texts[i].value.n == 0)
			continue;
		buf_putf(b, "\"%s\":", texts[i].name);
		buf_put_json(b, texts[i].value);
		buf_putc(b, ',');
	}
	buf_putf(b, "\"iat\":%llu,\"exp\":%llu}", (unsigned long long)c->issued_s,
		 (unsigned long long)c->expires_s);
}

/* Header and claims hold nothing secret; only the signature makes them worth anything. */
enum status
jwt_put(struct cred *out, enum jwt_algorithm alg, struct str pem,
	const struct jwt_claims *claims)
{
	CLEANUP(buf_done) struct buf header = { 0 };
	CLEANUP(buf_done) struct buf body = { 0 };
	size_t mark = cred_mark(out);
	struct str input;

	buf_init(&header, JWT_MAX);
	buf_init(&body, JWT_MAX);
	put_header(&header, alg, claims);
	put_claims(&body, claims);
	if (header.st != ST_OK || body.st != ST_OK)
		return ST_TOO_BIG;
	cred_put_base64url(out, str_of(header.p, header.len));
	cred_putc(out, '.');
	cred_put_base64url(out, str_of(body.p, body.len));
	if (out->st != ST_OK)
		return out->st;
	input = cred_since(out, mark);
	cred_putc(out, '.');
	return jwt_put_signature(out, alg, pem, input);
}

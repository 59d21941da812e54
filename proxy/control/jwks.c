#include "proxy/control/jwks.h"

#include <jansson.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/base/enc.h"
#include "proxy/control/brain_json.h"

enum {
	RSA_BITS_MIN = 2048,
	RSA_BITS_MAX = 8192,
	RSA_OCTETS_MAX = RSA_BITS_MAX / 8,
	RSA_E_OCTETS_MAX = 8, /* more costs time, and nobody has it */
	P256_PART = 32,
	ED25519_PART = 32,
	KID_MAX = 256,
};

struct jwk {
	EVP_PKEY *key;
	const char *alg; /* the one that it verifies */
	char kid[KID_MAX];
	size_t kid_n;
	bool has_kid;
};

struct jwks {
	size_t n;
	struct jwk keys[JWKS_KEYS_MAX];
};

/* One key. */

static bool
is_for_verifying(const json_t *j)
{
	const json_t *use = json_object_get(j, "use"),
		     *ops = json_object_get(j, "key_ops"), *op;
	size_t i;

	if (use != NULL && !str_eq(brain_json_text(j, "use"), STR("sig")))
		return false;
	if (ops == NULL)
		return true;
	json_array_foreach(ops, i, op)
	{
		if (json_is_string(op) && strcmp(json_string_value(op), "verify") == 0)
			return true;
	}
	return false;
}

/* A member in base64url.  *ret_n: how many octets; 0: not there, or too many. */
static size_t
get_octets(const json_t *j, const char *name, unsigned char *ret_p, size_t max)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, max);
	if (!enc_get_base64url(&b, brain_json_text(j, name)) || b.len == 0)
		return 0;
	memcpy(ret_p, b.p, b.len);
	return b.len;
}

/* Takes params over. */
static EVP_PKEY *
key_from(const char *kind, OSSL_PARAM *params)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, kind, NULL);
	EVP_PKEY *key = NULL;

	if (ctx == NULL || params == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
		key = NULL;
	EVP_PKEY_CTX_free(ctx);
	OSSL_PARAM_free(params);
	return key;
}

static EVP_PKEY *
read_rsa(const json_t *j)
{
	unsigned char octets[RSA_OCTETS_MAX], e_octets[RSA_E_OCTETS_MAX];
	size_t n_n = get_octets(j, "n", octets, sizeof octets);
	size_t e_n = get_octets(j, "e", e_octets, sizeof e_octets);
	BIGNUM *n = n_n == 0 ? NULL : BN_bin2bn(octets, (int)n_n, NULL);
	BIGNUM *e = e_n == 0 ? NULL : BN_bin2bn(e_octets, (int)e_n, NULL);
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	EVP_PKEY *key = NULL;

	/* With e == 1 everything would be its own signature. */
	if (n != NULL && e != NULL && build != NULL && BN_num_bits(n) >= RSA_BITS_MIN &&
	    BN_is_odd(n) && BN_is_odd(e) && !BN_is_one(e) &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n) &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e))
		key = key_from("RSA", OSSL_PARAM_BLD_to_param(build));
	OSSL_PARAM_BLD_free(build);
	BN_free(n);
	BN_free(e);
	return key;
}

static bool
is_point_of_curve(EVP_PKEY *key)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
	bool ok = ctx != NULL && EVP_PKEY_public_check(ctx) == 1;

	EVP_PKEY_CTX_free(ctx);
	return ok;
}

static EVP_PKEY *
read_p256(const json_t *j)
{
	unsigned char point[1 + 2 * P256_PART] = { POINT_CONVERSION_UNCOMPRESSED };
	OSSL_PARAM_BLD *build;
	EVP_PKEY *key = NULL;

	if (get_octets(j, "x", point + 1, P256_PART) != P256_PART ||
	    get_octets(j, "y", point + 1 + P256_PART, P256_PART) != P256_PART)
		return NULL;
	build = OSSL_PARAM_BLD_new();
	if (build != NULL &&
	    OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME,
					    "prime256v1", 0) &&
	    OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point,
					     sizeof point))
		key = key_from("EC", OSSL_PARAM_BLD_to_param(build));
	OSSL_PARAM_BLD_free(build);
	if (key != NULL && !is_point_of_curve(key)) {
		EVP_PKEY_free(key);
		key = NULL;
	}
	return key;
}

static EVP_PKEY *
read_ed25519(const json_t *j)
{
	unsigned char x[ED25519_PART];

	if (get_octets(j, "x", x, sizeof x) != sizeof x)
		return NULL;
	return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, x, sizeof x);
}

static const struct kind {
	const char *kty, *crv, *alg;
	EVP_PKEY *(*read)(const json_t *j);
} kinds[] = {
	{ "RSA", NULL, "RS256", read_rsa },
	{ "EC", "P-256", "ES256", read_p256 },
	{ "OKP", "Ed25519", "EdDSA", read_ed25519 },
};

static const struct kind *
kind_of(const json_t *j)
{
	struct str kty = brain_json_text(j, "kty"), crv = brain_json_text(j, "crv");

	for (size_t i = 0; i < COUNT_OF(kinds); i++) {
		const struct kind *k = &kinds[i];
		if (str_eq(kty, str_from(k->kty)) &&
		    (k->crv == NULL || str_eq(crv, str_from(k->crv))))
			return k;
	}
	return NULL;
}

/* False: of no use here. */
static bool
read_jwk(const json_t *j, struct jwk *ret_k)
{
	const struct kind *kind = kind_of(j);
	const json_t *kid = json_object_get(j, "kid"), *alg = json_object_get(j, "alg");
	struct str name = brain_json_text(j, "kid");
	struct jwk k = { .has_kid = kid != NULL, .kid_n = name.n };

	if (kind == NULL || !is_for_verifying(j) || name.n > KID_MAX ||
	    (kid != NULL && !json_is_string(kid)) ||
	    (alg != NULL && !str_eq(brain_json_text(j, "alg"), str_from(kind->alg))))
		return false;
	if (name.n > 0)
		memcpy(k.kid, name.p, name.n);
	k.alg = kind->alg;
	k.key = kind->read(j);
	if (k.key == NULL)
		return false;
	*ret_k = k;
	return true;
}

/* The set. */

void
jwks_free(struct jwks *set)
{
	if (set == NULL)
		return;
	for (size_t i = 0; i < set->n; i++)
		EVP_PKEY_free(set->keys[i].key);
	free(set);
}

size_t
jwks_count(const struct jwks *set)
{
	return set->n;
}

enum status
jwks_new(struct str text, struct jwks **ret_set)
{
	json_t *all, *keys, *one;
	struct jwks *set;
	size_t i;

	if (text.n == 0 || text.n > JWKS_MAX)
		return ST_UPSTREAM_BAD;
	all = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
	keys = json_object_get(all, "keys");
	set = calloc(1, sizeof *set);
	if (set == NULL) {
		json_decref(all);
		return ST_NOMEM;
	}
	json_array_foreach(keys, i, one)
	{
		if (set->n < JWKS_KEYS_MAX && read_jwk(one, &set->keys[set->n]))
			set->n++;
	}
	json_decref(all);
	if (set->n == 0) {
		jwks_free(set);
		return ST_UPSTREAM_BAD;
	}
	*ret_set = set;
	return ST_OK;
}

/* What they have signed. */

/* A key without a name is meant by no name. */
static const struct jwk *
find(const struct jwks *set, const struct jwks_signed *s)
{
	const struct jwk *found = NULL;

	for (size_t i = 0; i < set->n; i++) {
		const struct jwk *k = &set->keys[i];
		if (!str_eq(s->alg, str_from(k->alg)) ||
		    (s->kid.p != NULL &&
		     !(k->has_kid && str_eq(s->kid, str_of(k->kid, k->kid_n)))))
			continue;
		if (found != NULL)
			return NULL;
		found = k;
	}
	return found;
}

/* RFC 7518 section 3.4 has r and s side by side; the library wants DER. */
static int
make_der(struct str signature, unsigned char **ret_der)
{
	const unsigned char *p = (const unsigned char *)signature.p;
	ECDSA_SIG *sig;
	BIGNUM *r, *s;
	int n = -1;

	if (signature.n != (size_t)2 * P256_PART)
		return -1;
	sig = ECDSA_SIG_new();
	r = BN_bin2bn(p, P256_PART, NULL);
	s = BN_bin2bn(p + P256_PART, P256_PART, NULL);
	if (sig != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(sig, r, s) == 1) {
		n = i2d_ECDSA_SIG(sig, ret_der);
	} else {
		BN_free(r);
		BN_free(s);
	}
	ECDSA_SIG_free(sig);
	return n;
}

static bool
verify(EVP_PKEY *key, struct str input, const unsigned char *signature, size_t n)
{
	const EVP_MD *md =
		EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? NULL : EVP_sha256();
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = ctx != NULL && EVP_DigestVerifyInit(ctx, NULL, md, NULL, key) == 1 &&
		  EVP_DigestVerify(ctx, signature, n, (const unsigned char *)input.p,
				   input.n) == 1;

	EVP_MD_CTX_free(ctx);
	return ok;
}

enum status
jwks_verify(const struct jwks *set, const struct jwks_signed *s)
{
	const struct jwk *k = find(set, s);
	unsigned char *der = NULL;
	bool ok;

	if (k == NULL)
		return ST_NOT_FOUND;
	if (EVP_PKEY_get_base_id(k->key) == EVP_PKEY_EC) {
		int n = make_der(s->signature, &der);
		ok = n > 0 && verify(k->key, s->input, der, (size_t)n);
		OPENSSL_free(der);
	} else {
		ok = verify(k->key, s->input, (const unsigned char *)s->signature.p,
			    s->signature.n);
	}
	return ok ? ST_OK : ST_KEY_INVALID;
}

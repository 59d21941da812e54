#ifndef PROXY_CONTROL_JWKS_H
#define PROXY_CONTROL_JWKS_H
/*
 * jwks: the public keys of one issuer (RFC 7517), and what they have signed.
 *
 * A key verifies one algorithm, which its kind gives: RSA of 2048 to 8192 bits RS256, P-256
 * ES256, Ed25519 EdDSA (RFC 7518, RFC 8037).  A token only says which key it means; no word
 * of it chooses how it is verified.  Keys of other kinds, for other uses or with another
 * `alg` are as if they weren't there: an issuer may have them for others.
 */
#include "proxy/base/str.h"

enum { JWKS_MAX = 256 * 1024, JWKS_KEYS_MAX = 64 };

struct jwks;

/* ST_UPSTREAM_BAD: not a set of keys, or none of them is of use here. */
enum status jwks_new(struct str text, struct jwks **ret_set) MUSTCHECK;
void jwks_free(struct jwks *set); /* NULL is fine */
size_t jwks_count(const struct jwks *set);

struct jwks_signed {
	struct str alg;       /* as the token's header says it */
	struct str kid;       /* p == NULL: it names none */
	struct str input;     /* HEADER.CLAIMS */
	struct str signature; /* octets */
};

/* ST_NOT_FOUND: no key of that name, or none was named and there isn't exactly one of that
 * algorithm.  ST_KEY_INVALID: not by that key. */
enum status jwks_verify(const struct jwks *set, const struct jwks_signed *s) MUSTCHECK;

#endif

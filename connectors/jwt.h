#ifndef CONNECTORS_JWT_H
#define CONNECTORS_JWT_H
/*
 * jwt: a claim that a private key signs (RFC 7519, RFC 7515 compact form): RS256 and
 * ES256.  The key is parsed for one signature and gone.
 */
#include "connectors/cred.h"

enum jwt_algorithm { JWT_RS256, JWT_ES256 };

struct jwt_claims { /* empty: left out */
	struct str issuer, subject, audience, scope;
	struct str key_id;
	uint64_t issued_s, expires_s;
};

enum { JWT_MAX = 16384 };

/* HEADER.CLAIMS.SIGNATURE.  ST_BAD_SECRET: pem is no private key of that algorithm. */
enum status jwt_put(struct cred *out, enum jwt_algorithm alg, struct str pem,
		    const struct jwt_claims *claims) MUSTCHECK;
/* The signature alone, as base64url; input is HEADER.CLAIMS (RFC 7515 section 5.1). */
enum status jwt_put_signature(struct cred *out, enum jwt_algorithm alg, struct str pem,
			      struct str input) MUSTCHECK;

#endif

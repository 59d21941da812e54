#ifndef PROXY_CONTROL_JWT_H
#define PROXY_CONTROL_JWT_H
/*
 * jwt: a bearer token: claims (RFC 7519) that an issuer signed (RFC 7515, compact form).
 *
 * jwt_read() looks at the form only, so that the issuer can be found; nothing of the token
 * counts before jwt_check().  Strict where readers differ: base64url has one spelling, no
 * member comes twice, nothing follows, `crit` and types of other things than access are
 * refused, and keys or addresses of keys in the header are never looked at.
 */
#include <jansson.h>

#include "proxy/base/buf.h"
#include "proxy/control/jwks.h"

enum {
	JWT_TOKEN_MAX = 8192,
	JWT_LEEWAY_S = 60, /* clocks differ */
};

struct jwt {
	json_t *header, *claims; /* objects */
	struct buf signature;
	struct str input; /* HEADER.CLAIMS: a view of the token */
};

/* ST_KEY_INVALID: no such token.  ret_j holds nothing then; else it is jwt_done()'s. */
enum status jwt_read(struct str token, struct jwt *ret_j) MUSTCHECK;
void jwt_done(struct jwt *j);

/* A claim that is a text; p == NULL: none of that name, or no text. */
struct str jwt_text(const struct jwt *j, const char *claim);

struct jwt_want {
	struct str issuer, audience; /* an empty one matches nothing */
	uint64_t now_s;
};

/* Is it of that issuer, and for that audience?  now_s isn't looked at. */
bool jwt_is_for(const struct jwt *j, const struct jwt_want *w);

/* ST_OK: signed by one of keys, for us, now.  ST_NOT_FOUND: it is meant for us, but by a key
 * that isn't there (keys NULL: none is); the issuer may have a new one.  ST_KEY_INVALID. */
enum status jwt_check(const struct jwt *j, const struct jwks *keys,
		      const struct jwt_want *w) MUSTCHECK;

#endif

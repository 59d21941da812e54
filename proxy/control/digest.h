#ifndef PROXY_CONTROL_DIGEST_H
#define PROXY_CONTROL_DIGEST_H
/*
 * digest: SHA-256 of the tokens that sandboxes show, as the keeper says them; the tokens
 * stay in the vault.  Kept for a moment, so that a storm of logins is not one of asks;
 * a token that was rotated or removed stops counting with that moment.
 */
#include "proxy/control/control.h"

enum {
	DIGESTS_MAX = 8,        /* versions of one token that count at once */
	DIGEST_GOOD_MS = 5000,  /* what was said is believed so long */
	DIGEST_FRESH_MS = 1000, /* and a no is a no so long */
	DIGEST_NAMES = 10000,
};

struct digest {
	uint8_t hash[DIGESTS_MAX][32];
	size_t n;
	uint64_t at_ms;
};

/* st ST_OK: d is good during the call. */
typedef void (*digest_fn)(void *ctx, enum status st, const struct digest *d);

/* What was said of this sandbox's token at most so long ago; NULL: nothing. */
const struct digest *digest_cached(struct control *c, const struct image_sandbox *s,
				   uint64_t age_ms);
bool digest_has(const struct digest *d, const uint8_t hash[32]);
/* fn comes once, never from inside; or not at all unless ST_OK. */
enum status digest_ask(struct control *c, const struct image_sandbox *s, digest_fn fn,
		       void *ctx) MUSTCHECK;

#endif

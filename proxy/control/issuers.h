#ifndef PROXY_CONTROL_ISSUERS_H
#define PROXY_CONTROL_ISSUERS_H
/*
 * issuers: whose tokens are taken (exec.jwt), and their keys.
 *
 * Those of a jwks_file come with the image.  The others are fetched through a connector:
 *
 *	at the first token that is meant for us, which waits
 *	behind one that was good, when the last fetch is ISSUER_FRESH_MS ago
 *	at a key that we don't know, but once in ISSUER_AGAIN_MS; the token waits
 *
 * What was fetched counts for ISSUER_KEPT_MS though nothing newer can be had; after that
 * tokens are refused, so that a key that was taken back doesn't count for ever.
 *
 * Tokens that aren't meant for us (issuer, audience, time) never make us fetch.
 */
#include "proxy/control/keys.h"

enum {
	ISSUER_FRESH_MS = 300000,
	ISSUER_AGAIN_MS = 60000,
	ISSUER_RETRY_MS = 5000, /* as long as there are no keys at all */
	ISSUER_KEPT_MS = 3600000,
	ISSUER_FETCH_MS = 10000,
};

struct issuers;

struct moment {
	uint64_t wall_s; /* since 1970 */
	uint64_t mono_ms;
};

enum status issuers_new(struct control *c, struct issuers **ret_all) MUSTCHECK;
void issuers_free(struct issuers *all); /* nobody who waits is told; NULL is fine */

/* As keys_principal().  session, task and on_behalf_of stay empty. */
enum status issuers_principal(struct issuers *all, const struct moment *now,
			      struct str token, struct keys_wait *wait,
			      struct principal *ret_p) MUSTCHECK;

/* Is this a token of one of them, and for us?  Nothing else of it is looked at. */
bool issuers_mean(struct issuers *all, struct str token);

/* What tokens of that issuer are good for by the configuration that is in force, of a
 * principal's key_id.  False: they are taken no longer. */
bool issuers_allow(struct issuers *all, struct str key_id, unsigned *ret_scopes,
		   bool *ret_may_delegate) MUSTCHECK;

#endif

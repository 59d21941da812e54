#ifndef CONNECTORS_STORE_H
#define CONNECTORS_STORE_H
/*
 * store: reads a source of secrets (`vault.sources`: OpenBao, HashiCorp Vault) for the keeper.
 * Only in the process of the source's own group, which does nothing else: it alone holds the
 * token, and no sandbox has a way to it.
 *
 *	log in      with what the vault holds for it; once more when a token is refused
 *	renew       the token's lease, at two thirds of it; log in anew where it can't be
 *	read        each of its secrets, one after the other, every `refresh`
 *	supply      what was found to the keeper, also that there is none any more
 *
 * One call at a time, whoever waits.  A source that says no is believed at once; one that says
 * nothing leaves the keeper with what it has, up to `keep`, and is asked again soon.
 */
#include "connectors/connector.h"

struct store_wait;

struct store_found { /* of the last round; no value */
	enum status login;
	uint64_t expires_s;     /* of the token; 0: it doesn't end */
	size_t secrets, read;   /* how many there are, and were there */
	enum status failed;     /* of the first that was not */
	struct str failed_name; /* views into the image */
};

typedef void (*store_fn)(void *ctx, const struct store_found *f);

/* A new policy, or a new keeper: everything is read anew. */
void stores_renew(struct connector *all);
/* What they log in with was changed: log in anew.  As lents_revoke(). */
void stores_revoke(struct connector *all,
		   bool (*fn)(const void *ctx, uint32_t connector), const void *ctx);
/* The end: tokens that a login brought are given back.  connector_check_drained() follows,
 * once or more often. */
void stores_drain(struct connector *all);
bool stores_are_drained(const struct connector *all);
void stores_done(struct connector *all);

/* After the next round; fn comes once, never from inside.  ST_NOT_FOUND: no source that is
 * read here. */
enum status store_probe(struct connector *all, uint32_t connector, store_fn fn,
			void *ctx, struct store_wait **ret_w) MUSTCHECK;
void store_cancel(struct store_wait *w); /* NULL is fine */

#endif

#ifndef CONNECTORS_LENT_H
#define CONNECTORS_LENT_H
/*
 * lent: what the keeper has lent for one sandbox and one connector, for a moment: the
 * lease, and the words that answers are searched for.
 *
 * All lanes of that sandbox to that connector share it, and those who ask while it is asked
 * for wait for the same answer: many requests at once cost the keeper one answer and one
 * row, and a secret is in memory for LENT_MS at most.  It goes with its last lane, with a new
 * policy, and at once when it was changed or taken away (revoke.h).
 */
#include "connectors/lease.h"
#include "connectors/words.h"

enum { LENT_MS = 500 };

struct lent;
struct lent_wait;

/* st ST_OK: lent_lease() has it, at least until this returns.  ST_AGAIN: what was asked for was
 * revoked meanwhile; ask again. */
typedef void (*lent_fn)(void *ctx, enum status st);

/* The one for both, made if there is none: a reference, the caller's.  NULL: no memory. */
struct lent *lent_of(struct connector *all, uint32_t connector, uint32_t handle);
void lent_unref(struct lent *l); /* NULL is fine */
/* What was lent under the policy before is for none of those who come now. */
void lents_forget(struct connector *all);
/* Leases and what was made of them, of the connectors that fn names. */
void lents_revoke(struct connector *all,
		  bool (*fn)(const void *ctx, uint32_t connector), const void *ctx);

/* fn comes once, never from inside.  The wish is the same for all who share it, but for
 * the socket: the first asker's is shown. */
enum status lent_get(struct lent *l, const struct lease_wish *wish, lent_fn fn,
		     void *ctx, struct lent_wait **ret_w) MUSTCHECK;
void lent_cancel(struct lent_wait *w); /* fn won't come; NULL is fine */

const struct lease *lent_lease(const struct lent *l); /* NULL: none is there */
/* key: which token they are of, 0: the lease.  NULL: none are there. */
struct words *lent_words(const struct lent *l, uint64_t key);
void lent_keep_words(struct lent *l, uint64_t key,
		     struct words *w); /* the reference is taken over */

#endif

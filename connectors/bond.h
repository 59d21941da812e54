#ifndef CONNECTORS_BOND_H
#define CONNECTORS_BOND_H
/*
 * bond: the token that a connector's secret is exchanged for, and the one exchange that
 * runs for it however many requests wait.  One for each connector and, if its secret is
 * each user's own, user.
 *
 * A refresh token that came with the answer is durable in the vault before the access
 * token is used; as long as it isn't, nobody gets the token, and it is tried again with
 * the next request.  A token near its end, or that the company system refused, is never
 * given out again.
 */
#include "connectors/exchange.h"
#include "connectors/lease.h"
#include "connectors/upstream.h"

enum { BOND_SKEW_S = 60, BOND_UNTOLD_S = 3600, BOND_PAUSE_MS = 2000 };

struct bond;
struct bond_wait;

struct bond_token {
	struct auth_token shown; /* views, good until the callback that got them ends */
	uint32_t version;        /* of the secret that it came from */
	uint64_t serial;
};

struct bond_wish {
	uint32_t connector;
	const struct who *who;
	int sandbox;
};

/* st ST_OK: t is good during the call. */
typedef void (*bond_fn)(void *ctx, enum status st, const struct bond_token *t);

/* ST_OK: it is here.  ST_AGAIN: fn comes once, never from inside; *ret_w is open.  Else
 * why there is none. */
enum status bond_get(struct connector *all, const struct bond_wish *wish, bond_fn fn,
		     void *ctx, struct bond_token *ret_t,
		     struct bond_wait **ret_w) MUSTCHECK;
void bond_cancel(struct bond_wait *w); /* NULL is fine */
/* The company system refused the token of this serial. */
void bond_refused(struct connector *all, const struct bond_wish *wish, uint64_t serial);

/* A new policy: tokens stay where nothing changed about how they are got. */
void bonds_renew(struct connector *all);
/* Of the secret that it was got with there is another one, or none any more: as
 * lents_revoke(). */
void bonds_revoke(struct connector *all,
		  bool (*fn)(const void *ctx, uint32_t connector), const void *ctx);
void bonds_done(struct connector *all);

#endif

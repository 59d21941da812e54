#ifndef PROXY_WORKER_DIAL_H
#define PROXY_WORKER_DIAL_H
/*
 * dial: a connected descriptor from the dialer.  The ask carries a duplicate of the
 * sandbox's socket, which is how the dialer knows for whom; it judges again.  A parent
 * proxy is spoken to here, so the descriptor that comes out always speaks for the
 * destination itself.  Knows nothing of pools.
 */
#include "proxy/worker/conn.h"

struct dial;

struct dial_result {
	enum status st;
	int fd; /* the callee's from now on, non-blocking; -1 unless st is ST_OK */
	uint32_t rule;
	struct str address, country; /* valid during the call */
};

/* Called once, never from inside dial_start(); the dial is gone afterwards. */
typedef void (*dial_fn)(void *ctx, const struct dial_result *r);

/* ST_NO_DIALER when there is no line. */
enum status dial_start(struct conn *c, const struct dest *d, enum policy_way way,
		       dial_fn fn, void *ctx, struct dial **ret_dial) MUSTCHECK;
/* To an endpoint of a sandbox that control has opened for this caller (ASK_REACH).  All
 * lives during the call. */
struct dial_reach {
	struct str server, host; /* as control named them */
	const struct dest *dest; /* the same place */
};
enum status dial_reach(struct conn *c, const struct dial_reach *to, dial_fn fn,
		       void *ctx, struct dial **ret_dial) MUSTCHECK;
void dial_cancel(struct dial *d); /* NULL is fine; fn won't be called */

/* Keep where it went in the exchange, for rows. */
void dial_note(const struct dial_result *r, struct exchange *x);

#endif

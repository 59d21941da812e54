#ifndef PROXY_WORKER_REACH_H
#define PROXY_WORKER_REACH_H
/*
 * reach: a connected descriptor on its way to being a leg over TLS: the handshake with
 * the host, verified against the destination that was dialled (tls_client.h).
 */
#include "proxy/worker/conn.h"
#include "proxy/worker/pool.h"

struct reach;

struct reached {
	enum status st;
	const char *words;     /* on why not; NULL: none */
	struct stream *stream; /* ST_OK: to be moved away during the call */
	pool_make_fn make;     /* the kind of leg for the protocol agreed on */
};

/* Called once, never from inside reach_start(); the reach is gone afterwards. */
typedef void (*reach_fn)(void *ctx, const struct reached *r);

/* Where it goes, and in which protocols it may answer. */
struct reach_to {
	const struct dest *dest;
	enum tls_offer offer;
};

/* Takes over fd, also when it fails. */
enum status reach_start(struct worker *w, int fd, const struct reach_to *to,
			reach_fn fn, void *ctx, struct reach **ret_reach) MUSTCHECK;
void reach_cancel(struct reach *r); /* NULL is fine; fn won't be called */

#endif

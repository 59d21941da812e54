#ifndef PROXY_DIALER_REACH_H
#define PROXY_DIALER_REACH_H
/*
 * reach: which endpoints of execution servers may be connected to for whom: what control
 * said (GRANT_REACH), by the kernel's number of the caller's own socket.  A worker that was
 * taken over reaches only what was granted to a socket that it holds.
 *
 * Numbers of sockets are never used again, so what was granted to one that is gone is
 * nobody's.  At most REACH_MAX grants, and the one that was granted longest ago goes first:
 * control grants again for each request.
 */
#include "proxy/base/list.h"
#include "proxy/base/map.h"

enum { REACH_MAX = 65536, REACH_HOST_MAX = 253 };

struct reach {
	struct map by_key;
	struct list granted; /* longest ago first */
	size_t n, max;
};

struct reach_point { /* host: the very bytes that control sent */
	uint64_t cookie;
	struct str server, host;
	uint16_t port;
};

void reach_init(struct reach *r, size_t max);
void reach_done(struct reach *r);

/* Again: the newest of all.  ST_BAD_MESSAGE: no such endpoint can be; ST_NOMEM. */
enum status reach_grant(struct reach *r, const struct reach_point *p) MUSTCHECK;
bool reach_is_granted(const struct reach *r, const struct reach_point *p);

#endif

#ifndef PROXY_WORKER_VISIT_H
#define PROXY_WORKER_VISIT_H
/*
 * visit: a connection of a sandbox on which HTTP is spoken: its front, and the turns
 * that run on it.
 *
 * Takes over a connection on which plain HTTP/1 was recognised: transparent (c->dest
 * has the original port), pinned inside CONNECT or SOCKS (every Host must equal
 * c->dest), on a proxy listener (absolute-form), or to the gateway's own pages
 * (c->is_own).  seen: bytes already read, copied before this returns.  A CONNECT on a
 * proxy listener goes back with proxy_in_start().
 */
#include "proxy/flow/front.h"
#include "proxy/worker/conn.h"

struct visit {
	struct conn *c;
	struct stream stream;
	struct front *front;
	struct list turns;
	struct list inlets;  /* CONNECT streams of HTTP/2 */
	struct list guests;  /* requests of HTTP/2 that wait for whose they are */
	struct login *login; /* the token of one of them is being looked at */
	uint32_t refusals;   /* of guests */
	enum status barred;  /* too many refusals, or over a limit: all are refused */
};

void visit_start(struct conn *c, struct str seen);
/* The same inside TLS that was ended here for c->dest, or that this proxy listener itself
 * speaks; s is moved away. */
void visit_start_stream(struct conn *c, struct stream *s);

#endif

#ifndef PROXY_WORKER_TURN_H
#define PROXY_WORKER_TURN_H
/*
 * turn: HTTP/1 requests of one connection, one after the other.
 *
 * Takes over a connection on which plain HTTP/1 was recognised: transparent (c->dest
 * has the original port), pinned inside CONNECT or SOCKS (every Host must equal
 * c->dest), on a proxy listener (absolute-form), or to the gateway's own pages
 * (c->is_own).  seen: bytes already read, copied before this returns.  A CONNECT on a
 * proxy listener goes back with proxy_in_start().
 */
#include "proxy/worker/conn.h"

void turn_start(struct conn *c, struct str seen);

#endif

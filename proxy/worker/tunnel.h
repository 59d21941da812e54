#ifndef PROXY_WORKER_TUNNEL_H
#define PROXY_WORKER_TUNNEL_H
/*
 * tunnel: a connection that is carried, not read: judged, dialled, recorded, pumped.
 */
#include "proxy/worker/conn.h"

/*
 * Dial x->dest (== &c->dest) and carry.  The chain has allowed x at PHASE_HELLO, x->way
 * is WAY_TLS or WAY_TCP; x is copied.  seen: bytes of the sandbox that go first,
 * copied.
 */
void tunnel_start(struct conn *c, const struct exchange *x, struct str seen);

/*
 * Carry what became of an HTTP upgrade: both ends exist, x has its row.  host_fd is the
 * tunnel's from now on.
 */
void tunnel_adopt(struct conn *c, const struct exchange *x, int host_fd,
		  struct str for_host, struct str for_client);

#endif

#ifndef PROXY_WORKER_TUNNEL_H
#define PROXY_WORKER_TUNNEL_H
/*
 * tunnel: a connection that is carried, not read: judged, dialled, recorded, pumped.
 */
#include "proxy/worker/conn.h"

/* What the newest policy says to anything at c->dest; false: the sandbox is gone. */
bool tunnel_ask_tcp(const struct conn *c, struct policy_answer *ret_a) MUSTCHECK;
/* A tcp rule covers c->dest: carry at once, look at nothing.  What only observe mode
 * lets through doesn't count: it is looked at like the rest. */
bool tunnel_is_tcp(const struct conn *c);

/*
 * Dial x->dest (== &c->dest) and carry.  The chain has allowed x at PHASE_HELLO, x->way
 * is WAY_TLS or WAY_TCP; x is copied.  seen: bytes of the sandbox that go first,
 * copied.
 */
void tunnel_start(struct conn *c, const struct exchange *x, struct str seen);

#endif

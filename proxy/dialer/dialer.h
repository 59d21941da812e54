#ifndef PROXY_DIALER_DIALER_H
#define PROXY_DIALER_DIALER_H
/*
 * dialer: the role that resolves names, judges each address, and connects.  It reads no
 * traffic: what it gets from a peer are DNS answers.
 *
 * Whoever asks holds a line (a peer).  What a peer waits for dies with its line; what
 * is done for a sandbox dies with the sandbox.
 */
#include "proxy/dialer/geo.h"
#include "proxy/dialer/reach.h"
#include "proxy/dialer/resolve.h"
#include "proxy/io/peer.h"

struct dialer {
	struct role_self role;
	struct loop *loop;
	struct loop_io super;
	struct quota quota;
	struct reach reach;
	struct upstream *up;
	struct resolve *resolve;
	struct geo *countries, *networks;           /* in force, or NULL */
	struct geo *next_countries, *next_networks; /* prepared */
	struct peers peers;
	struct list dials, lookups;
	uint32_t dials_n, lookups_n;
	int watch; /* an epoll of the sandboxes' sockets: tells only when one dies */
	struct loop_io watch_io;
	struct loop_timer watch_soon; /* then the dials that still run join it */
	uint32_t drain_seq;
	bool is_draining;
	bool may_mark; /* the capability for egress_mark was left to us */
};

/* Whose line it is. */
static inline struct dialer *
dialer_of(const struct peer *p)
{
	return p->set->ctx;
}

/* One thing less runs: tells super when that was the last of a drain. */
void dialer_idle_check(struct dialer *d);

#endif

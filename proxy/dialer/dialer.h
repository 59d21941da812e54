#ifndef PROXY_DIALER_DIALER_H
#define PROXY_DIALER_DIALER_H
/*
 * dialer: the role that resolves names, judges each address, and connects.  It reads no
 * traffic: what it gets from a peer are DNS answers.
 *
 * Whoever asks holds a line (a peer).  What a peer waits for dies with its line; what
 * is done for a sandbox dies with the sandbox.
 */
#include "proxy/base/list.h"
#include "proxy/dialer/geo.h"
#include "proxy/dialer/resolve.h"
#include "proxy/io/role.h"

struct dialer {
	struct role_self role;
	struct loop *loop;
	struct loop_io super;
	struct quota quota;
	struct upstream *up;
	struct resolve *resolve;
	struct geo *countries, *networks;           /* in force, or NULL */
	struct geo *next_countries, *next_networks; /* prepared */
	struct list peers, dials, lookups;
	uint32_t dials_n, lookups_n;
	int watch; /* an epoll of the sandboxes' sockets: tells only when one dies */
	struct loop_io watch_io;
	struct loop_timer watch_soon; /* then the dials that still run join it */
	uint32_t drain_seq;
	bool is_draining;
};

struct peer {
	struct dialer *dialer;
	struct ask_line *line;
	enum role role;
	char group[STR_NAME_MAX + 1]; /* of the connectors at its other end */
	struct list link;             /* in dialer->peers */
	bool is_dead;
};

/* A malformed or out-of-turn ask ends the line and all that was asked on it. */
void peer_kill(struct peer *p, enum status why);
/* Answer with what b holds and, unless it is -1, a descriptor that stays the caller's.
 */
void peer_answer(struct peer *p, enum ask a, uint32_t seq, struct buf *b, int fd);
/* One thing less runs: tells super when that was the last of a drain. */
void dialer_idle_check(struct dialer *d);

#endif

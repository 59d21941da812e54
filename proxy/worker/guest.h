#ifndef PROXY_WORKER_GUEST_H
#define PROXY_WORKER_GUEST_H
/*
 * guest: a request on an HTTP/2 connection that no sandbox is known by yet.  It waits
 * until a token says whose the connection is, and then becomes a turn or an inlet; from
 * there on each request is held to the same token (login_check()).
 *
 *	begin ── guest ── head ── login ──> turn or inlet
 *	                             └────> 407
 *
 * One token is looked at at a time, and meanwhile nothing is read: who is unknown fills
 * no memory with bodies.  Who was refused too often is refused unasked, and gets a GOAWAY
 * soon: at once it would overtake the bodies of the answers.
 */
#include "proxy/worker/visit.h"

struct guest;

/* Is nobody known to speak here, or somebody who may not? */
bool guest_is_wanted(const struct visit *v);
/* s: its events and ctx are set. */
enum status guest_new(struct visit *v, struct side *s, bool is_connect) MUSTCHECK;
struct guest *guest_of_link(struct list *link);
/* About once a second. */
void guest_tick(struct visit *v);
/* The connection is closing: nothing more is said to the stream. */
void guest_cut(struct guest *g);

#endif

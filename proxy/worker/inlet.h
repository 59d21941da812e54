#ifndef PROXY_WORKER_INLET_H
#define PROXY_WORKER_INLET_H
/*
 * inlet: a CONNECT that is one stream of an HTTP/2 connection to a proxy listener (RFC
 * 9113 section 8.5).  What is behind it is a connection like any other, so it gets a
 * conn of its own, at the far end of a pair of sockets; the inlet carries bytes between
 * the stream and the near end and knows nothing of them.
 *
 *	client ── stream ── inlet ── near, far ── conn ── peek, tunnel or visit
 *
 * The sandbox is the one of the socket that the stream came by.
 */
#include "proxy/worker/visit.h"

struct inlet;

/* s: its events and ctx are set. */
enum status inlet_new(struct visit *v, struct side *s) MUSTCHECK;
struct inlet *inlet_of_link(struct list *link);
/* The connection is closing: nothing more is said to the stream. */
void inlet_cut(struct inlet *n);

#endif

#ifndef PROXY_WORKER_VEIL_H
#define PROXY_WORKER_VEIL_H
/*
 * veil: the TLS of a listener, around a connection that knows nothing of it.  What is
 * inside gets a conn of its own, at the far end of a pair of sockets, and begins there as
 * on a listener without TLS; the veil carries bytes between the TLS and the near end.
 *
 *	client ── TLS ── veil ── near, far ── conn ── proxy_in, peek, tunnel or visit
 *
 * A side that does not take what is there for it is held up by the other not being
 * read.  An end travels only behind all that came before it, and an inner connection that
 * broke off is never told to the client as an end.
 */
#include "proxy/flow/stream.h"
#include "proxy/worker/conn.h"

/* The handshake is done; s is moved away. */
void veil_start(struct conn *c, struct stream *s);

#endif

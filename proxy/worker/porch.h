#ifndef PROXY_WORKER_PORCH_H
#define PROXY_WORKER_PORCH_H
/*
 * porch: a connection to a proxy listener that speaks TLS itself (`tls:`), until the
 * handshake is done.  The certificate is a leaf of our own authority for the listener's
 * names, by MINT: no key that is an operator's is in this process.
 *
 * What is inside goes on as without TLS: HTTP/2 (ALPN) to visit_start_stream(), all else
 * through veil_start() to proxy_in.
 */
#include "proxy/worker/conn.h"

/* c is of such a listener, and identified if its socket says who it is. */
void porch_start(struct conn *c);

#endif

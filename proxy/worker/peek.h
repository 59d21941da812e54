#ifndef PROXY_WORKER_PEEK_H
#define PROXY_WORKER_PEEK_H
/*
 * peek: finds out what a connection is from its first bytes, without answering: a TLS
 * hello, a plain HTTP/1 request, or, where a tcp rule covers the destination, anything.
 * Bytes are held until the verdict; at most 64 KiB, for at most timeouts.hello.
 */
#include "proxy/worker/conn.h"

/* c->dest says what is known: the original destination, or a pinned target. */
void peek_start(struct conn *c, struct str seen);

#endif

#ifndef PROXY_WORKER_LINGER_H
#define PROXY_WORKER_LINGER_H
/*
 * linger: the last words to a sandbox.  Writes them, ends our direction, and reads and
 * drops what still comes until the peer closes too, up to a cap and a deadline: closing
 * with unread bytes would reset the connection and could take the words away.
 */
#include "proxy/worker/conn.h"

/* words: copied.  The conn is closed in the end; it has a new owner at once. */
void linger_start(struct conn *c, struct str words);

#endif

#ifndef PROXY_WORKER_EXEC_IN_H
#define PROXY_WORKER_EXEC_IN_H
/*
 * exec_in: the first bytes of a plain connection to a listener of kind opensandbox: is it
 * HTTP/2 with prior knowledge (RFC 9113 section 3.3), or HTTP/1?  Then visit has it.
 */
#include "proxy/worker/conn.h"

void exec_in_start(struct conn *c);

#endif

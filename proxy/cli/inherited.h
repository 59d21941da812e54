#ifndef PROXY_CLI_INHERITED_H
#define PROXY_CLI_INHERITED_H
/*
 * inherited: what the command gets from its caller as standard input, output and error.
 * All else is closed.  A socket stays in the network namespace that made it, so one
 * that can still be pointed somewhere (a datagram socket, one that isn't connected or
 * that listens) would be a way out; and a directory lies in front of the masks.
 */
#include "proxy/base/buf.h"

/* ST_OK, or *why names the first that the command must not have. */
enum status inherited_check(struct buf *why) MUSTCHECK;

#endif

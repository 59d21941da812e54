#ifndef PROXY_CLI_CALLS_H
#define PROXY_CLI_CALLS_H
/*
 * calls: what a command in the box may not ask of the kernel: socket families that lead
 * anywhere but to lo, datagrams between Unix sockets (they are addressed one by one and
 * nobody could look at each), io_uring, which makes sockets and connects them without
 * asking, the kernel's keyrings, which are shared with all processes of the user, and
 * putting characters into the terminal as if they had been typed.
 *
 * Every connect() is held until the usher has answered it.
 */
#include "proxy/base/base.h"

/* For this process and its children, for good; the descriptor by which held calls are
 * answered goes to `line`. */
bool calls_limit(int line) MUSTCHECK;

/* The other end of that line; -1 when there is none. */
int calls_receive(int line);

#endif

#ifndef PROXY_CLI_UNIX_INSIDE_H
#define PROXY_CLI_UNIX_INSIDE_H
/*
 * unix_inside: was this Unix socket bound in our own network namespace?  The kernel's
 * list (sock_diag) has only those, by device and inode.  What can't be found out is a
 * no.
 */
#include <sys/types.h>

#include "proxy/base/base.h"

/* fd: the socket's file, opened with O_PATH on a mount that `viewer` sees. */
bool unix_inside(int fd, pid_t viewer) MUSTCHECK;

#endif

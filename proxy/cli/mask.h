#ifndef PROXY_CLI_MASK_H
#define PROXY_CLI_MASK_H
/*
 * mask: in a mount namespace of our own, hide what leads around the gateway: /run, the
 * runtime directory, X11 and agent sockets, our state directory, and every Unix socket
 * with a path that is open on the host now; then give a resolver configuration that
 * points at the gateway.
 */
#include <stdio.h>

#include "proxy/base/buf.h"

/* unix_list: /proc/self/net/unix, opened in the host's network namespace. */
enum status mask_all(FILE *unix_list, const char *state_dir, struct buf *why) MUSTCHECK;

/* After a /proc of our own is mounted: kernel settings can't be written, and /dev is
 * the box's own. */
enum status mask_kernel(struct buf *why) MUSTCHECK;

/* Is this variable of the environment one that names a masked thing? */
bool mask_is_variable(struct str assignment);

#endif

#ifndef PROXY_CLI_USHER_H
#define PROXY_CLI_USHER_H
/*
 * usher: pid 1 of the box.  Reaps, passes signals on, and answers every connect() of
 * the box in the caller's place.  A Unix socket with a path is connected only if it was
 * bound inside, in the box's network namespace: files are shared with the host, so a
 * daemon's socket may appear in /tmp or in the home directory at any time, and no mask
 * made before could cover it.
 *
 * The socket is duplicated out of the caller, its address is read once, the path is
 * opened once and compared by inode with the kernel's list of the sockets in this
 * namespace, and that inode is what gets connected: nothing that the caller can still
 * change is looked at twice.
 */
#include <sys/types.h>

#include "proxy/base/base.h"

/* calls: from calls_receive(), taken over; -1: none.  SIGCHLD and the signals to pass
 * on are blocked by usher_prepare().  Until the command ends; its wait status. */
int usher_serve(int calls, pid_t command);

/* Blocks the signals that usher_serve() waits for; before the command's fork. */
void usher_prepare(void);
/* In the command: as they were. */
void usher_forget(void);

#endif

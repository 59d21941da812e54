#ifndef PROXY_IO_SOCK_H
#define PROXY_IO_SOCK_H
/*
 * sock: the few questions that every role asks of a socket.  Nothing here makes one:
 * super and the dialer do.  Descriptors cross processes only through ask.
 */
#include "proxy/base/addr.h"

struct sockaddr_storage;

enum status sock_set_nonblock(int fd) MUSTCHECK;

/*
 * Accept one connection, non-blocking and close-on-exec.  ST_AGAIN: none waits.
 * ST_NO_FILES: descriptors or memory ran out: pause.  ST_CLIENT_GONE: this one died
 * before it was accepted: go on.  ST_SYSTEM: the listener itself is broken.
 */
enum status sock_accept(int listener, struct sockaddr_storage *ret_peer,
			int *ret_fd) MUSTCHECK;

/* For a descriptor that another process passed to us: close() of a socket waits as long as
 * that one has set (SO_LINGER), whatever O_NONBLOCK says.  A reset that it wants (none to wait)
 * stays one, for ours may be the last close.  What no socket is, is closed. */
void sock_close_passed(int fd);

/* The kernel's own number of this socket; the same in every process that holds it. */
enum status sock_cookie(int fd, uint64_t *ret_cookie) MUSTCHECK;
/* Of the network namespace that the socket was made in (Linux 5.14). */
enum status sock_netns_cookie(int fd, uint64_t *ret_cookie) MUSTCHECK;

/*
 * Where the client meant to go: what a REDIRECT rule replaced, else the address that it
 * connected to (TPROXY, wildcard listeners, no rule).
 */
enum status sock_original(int fd, struct addr *ret_a, uint16_t *ret_port) MUSTCHECK;

#endif

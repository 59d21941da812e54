#ifndef PROXY_IO_LISTEN_H
#define PROXY_IO_LISTEN_H
/*
 * listen: a listening socket on a loop.  Accepts in batches; when descriptors run out
 * it gives up one waiting connection through a descriptor kept for that, pauses with
 * a back-off and goes on by itself: it never spins and never dies of it.
 */
#include <sys/socket.h>

#include "proxy/io/loop.h"
#include "proxy/io/stats.h"

struct listen;

/* fd is the callee's, non-blocking and close-on-exec.  May call listen_free(). */
typedef void (*listen_accepted_fn)(void *ctx, int fd,
				   const struct sockaddr_storage *peer);

/* Takes over fd.  stats may be NULL. */
enum status listen_new(struct loop *l, int fd, struct stats *stats,
		       listen_accepted_fn fn, void *ctx,
		       struct listen **ret_listen) MUSTCHECK;
void listen_free(struct listen *ls); /* closes; NULL is fine */

#endif

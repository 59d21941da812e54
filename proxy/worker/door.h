#ifndef PROXY_WORKER_DOOR_H
#define PROXY_WORKER_DOOR_H
/*
 * door: a listening socket of this worker: one of a configured listener, or one that
 * was made inside a sandbox's own network namespace.
 */
#include "proxy/worker/worker.h"

/* Both take over fd.  index: listener in the image in force when doors_open() is
 * called. */
enum status door_add(struct worker *w, int fd, uint32_t index) MUSTCHECK;
enum status door_add_attached(struct worker *w, int fd, uint32_t handle,
			      bool is_proxy) MUSTCHECK;

/* Start accepting at every door that doesn't yet: once there is a policy. */
void doors_open(struct worker *w);
/* Close those of configured listeners, and those of one sandbox. */
void doors_close_listeners(struct worker *w);
void doors_close_attached(struct worker *w, uint32_t handle);
void doors_close(struct worker *w);

#endif

#ifndef PROXY_WORKER_POOL_H
#define PROXY_WORKER_POOL_H
/*
 * pool: idle legs.  A leg is given only to the sandbox for which it was dialled, for
 * the very same destination, and only under the policy under which it was dialled.
 * A leg that becomes readable while idle is closed: nobody asked it anything.
 */
#include "proxy/worker/leg.h"

struct pool;

enum { POOL_MAX = 256, POOL_IDLE_MS = 30000 };

enum status pool_new(struct loop *l, struct pool **ret_p) MUSTCHECK;
void pool_free(struct pool *p);

/* Or NULL.  It still wants LOOP_READ, as it did in the pool, which saves two system
 * calls a request: the caller sets its fn at once. */
struct leg *pool_take(struct pool *p, uint32_t handle, const struct dest *d);
void pool_give(struct pool *p, struct leg *g,
	       uint64_t now_ms); /* owned by the pool now */
void pool_flush(struct pool *p); /* a new policy: all of them go */
void pool_tick(struct pool *p, uint64_t now_ms);

#endif

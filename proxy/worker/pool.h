#ifndef PROXY_WORKER_POOL_H
#define PROXY_WORKER_POOL_H
/*
 * pool: the legs of this worker, with whom and where each is for.  A leg is given only
 * to the sandbox for which it was dialled, for the very same destination and scheme,
 * and only under the policy under which it was dialled.  It goes when it is over, when
 * it was idle too long, and with its policy once its last request has ended.  A lane to a
 * connector is kept the same way, for the one connection that it was opened with.
 */
#include "conf/policy.h"
#include "proxy/base/list.h"
#include "proxy/flow/leg.h"
#include "proxy/http/dest.h"

struct pool;

enum { POOL_MAX = 256, POOL_IDLE_MS = 30000 }; /* of idle ones */

struct pool_key {
	uint32_t handle;     /* whose */
	uint64_t generation; /* of the policy by which the host is, or was, asked for */
	uint32_t revision;   /* of the sandbox, likewise */
	const struct dest *dest;
	bool is_https;
	bool is_ws;   /* a WebSocket is asked for */
	bool is_exec; /* an endpoint of a sandbox, for this connection's caller alone */
	/* A lane serves one connection of a sandbox, wherever its requests go.
	 * CONNECTOR_NONE: none of this. */
	uint32_t connector;
	uint64_t conn; /* conn.serial, of lanes and endpoints */
};

struct kept {
	struct list link; /* pool->ready or pool->busy */
	struct pool *pool;
	struct leg *leg;
	uint32_t handle;
	uint64_t generation; /* of the policy under which it was dialled */
	uint32_t revision;
	struct dest dest;
	bool is_https, is_exec;
	uint32_t connector;
	uint64_t conn;
	char address[56], country[4];
	uint64_t since_ms; /* idle since */
};

enum status pool_new(struct flow *f, struct pool **ret_p) MUSTCHECK;
void pool_free(struct pool *p); /* no side runs any more */

/* A side of a leg that is there; is_careful: of one that shows no sign of a close.
 * NULL: there is none. */
struct kept *pool_take(struct pool *p, const struct pool_key *key, bool is_careful,
		       struct side **ret_s);
/* A new leg and its first side.  The stream is taken over; start->hooks and ctx are the
 * pool's to set.  NULL: no memory. */
typedef struct leg *(*pool_make_fn)(const struct leg_start *start);
struct kept *pool_add(struct pool *p, const struct pool_key *key, pool_make_fn make,
		      struct leg_start *start, struct side **ret_s);
/* A new policy, and its generation: all that were dialled before go. */
void pool_flush(struct pool *p, uint64_t generation);
void pool_tick(struct pool *p, uint64_t now_ms);

#endif

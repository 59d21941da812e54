#ifndef PROXY_WORKER_LEG_H
#define PROXY_WORKER_LEG_H
/*
 * leg: one HTTP/1 connection to a host, without credentials.  It serves one turn at a
 * time; in between it waits in the pool, for the same sandbox and destination only.
 */
#include "proxy/base/list.h"
#include "proxy/flow/out.h"
#include "proxy/http/dest.h"
#include "proxy/http/h1_body.h"
#include "proxy/http/h1_read.h"

struct leg {
	struct list link; /* pool->idle, while idle */
	struct loop_io io;
	struct out out;
	struct h1_read reader; /* of the response head */
	struct h1_body body;   /* of the response, once head_seen */
	uint32_t handle;       /* whose */
	uint64_t generation;   /* of the policy under which it was dialled */
	struct dest dest;
	char address[56], country[4];
	uint64_t since_ms; /* idle since */
	uint32_t served;   /* turns so far */
	bool head_seen;
	bool is_clean; /* nothing came that no one asked for */
	bool is_eof;
};

/* Takes over the descriptor.  NULL: no memory (the descriptor is closed). */
struct leg *leg_new(struct loop *l, int fd, const struct dest *d);
/* Closes; memory dies at the end of the loop's turn, for callbacks of its own. */
void leg_free(struct leg *g, struct loop *l);

#endif

#ifndef PROXY_FLOW_LANE_H
#define PROXY_FLOW_LANE_H
/*
 * lane: what a connector tells a worker beside the response itself, in fields of its own.
 * The connector removes every field of the prefix from what the company system sends, so
 * the client can't be shown a forged one; the worker takes them out before the response
 * goes on.
 */
#include "proxy/base/str.h"

#define LANE_PREFIX "sandgate-"
/* The code of a status (status.def): nothing was answered, this is why.  No body. */
#define LANE_REASON "sandgate-reason"
/* The version of the secret that was used, in decimal. */
#define LANE_VERSION "sandgate-secret-version"
/* A trailer: how many echoes of it were replaced, in decimal; left out if none. */
#define LANE_SCRUBBED "sandgate-scrubbed"

static inline bool
lane_is_own(struct str name)
{
	return name.n > sizeof LANE_PREFIX - 1 &&
	       str_ieq(str_head(name, sizeof LANE_PREFIX - 1), STR(LANE_PREFIX));
}

#endif

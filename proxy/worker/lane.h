#ifndef PROXY_WORKER_LANE_H
#define PROXY_WORKER_LANE_H
/*
 * lane: the way to a connector process: an HTTP/2 connection of one sandbox's connection
 * for one connector (ASK_LANE).  It is opened with a duplicate of the sandbox's socket,
 * from which the connector reads for whom it works; no field of a request says so.  The
 * pool keeps lanes as it keeps other legs.
 */
#include "proxy/worker/conn.h"

struct lane_call;

/* A line to the process of this group came, the first one or one that super was asked for
 * (ASK_REJOIN); takes fd over, also when it fails. */
enum status lane_line(struct worker *w, struct str group, int fd) MUSTCHECK;
void lane_lines_free(struct worker *w);

/* Called once, never from inside lane_open(); the call is gone afterwards.  ST_OK: fd is
 * the lane, the callee's. */
typedef void (*lane_fn)(void *ctx, enum status st, int fd);

/* connector: index in the image in force.  A process that starts again, or whose line has
 * ended, is waited for: two seconds, then ST_NEEDS_CONNECTOR. */
enum status lane_open(struct conn *c, uint32_t connector, lane_fn fn, void *ctx,
		      struct lane_call **ret_call) MUSTCHECK;
void lane_cancel(struct lane_call *l); /* NULL is fine; fn won't be called */

#endif

#ifndef PROXY_WORKER_WORKER_H
#define PROXY_WORKER_WORKER_H
/*
 * worker: the process that reads the sandboxes' bytes.  Everything it knows hangs on
 * this one struct.  It holds no secret and can reach nothing by itself: descriptors to
 * the outside come from the dialer, rows go into the ring.
 */
#include "proxy/base/buf.h"
#include "proxy/base/list.h"
#include "proxy/flow/front.h"
#include "proxy/flow/leg.h"
#include "proxy/flow/tls_roots.h"
#include "proxy/io/role.h"
#include "proxy/worker/limit.h"

struct mint;  /* leaves for hosts that are intercepted, mint.c */
struct pool;  /* upstream connections kept for HTTP, pool.c */
struct synth; /* synthetic addresses, proxy/io/synth.h */

enum {
	WORKER_SPACE = 128 * 1024,
	WORKER_STREAMS = 100,         /* of one HTTP/2 connection, at once */
	WORKER_WINDOW = WORKER_SPACE, /* of each */
	WORKER_OWED = 1024 * 1024,    /* octets of tickets */
	WORKER_HEADS = 224 * 1024,    /* h2: of a client's requests, see h2_limits */
};

struct worker {
	struct role_self role;
	struct loop *loop;
	struct loop_io super;
	struct ask_line *dialer, *control, *ledger,
		*keeper;        /* NULL while there is none */
	struct list doors;      /* struct door, door.h */
	struct list conns;      /* struct conn */
	uint64_t serial;        /* of the last of them */
	struct list lane_lines; /* to connector processes, lane.h */
	struct ask_rate rejoin; /* how often super is asked for another of those */
	uint64_t tickets;       /* of requests to control, the last one */
	struct list routed;     /* struct exec: those with an open ticket */
	struct buf owed;      /* tickets that are over, which control isn't told yet */
	size_t exec_gathered; /* bytes of their bodies that are held */
	struct limits limits;
	struct pool *pool;
	struct synth *synth;
	struct mint *mint;
	struct tls_roots roots;   /* whom hosts are verified against */
	struct stream_room *room; /* of all TLS streams */
	char *space; /* WORKER_SPACE bytes; valid within one callback, for whoever reads
		      */
	struct flow flow; /* the same space */
	struct front_limits front_limits;
	struct leg_limits leg_limits;
	struct loop_timer tick; /* once a second while there are connections */
	struct loop_timer drain;
	struct loop_timer alone; /* since a line was lost */
	uint32_t drain_seq;
	unsigned quiet; /* ticks without connections */
	bool is_serving, is_draining, is_drained;
};

/* Numbers of the configuration in force. */
uint64_t worker_option(const struct worker *w, enum option opt);
/* True when nothing new may begin. */
bool worker_is_draining(const struct worker *w);
/* There is a connection: its owner may want ticks. */
void worker_wake(struct worker *w);
/* The last connection is gone: tells super if it waits for that. */
void worker_check_drained(struct worker *w);

#endif

#ifndef PROXY_WORKER_LIMIT_H
#define PROXY_WORKER_LIMIT_H
/*
 * limit: what one sandbox may use of this worker, and what it has used.  All of a
 * sandbox's connections are in one worker, so the numbers here are the whole truth.
 *
 * A record is made with the first connection and kept as long as the sandbox is
 * registered, because the byte budget outlives connections.
 */
#include "conf/who.h"
#include "proxy/base/list.h"
#include "proxy/base/map.h"

struct placeholders;

struct limit_bucket { /* tokens in thousandths, so that slow rates still fill */
	uint64_t milli;
	uint64_t at_ms;
};

struct limit {
	struct list link;        /* limits->records */
	char *id;                /* the sandbox's, NUL-terminated, owned */
	uint32_t handle;         /* in the present generation; HANDLE_NONE: gone */
	uint32_t users;          /* who hold this pointer */
	uint32_t open;           /* connections that were counted */
	uint32_t pending;        /* of these, silent for a second and longer */
	struct image_limits max; /* a copy: survives a reload */
	struct limit_bucket connections, requests;
	struct limit_bucket mints, refusals; /* meet.c */
	uint64_t bytes;                      /* both directions */
	/* See credentials.h; of which generation they are. */
	struct placeholders *placeholders;
	uint64_t placeholders_for;
	uint32_t placeholders_revision; /* of the sandbox */
};

enum { LIMIT_STRANGERS = 256 };

struct limit_peer { /* connections of callers from an address; some share one */
	size_t open;
};

struct limits {
	/* Of addresses that no sandbox is known by; some share one. */
	struct limit_bucket strangers[LIMIT_STRANGERS];
	struct limit_peer peers[LIMIT_STRANGERS];
	struct map by_id;
	struct list records; /* struct limit */
	size_t open;         /* connections of all, known or not yet known */
};

void limits_init(struct limits *all);
void limits_done(struct limits *all);

/* One connection more, whosever it is.  False: max are open. */
bool limits_admit(struct limits *all, size_t max) MUSTCHECK;
void limits_leave(struct limits *all);

/* What is left for an address; of IPv6, for its /64. */
struct limit_bucket *limits_stranger(struct limits *all, const struct addr *a);

/* One connection more of this address (of IPv6, its /64).  False: max are open. */
bool limit_peer_admit(struct limits *all, const struct addr *a, size_t max,
		      struct limit_peer **ret_p) MUSTCHECK;
void limit_peer_leave(struct limit_peer *p); /* NULL is fine */

/* The record of this sandbox, made if need be, held until limit_release().  ST_NOMEM,
 * ST_TOO_BIG. */
enum status limit_of(struct limits *all, const struct image *im, const struct who *w,
		     struct limit **ret_l) MUSTCHECK;

void limit_release(struct limits *all, struct limit *l);

/* ST_LIMIT_CONNECTIONS, ST_LIMIT_RATE, ST_LIMIT_BYTES; each success is undone by
 * limit_close(). */
enum status limit_open(struct limit *l, uint64_t now_ms) MUSTCHECK;
void limit_close(struct limit *l);
/* ST_LIMIT_PENDING; each success is undone by limit_speaks(). */
enum status limit_pending(struct limit *l, uint64_t max) MUSTCHECK;
void limit_speaks(struct limit *l);
enum status limit_request(struct limit *l, uint64_t now_ms) MUSTCHECK;
/* ST_LIMIT_BYTES once the budget is used up: end the flow. */
enum status limit_bytes(struct limit *l, uint64_t n) MUSTCHECK;

/* A new policy: new numbers, new handles.  Gone sandboxes get HANDLE_NONE. */
void limits_renew(struct limits *all, const struct image *im, struct who_table *t);
/* This sandbox is gone, or about to be. */
void limits_forget(struct limits *all, uint32_t handle);

/* Pure, for tests: one token at now, filling at rate a second up to burst. */
bool limit_bucket_take(struct limit_bucket *b, uint64_t now_ms, uint32_t rate,
		       uint32_t burst);

#endif

#ifndef CONNECTORS_LANE_H
#define CONNECTORS_LANE_H
/*
 * lane: one HTTP/2 connection from a worker, for one sandbox and one connector.
 *
 * Whose it is was read from the sandbox's own socket when it was opened; the lane keeps
 * that socket, shows it to keeper and dialer with everything it asks for, and takes no
 * new request once the socket is dead.  A new policy judges each request that comes; a
 * lane whose sandbox or connector is gone ends.
 */
#include "connectors/lease.h"
#include "connectors/words.h"

/* So long a lease may serve the requests that follow the one it was asked for: many at once
 * cost the keeper one answer and one row, and a secret is in memory for no longer.  One that
 * was changed or taken away is gone at once: revoke.h. */
enum { LANE_LEASE_MS = 500 };

struct lane {
	struct list link; /* all->lanes */
	struct connector *all;
	struct list turns;
	struct stream stream;
	struct loop_io io;
	struct front *front;
	int sandbox;            /* the sandbox's own socket */
	struct loop_io watcher; /* of its death */
	uint32_t connector;     /* index in the image in force */
	uint32_t handle;
	struct lease lease;
	struct words *words;
	uint64_t words_key;
	struct loop_timer lease_end; /* both go */
	bool has_lease;
	bool is_dead;
};

void lane_heard(struct peer *p, struct ask_msg *m);
/* NULL: the sandbox is gone. */
const struct who *lane_who(const struct lane *l);
void lane_end(struct lane *l);
/* NULL: none is there. */
const struct lease *lane_lease(const struct lane *l);
void lane_keep_lease(struct lane *l, struct lease *lease); /* taken over */
/* The same for what its answers are searched for; key: which token, 0: the lease.  NULL: none
 * is there.  Kept for as long as a lease; the reference is taken over. */
struct words *lane_words(const struct lane *l, uint64_t key);
void lane_keep_words(struct lane *l, uint64_t key, struct words *w);
void lanes_judge(struct connector *all, const struct image *old);
void lanes_forget(struct connector *all, uint32_t handle);
void lanes_drain(struct connector *all);
void lanes_tick(struct connector *all);
/* Leases and what was made of them, of the connectors that fn names. */
void lanes_revoke(struct connector *all,
		  bool (*fn)(const void *ctx, uint32_t connector), const void *ctx);

#endif

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
#include "connectors/lent.h"

/* Of one sandbox in this process, in bodies that are gathered. */
enum { LANE_GATHER_MOST = 32 << 20 };

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
	struct lent *lent; /* of both */
	size_t gathered;   /* octets that its turns have room for */
	bool is_dead;
};

void lane_heard(struct peer *p, struct ask_msg *m);
/* NULL: the sandbox is gone. */
const struct who *lane_who(const struct lane *l);
void lane_end(struct lane *l);
/* Room for a body; given back by lowering l->gathered.  ST_LIMIT_BODIES. */
enum status lane_gather(struct lane *l, size_t n) MUSTCHECK;
void lanes_judge(struct connector *all, const struct image *old);
/* A sandbox has other rights than a moment ago. */
void lanes_judge_of(struct connector *all, uint32_t handle);
void lanes_forget(struct connector *all, uint32_t handle);
void lanes_drain(struct connector *all);
void lanes_tick(struct connector *all);

#endif

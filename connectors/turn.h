#ifndef CONNECTORS_TURN_H
#define CONNECTORS_TURN_H
/*
 * turn: one request of a lane and its response.
 *
 *	judged -> body gathered, if its credential depends on it -> upstream -> credential
 *	       -> on its way; the response comes back scrubbed
 */
#include "connectors/lane.h"

struct turn;

enum status turn_new(struct lane *l,
		     struct side *front) MUSTCHECK; /* front_hooks.begin */
void turn_cut(struct turn *t);                      /* the lane ends */
void turn_renumber(struct turn *t); /* the lane's connector has a new place, or none */
void turn_judge(struct turn *t);    /* a new policy is in force */
void turn_tick(struct turn *t);
struct turn *turn_of_link(struct list *it);

/* May this sandbox use the connector at all? */
bool turn_may_use(const struct connector *all, uint32_t connector, const struct who *w);

#endif

#ifndef PROXY_WORKER_TURN_H
#define PROXY_WORKER_TURN_H
/*
 * turn: one request with its response between two sides (proxy/flow/side.h), judged by
 * the chain.  It lives from the front's begin() until its answer is whole; the memory
 * to the end of the loop's turn.
 */
#include "proxy/worker/visit.h"

struct turn;

/* Of a new side; told to it by its events. */
enum status turn_new(struct visit *v, struct side *front) MUSTCHECK;
struct turn *turn_of_link(struct list *it);

/* Each may end the turn. */
void turn_cut(struct turn *t);   /* the connection is gone, and the front with it */
void turn_judge(struct turn *t); /* a new policy is in force */
void turn_tick(struct turn *t);
void turn_resume(struct turn *t); /* a filter that held may have its answer */

#endif

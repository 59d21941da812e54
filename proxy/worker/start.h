#ifndef PROXY_WORKER_START_H
#define PROXY_WORKER_START_H
/* What main() does with a worker: make it, let it serve, take it apart. */
#include "proxy/worker/worker.h"

/* hooks: filled in for role_start(), must live as long as the worker. */
enum status worker_init(struct worker *w, struct role_hooks *hooks) MUSTCHECK;
void worker_serve(struct worker *w); /* until super is gone */
void worker_done(struct worker *w);

#endif

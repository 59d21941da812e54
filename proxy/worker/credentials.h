#ifndef PROXY_WORKER_CREDENTIALS_H
#define PROXY_WORKER_CREDENTIALS_H
/*
 * credentials: a sandbox's placeholders, made once for each policy and kept with its
 * limits; the page that tells them to it.
 */
#include "proxy/worker/worker.h"

struct placeholders;

/* Of the policy in force; NULL: no memory.  Stays until the next call for l. */
const struct placeholders *credentials_of(struct worker *w, struct limit *l,
					  const struct who *who);

/* {"placeholders":[{"connector","env","placeholder"}]}; p may be NULL. */
void credentials_put(struct buf *b, const struct image *im,
		     const struct placeholders *p);

#endif

#ifndef PROXY_LOCATOR_EXCHANGE_H
#define PROXY_LOCATOR_EXCHANGE_H
/*
 * exchange: the three questions about one sandbox, one after the other over one connection
 * to docker.  Questions are GETs of three fixed paths with a checked word in them; there is
 * no way to send anything else.
 */
#include "proxy/locator/docker.h"

struct exchange;

/* Comes once, never from inside exchange_begin().  bridge is valid during the call. */
typedef void (*exchange_fn)(void *ctx, enum status st, const struct docker_ids *ids,
			    const char *bridge, const struct place *found);

struct exchange_wish {
	int fd; /* connected; the exchange's from ST_OK on */
	struct str sandbox, network;
};

enum status exchange_begin(struct loop *loop, const struct exchange_wish *w,
			   exchange_fn fn, void *ctx,
			   struct exchange **ret_x) MUSTCHECK;
void exchange_free(struct exchange *x); /* fn comes no more; not from inside it */

#endif

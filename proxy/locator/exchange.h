#ifndef PROXY_LOCATOR_EXCHANGE_H
#define PROXY_LOCATOR_EXCHANGE_H
/*
 * exchange: what docker is asked about one sandbox, one question after the other over one
 * connection.  Questions are GETs of four fixed paths with a checked word in them; there is
 * no way to send anything else.
 *
 *	where it is         its container, that one's data, its network
 *	what memory it has  its container, that one's statistics
 */
#include "proxy/locator/docker.h"

struct exchange;

enum exchange_kind { EXCHANGE_PLACE, EXCHANGE_MEMORY };

struct exchange_found {
	struct docker_ids ids;
	struct place place;          /* without its port: that is the kernel's word */
	char bridge[PLACE_NAME + 1]; /* an interface */
	uint64_t octets;             /* EXCHANGE_MEMORY: docker_memory() */
};

/* Comes once, never from inside exchange_begin().  found is valid during the call. */
typedef void (*exchange_fn)(void *ctx, enum status st,
			    const struct exchange_found *found);

struct exchange_wish {
	int fd; /* connected; the exchange's from ST_OK on */
	enum exchange_kind kind;
	struct str sandbox, network; /* EXCHANGE_MEMORY: no network */
};

enum status exchange_begin(struct loop *loop, const struct exchange_wish *w,
			   exchange_fn fn, void *ctx,
			   struct exchange **ret_x) MUSTCHECK;
void exchange_free(struct exchange *x); /* fn comes no more; not from inside it */

#endif

#ifndef PROXY_DIALER_RESOLVE_H
#define PROXY_DIALER_RESOLVE_H
/*
 * resolve: a name to addresses of one type.  resolver.hosts first (no packet leaves),
 * then the cache, then the resolvers; many who ask the same wait for one question.
 *
 * An answer is kept between resolver.ttl_min and resolver.ttl_max, one that there is
 * nothing for RESOLVE_NEGATIVE_S, a failure not at all.  New resolvers empty the cache,
 * and what the old ones still answer reaches who waits but is not kept.
 */
#include "proxy/dialer/cache.h"
#include "proxy/dialer/upstream.h"

enum { RESOLVE_NEGATIVE_S = 5 };

struct resolve;
struct flight;

typedef void (*resolve_fn)(void *ctx, const struct packet_answer *a);

struct resolve_wait { /* embedded in its owner; resolve_stop() before that dies */
	struct list link;
	struct flight *flight; /* NULL: waits for nothing */
	resolve_fn fn;
	void *ctx;
};

struct resolve_question {
	struct str name; /* of a struct dest */
	uint16_t type;
	struct str sandbox; /* id of who asks */
};

enum status resolve_new(struct loop *l, struct upstream *u,
			struct resolve **ret_r) MUSTCHECK;
void resolve_free(struct resolve *r);
void resolve_set_stats(struct resolve *r, struct stats *stats);
void resolve_set_image(struct resolve *r, const struct image *im); /* im outlives it */

/*
 * ST_OK: *ret_a is the answer, fn is not called.  ST_AGAIN: fn is called later, once;
 * a->st then also says ST_DNS_FAILED and the like.  Else it can't be asked.
 * w: its fn and ctx are set by the caller.
 */
enum status resolve_ask(struct resolve *r, const struct resolve_question *q,
			struct resolve_wait *w, struct packet_answer *ret_a) MUSTCHECK;
void resolve_stop(struct resolve_wait *w); /* also when it waits for nothing */

#endif

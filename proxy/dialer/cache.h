#ifndef PROXY_DIALER_CACHE_H
#define PROXY_DIALER_CACHE_H
/*
 * cache: what was learned of a name and type, until its time is over.  Bounded; when it
 * is full the answer that was used longest ago goes.  Public data of public resolvers
 * only: whether a sandbox may have it is judged at each use, never stored.
 */
#include "proxy/base/list.h"
#include "proxy/base/map.h"
#include "proxy/dialer/packet.h"

enum { CACHE_KEY_MAX = 2 + 253 };

struct cache {
	struct map by_key;
	struct list used; /* longest ago first */
	size_t n, max;    /* max 0: keeps nothing */
};

struct cache_key {
	size_t len;
	char b[CACHE_KEY_MAX];
};

void cache_init(struct cache *c, size_t max);
void cache_done(struct cache *c);
void cache_resize(struct cache *c, size_t max); /* also forgets everything */

/* name: at most 253 bytes, lower case. */
struct cache_key cache_key(struct str name, uint16_t type);
struct str cache_key_str(const struct cache_key *k);

/* False: not there, or over.  The ttl is what is left of it. */
bool cache_get(struct cache *c, const struct cache_key *k, uint64_t now_ms,
	       struct packet_answer *ret_a) MUSTCHECK;
/* Keeps a->ttl seconds; when memory is short it just keeps nothing. */
void cache_put(struct cache *c, const struct cache_key *k, uint64_t now_ms,
	       const struct packet_answer *a);

#endif

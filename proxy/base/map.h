#ifndef PROXY_BASE_MAP_H
#define PROXY_BASE_MAP_H
/*
 * map: bytes to pointer, open addressing, a salt of its own so that a peer can't
 * choose colliding keys, and a limit on entries.  Keys are copied; values are not
 * owned.
 */
#include "proxy/base/str.h"

struct map_slot;

struct map {
	struct map_slot *slots;
	size_t cap, len, max; /* cap is a power of two or 0; len <= max */
	uint64_t salt;
};

void map_init(struct map *m, size_t max); /* draws the salt (getrandom) */
void map_done(struct map *m);

void *map_get(const struct map *m, struct str key); /* NULL: not there */
/* Add or replace; ST_TOO_BIG at the limit, ST_NOMEM.  value != NULL. */
enum status map_put(struct map *m, struct str key, void *value) MUSTCHECK;
void *map_take(struct map *m, struct str key); /* remove; NULL: was not there */

/* Visit each: start with *at = 0; false at the end.  No put or take in between. */
bool map_next(const struct map *m, size_t *at, struct str *ret_key, void **ret_value);

#endif

#ifndef PROXY_BASE_ARENA_H
#define PROXY_BASE_ARENA_H
/*
 * arena: memory of one exchange, freed at once, with a cap.  Running into the cap
 * sets a mark and gives NULL: the exchange ends with an error, the process lives.
 */
#include "proxy/base/str.h"

struct arena_block;

struct arena {
	struct arena_block *blocks; /* newest first */
	size_t used, max;           /* bytes asked of malloc; their limit */
	bool is_over;               /* an allocation was refused */
};

void arena_init(struct arena *a, size_t max);
void arena_done(struct arena *a); /* also makes it empty and usable again */

void *arena_alloc(struct arena *a,
		  size_t n); /* zeroed, aligned for any type; or NULL */
/* A copy that lives as long as the arena; p == NULL when refused. */
struct str arena_copy(struct arena *a, struct str s);

#endif

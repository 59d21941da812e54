#ifndef PROXY_BASE_RING_H
#define PROXY_BASE_RING_H
/*
 * ring: stream bytes between a reader and a writer, of a capacity set at birth.
 * Memory is allocated on the first write and released by ring_done() or when the
 * owner calls ring_trim() on an empty ring, so an idle stream owns none.
 *
 *	0 <= len <= cap;  head < cap
 */
#include "proxy/base/str.h"

struct ring {
	char *p; /* NULL while nothing is held */
	size_t cap, head, len;
};

void ring_init(struct ring *r, size_t cap); /* cap > 0 */
void ring_done(struct ring *r);
void ring_trim(struct ring *r); /* give the memory back if empty */

size_t ring_space(const struct ring *r);
bool ring_is_empty(const struct ring *r);

/* Copy in as much as fits; returns how much.  0 also when memory ran out. */
size_t ring_write(struct ring *r, struct str s);
/* The first contiguous held bytes (all of them after ring_linear()). */
struct str ring_peek(const struct ring *r);
void ring_consume(struct ring *r, size_t n); /* n <= len */
/* Make the held bytes contiguous and view them. */
struct str ring_linear(struct ring *r);

#endif

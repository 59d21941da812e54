#ifndef PROXY_BASE_HELD_H
#define PROXY_BASE_HELD_H
/*
 * held: the beginning of a text that comes in parts, as much as there is room for, in
 * place.  For what is remembered of streams that may be of any length.
 */
#include <string.h>

#include "proxy/base/num.h"

enum { HELD_MAX = 128 };

struct held {
	bool is_cut; /* there was more */
	uint8_t n;
	char p[HELD_MAX];
};

static inline void
held_put(struct held *h, struct str part)
{
	size_t n = num_min(part.n, HELD_MAX - h->n);

	memcpy(h->p + h->n, part.p, n);
	h->n = (uint8_t)(h->n + n);
	h->is_cut = h->is_cut || n < part.n;
}

static inline struct str
held_str(const struct held *h)
{
	return str_of(h->p, h->n);
}

static inline void
held_clear(struct held *h)
{
	h->n = 0;
	h->is_cut = false;
}

/* The whole text, and only that. */
static inline bool
held_is(const struct held *h, struct str s)
{
	return !h->is_cut && str_eq(held_str(h), s);
}

/* A whole number in decimal, perhaps below zero, that an exit code can be. */
static inline bool
held_int(const struct held *h, int64_t *ret_v)
{
	struct str s = held_str(h);
	bool is_below = str_starts(s, STR("-"));
	uint64_t v;

	if (h->is_cut || !num_parse_strict(str_skip(s, is_below), INT32_MAX, &v))
		return false;
	*ret_v = is_below ? -(int64_t)v : (int64_t)v;
	return true;
}

#endif

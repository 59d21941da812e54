#ifndef TESTS_FUZZ_H1_FEED_H
#define TESTS_FUZZ_H1_FEED_H
/* Feed a head reader in pieces, and compare what came out. */
#include "proxy/http/h1_read.h"

/* ST_AGAIN when the input ends first; *ret_used bytes belonged to the head. */
static inline enum status
h1_feed(struct h1_read *r, struct str in, size_t piece, size_t *ret_used,
	struct head *h)
{
	enum status st = ST_AGAIN;
	size_t used = 0;

	*ret_used = 0;
	while (st == ST_AGAIN && in.n > 0) {
		st = h1_read_feed(r, str_head(in, piece), &used, h);
		if (st != ST_OK && st != ST_AGAIN)
			break;
		*ret_used += used;
		in = str_skip(in, used);
	}
	h1_read_done(r);
	return st;
}

static inline bool
h1_same_head(const struct head *a, const struct head *b)
{
	if (!str_eq(a->method, b->method) || !str_eq(a->target, b->target) ||
	    a->status != b->status || a->body != b->body || a->length != b->length ||
	    a->fields_len != b->fields_len)
		return false;
	for (size_t i = 0; i < a->fields_len; i++)
		if (!str_eq(a->fields[i].name, b->fields[i].name) ||
		    !str_eq(a->fields[i].value, b->fields[i].value))
			return false;
	return true;
}

#endif

#ifndef TESTS_UNIT_H1_FEED_H
#define TESTS_UNIT_H1_FEED_H
/* Heads of HTTP/1, fed in pieces. */
#include "proxy/http/h1_read.h"

#define GET "GET / HTTP/1.1\r\nHost: ok.test\r\n"

static const struct h1_limits limits = { 100, 16384, 65536 };

/* Fed in pieces of `step`; ST_AGAIN if it never ends.  *ret_used is the head's length.
 */
static inline enum status
feed(struct h1_read *r, struct str in, size_t step, size_t *ret_used, struct head *h)
{
	enum status st = ST_AGAIN;
	size_t used = 0;

	*ret_used = 0;
	while (st == ST_AGAIN && in.n > 0) {
		struct str piece = str_head(in, step);
		st = h1_read_feed(r, piece, &used, h);
		if (st != ST_OK && st != ST_AGAIN)
			break;
		assert_true(st == ST_OK || used == piece.n);
		*ret_used += used;
		in = str_skip(in, used);
	}
	h1_read_done(r);
	return st;
}

static inline enum status
request(struct arena *a, struct str in, size_t step, size_t *ret_used, struct head *h)
{
	struct h1_read r;

	h1_read_request(&r, a, &limits);
	return feed(&r, in, step, ret_used, h);
}

#endif

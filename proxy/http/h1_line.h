#ifndef PROXY_HTTP_H1_LINE_H
#define PROXY_HTTP_H1_LINE_H
/*
 * h1_line: lines that end in CRLF, however their bytes arrive, and the header fields
 * they hold.  A line that arrives whole is a view of the input; only a split one is
 * copied, so between messages there is no memory.  What it answers doesn't depend on
 * where the input was split.
 */
#include "proxy/base/buf.h"
#include "proxy/http/head.h"

struct h1_limits {
	size_t fields; /* how many in one section */
	size_t line;   /* bytes of one line with its CRLF; more than head counts as head
			*/
	size_t head;   /* bytes of one section with everything */
};

struct h1_line {
	struct buf part; /* the beginning of a split line */
	size_t limit;    /* bytes with CRLF */
	bool is_given;   /* part was given out and is cleared by the next call */
};

void h1_line_init(struct h1_line *l, size_t limit);
void h1_line_done(struct h1_line *l);

/*
 * Take one line out of *in.  ST_OK: *ret_line has no CRLF and is valid until the next
 * call or until the input goes away.  ST_AGAIN: all of *in was taken and more is
 * needed.  ST_TOO_BIG: over the limit.  ST_BAD_REQUEST: a bare CR or LF, or a NUL.
 */
enum status h1_line_take(struct h1_line *l, struct str *in,
			 struct str *ret_line) MUSTCHECK;

/* One field line into h: names and values checked, look-alikes dropped or refused. */
enum status h1_line_field(struct str line, const struct h1_limits *lim,
			  struct head *h) MUSTCHECK;

#endif

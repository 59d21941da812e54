#ifndef PROXY_HTTP_H1_READ_H
#define PROXY_HTTP_H1_READ_H
/*
 * h1_read: the strict reader of HTTP/1 message heads (RFC 9112).  Every ambiguity is
 * an error, never a guess; after an error the connection can only be closed.
 *
 * Requests: at most one empty line before; exactly one space between the three parts;
 * HTTP/1.1 or HTTP/1.0; one Host in HTTP/1.1, at most one in HTTP/1.0; a CONNECT has
 * no framing fields.  Both: no obs-fold, no bare CR or LF, no space before the colon,
 * at most one Content-Length of digits without leading zeros, Transfer-Encoding
 * exactly "chunked", once, never with Content-Length or in HTTP/1.0.
 *
 * A request fails with the status that names its fault; a response with
 * ST_UPSTREAM_BAD, whatever the fault.  Both also with ST_NOMEM (arena full).
 */
#include "proxy/http/h1_line.h"

enum h1_read_state { H1_READ_START, H1_READ_EMPTY_SEEN, H1_READ_FIELDS, H1_READ_OVER };

struct h1_read {
	struct h1_limits limits;
	struct h1_line line;
	struct head head;
	size_t taken; /* bytes of this head so far */
	enum h1_read_state state;
	bool is_response;
	enum method asked; /* the request that this response answers */
	bool asked_upgrade;
};

/* The arena takes what the head needs: at most about 3 times limits.head. */
void h1_read_request(struct h1_read *r, struct arena *a, const struct h1_limits *lim);
/* asked_upgrade: 101 is accepted only then. */
void h1_read_response(struct h1_read *r, struct arena *a, const struct h1_limits *lim,
		      enum method asked, bool asked_upgrade);
void h1_read_done(struct h1_read *r); /* the head stays with its arena */

/*
 * Feed bytes.  ST_AGAIN: all were taken, *ret_used is in.n.  ST_OK: the head is
 * complete in *ret_head, *ret_used bytes belonged to it, the rest is body.  The body's
 * kind is in the head.  Call again only after ST_AGAIN.
 */
enum status h1_read_feed(struct h1_read *r, struct str in, size_t *ret_used,
			 struct head *ret_head) MUSTCHECK;

/* Did anything of a message arrive?  A close before it is not an error. */
bool h1_read_has_begun(const struct h1_read *r);

#endif

#ifndef PROXY_HTTP_H1_BODY_H
#define PROXY_HTTP_H1_BODY_H
/*
 * h1_body: a message body taken apart (RFC 9112 sections 6 and 7): payload as views of
 * the input, then trailers.  Chunk sizes are at most 16 hex digits and below 2^63,
 * extensions at most 256 bytes each and 16 bytes a chunk on average (an allowance of
 * 1 KiB on top), line ends exactly CRLF.  A trailer that frames (Content-Length,
 * Transfer-Encoding) is refused.
 */
#include "proxy/http/h1_line.h"

enum h1_body_state {
	H1_BODY_DATA,     /* `left` bytes of payload, or all until close */
	H1_BODY_SIZE,     /* a chunk's size line */
	H1_BODY_DATA_END, /* the CRLF behind a chunk */
	H1_BODY_TRAILER,
	H1_BODY_OVER,
};

struct h1_body {
	enum body_kind kind;
	enum h1_body_state state;
	uint64_t left;
	uint64_t chunks, ext_bytes;
	struct h1_limits limits;
	struct h1_line line;
	size_t trailer_bytes;
	struct head trailers; /* fields only; complete after ST_END */
};

/* What the head says; the arena takes the trailers. */
void h1_body_init(struct h1_body *b, const struct head *h, const struct h1_limits *lim);
void h1_body_done(struct h1_body *b);

/*
 * ST_OK: *ret_payload is a non-empty view of `in`; ask again with the rest.
 * ST_AGAIN: all of `in` was taken; ST_END: the body is complete (also right away for
 * BODY_NONE).  In these three *ret_used bytes of `in` were consumed.
 * Otherwise ST_BAD_CHUNK, ST_HEAD_TOO_LARGE or the status of a bad trailer field, and
 * the connection can only be closed.  BODY_TUNNEL has no body: the caller's promise.
 */
enum status h1_body_feed(struct h1_body *b, struct str in, size_t *ret_used,
			 struct str *ret_payload) MUSTCHECK;

/* May the peer close now?  True at the end and in BODY_UNTIL_CLOSE. */
bool h1_body_may_close(const struct h1_body *b);
bool h1_body_is_over(const struct h1_body *b);

#endif

#ifndef CONNECTORS_INFLATE_H
#define CONNECTORS_INFLATE_H
/*
 * inflate: a body out of its content codings (RFC 9110 section 8.4), a piece at a time:
 * gzip of any number of members (RFC 1952), deflate with the zlib frame or without (RFC
 * 1950, 1951: both are sent), br (RFC 7932), zstd of any number of frames (RFC 8878), and
 * up to INFLATE_DEEP of them over each other.
 *
 * What is not whole, or is followed by anything else, is an error, and so is more than
 * `most` octets out, or out more than `ratio` times what came in (beyond the first
 * INFLATE_FREE octets: short texts of one letter are no bomb).
 *
 * Memory: the decoders' windows, at most some 8 MiB each (zstd, br: windows above 8 MiB
 * are refused).  Owner: the stream.
 */
#include "proxy/base/str.h"

enum inflate_coding {
	INFLATE_GZIP,
	INFLATE_DEFLATE,
	INFLATE_BR,
	INFLATE_ZSTD,
	INFLATE_CODINGS
};

enum {
	INFLATE_DEEP = 3,
	INFLATE_FREE = 1 << 20,
	INFLATE_RATIO = 100,
	INFLATE_MOST = 64 << 20,
};

struct inflate_limits {
	uint64_t most;
	uint32_t ratio;
};

struct inflate; /* opaque */

/*
 * codings: the value of Content-Encoding, in the order in which they were applied.
 * ST_END: identity alone, nothing to decode; ST_UPSTREAM_BAD: unknown, or too many.
 */
enum status inflate_new(struct str codings, const struct inflate_limits *limits,
			struct inflate **ret_i) MUSTCHECK;
void inflate_free(struct inflate *i);

/*
 * Decode from *in, which moves on, into space[0 .. n); *ret_n octets were written.
 * ST_OK: call again when space is free (if *ret_n == n) or more has come; ST_END: all
 * was there, and is_last was said.  ST_UPSTREAM_BAD: not such a body; ST_TOO_BIG.
 * Failures stick.
 */
enum status inflate_feed(struct inflate *i, struct str *in, bool is_last, char *space,
			 size_t n, size_t *ret_n) MUSTCHECK;

#endif

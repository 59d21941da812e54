#ifndef CONNECTORS_SCRUB_HEAD_H
#define CONNECTORS_SCRUB_HEAD_H
/*
 * scrub_head: the heads of a call whose answer is scrubbed (scrub.h).  Pure: they change
 * a head and nothing else.
 *
 * A request asks for what can be read: no content coding, no parts of a whole (slices of
 * an echo are no echo), no compression inside WebSocket or gRPC messages.  An answer that
 * is encoded or a part all the same is decoded, or refused.
 */
#include "proxy/base/needle.h"
#include "proxy/http/head.h"

/* What goes to the host.  ST_NOMEM: the arena is full. */
enum status scrub_request_head(struct head *h) MUSTCHECK;

/*
 * What comes back.  *ret_codings: what inflate_new() is to take off, lives in the head's
 * arena; p == NULL: nothing.  Then the length is gone and the body is chunked.
 * ST_UPSTREAM_BAD: the host sent a part that nobody asked for, or says that messages
 * inside (gRPC, Connect, WebSocket: also of a 101) may be compressed.
 */
enum status scrub_response_head(struct head *h, struct str *ret_codings) MUSTCHECK;

/* Names and values of fields (of a head or of trailers).  *count grows by what was
 * masked. */
enum status scrub_fields(const struct needle_set *set, struct head *h,
			 uint32_t *count) MUSTCHECK;

#endif

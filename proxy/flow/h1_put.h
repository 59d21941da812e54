#ifndef PROXY_FLOW_H1_PUT_H
#define PROXY_FLOW_H1_PUT_H
/*
 * h1_put: the parts of an HTTP/1 message on their way into an out, as front and leg write
 * them.  A value that is made for one call; what fails is latched in the out.
 */
#include "proxy/base/buf.h"
#include "proxy/flow/out.h"
#include "proxy/http/head.h"

struct h1_put {
	struct gather *gather;
	struct out *out;
	struct buf *scratch; /* what is written, before it is gathered */
	bool is_chunked;     /* the body of this message */
};

void h1_put_fail(const struct h1_put *p, enum status st);
/* Where the parts go. */
struct gather *h1_put_to(const struct h1_put *p);
/* What stands in the scratch, whole or not at all. */
void h1_put_scratch(const struct h1_put *p);
/* Some of the body: view as gather_view(), bytes as gather_copy(). */
void h1_put_body(const struct h1_put *p, struct str view);
void h1_put_copy(const struct h1_put *p, struct str bytes);
/* The end of the body. */
void h1_put_end(const struct h1_put *p, const struct head *of,
		const struct head *trailers);

#endif

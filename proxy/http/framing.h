#ifndef PROXY_HTTP_FRAMING_H
#define PROXY_HTTP_FRAMING_H
/*
 * framing: what the fields of a complete head say about its body (RFC 9112 section 6.3,
 * in its order) and about Expect.  Sets body, length, has_length and expects_continue.
 * HTTP/2 asks here too: there a length is only a promise that its frames must keep.
 */
#include "proxy/http/head.h"

enum status framing_of_request(struct head *h) MUSTCHECK;
/* asked: the method of the request that h answers; asked_upgrade: 101 only then. */
enum status framing_of_response(struct head *h, enum method asked,
				bool asked_upgrade) MUSTCHECK;

#endif

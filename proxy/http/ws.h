#ifndef PROXY_HTTP_WS_H
#define PROXY_HTTP_WS_H
/*
 * ws: is this upgrade a WebSocket handshake (RFC 6455 section 4), and only that?  The
 * tunnel begins only behind a request and a response that both are.  The SHA-1 of the
 * key is the caller's: libcrypto is linked there anyway.
 */
#include "proxy/base/buf.h"
#include "proxy/http/head.h"

enum { WS_DIGEST = 20 };

/*
 * *ret_is_ws false: no upgrade asked, or one that is ours to ignore (h2c, or an Upgrade
 * that Connection doesn't name): the request stays plain HTTP and the writer drops the
 * field.  ST_BAD_UPGRADE: websocket wanted, but not validly or not alone.
 */
enum status ws_check_request(const struct head *h, bool *ret_is_ws) MUSTCHECK;

/* What to digest with SHA-1: the key of a checked request and the protocol's GUID. */
void ws_put_digest_input(struct buf *b, const struct head *request);

/* A 101 that accepts exactly this handshake. */
bool ws_check_response(const struct head *response,
		       const uint8_t digest[WS_DIGEST]) MUSTCHECK;

#endif

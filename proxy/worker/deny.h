#ifndef PROXY_WORKER_DENY_H
#define PROXY_WORKER_DENY_H
/*
 * deny: one refusal, told in the words of the protocol that is being spoken, with the
 * same code everywhere.  x->reason, x->rule, x->dest say what and why; x->id is then
 * the id that `sandgate why` takes.
 */
#include "proxy/flow/side.h"
#include "proxy/worker/conn.h"

/* Row and counters.  Returns the id to show.  For callers that tell it themselves. */
uint64_t deny_record(struct conn *c, struct exchange *x);

/* {"error":{"code","message","rule","hint","id"}} */
void deny_put_json(struct buf *b, const struct image *im, const struct exchange *x,
		   uint64_t id);
/* The value of a Proxy-Status field, RFC 9209: sandgate; error=...; details="code". */
void deny_put_proxy_status(struct buf *b, enum status reason);
/* Status and fields of a response with that body, its length aside. */
enum status deny_head(struct head *h, enum status reason) MUSTCHECK;

/* A client of gRPC shows its users grpc-message, and of HTTP only the status: it gets a
 * whole response in the head ("Trailers-Only"), and no body. */
bool deny_is_grpc(const struct head *request);
enum status deny_head_grpc(struct head *h, enum status reason, uint64_t id) MUSTCHECK;

/* A whole HTTP/1.1 response with that body.  keep: no Connection: close. */
void deny_put_http(struct buf *b, const struct image *im, const struct exchange *x,
		   uint64_t id, bool keep);

/* Record, tell as c->form says, close after what was told is on its way. */
void deny(struct conn *c, struct exchange *x);
/* The same for a reason without an exchange of its own. */
void deny_because(struct conn *c, enum status reason);
/* Record, and the answer of one request on a connection that goes on; the side is done
 * with. */
void deny_side(struct conn *c, struct side *front, struct exchange *x);

#endif

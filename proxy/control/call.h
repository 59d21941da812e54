#ifndef PROXY_CONTROL_CALL_H
#define PROXY_CONTROL_CALL_H
/*
 * call: one request of control's own to the system of a connector, and its answer, whole:
 * control's only way out.  The process of the connector's group sends it and adds the
 * credential, which never comes here.
 *
 * Only connectors that conf made for this are called so: those of `servers:`, of
 * exec.approval_webhook and of jwks_connector.  Nothing is tried twice but a GET whose
 * kept-alive connection was closed before a byte of an answer: a create isn't idempotent.
 * The system may have done what was asked whenever st isn't ST_OK.
 *
 * The call is control's until fn came or call_cancel() was called; neither can be called
 * after the other.  A cancelled request may still be done by the system.
 */
#include "proxy/control/control.h"
#include "proxy/io/call_body.h"

struct call_got {
	/* ST_OK: http, type and body are the answer, whatever http says.
	 * ST_BAD_REQUEST, ST_METHOD_REFUSED, ST_BAD_TARGET, ST_BAD_PATH: the wish is of no
	 * form that is sent.  ST_RELOADED: no such connector any more.
	 * ST_NEEDS_CONNECTOR: no process of that group is there, or it ended meanwhile.
	 * ST_UPSTREAM_TIMEOUT: none in time.  ST_TOO_BIG: longer than answer_max.
	 * ST_UPSTREAM_BAD: not HTTP, cut short, or encoded.
	 * Else what the dialer, TLS or the keeper said. */
	enum status st;
	uint16_t http;
	/* Views, during the callback; asterisks stand where the credential was said back. */
	struct str type, body;
};

typedef void (*call_fn)(void *ctx, const struct call_got *got);

struct call;

/* fn comes once, never from inside; the wish is not kept.  ST_NOT_FOUND: no connector that may
 * be called; ST_NEEDS_CONNECTOR; ST_TOO_BIG: more than CALL_BODY_MAX, or than one message
 * holds; ST_NOMEM, ST_LIMIT_RATE: then nothing was begun, and fn won't come. */
enum status call_begin(struct control *c, const struct call_wish *wish, call_fn fn,
		       void *ctx, struct call **ret_call) MUSTCHECK;
void call_cancel(struct call *call); /* fn won't come; NULL is fine */

#endif

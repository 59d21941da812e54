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

enum {
	CALL_ANSWER_MAX = 4 << 20, /* of call_wish.answer_max */
	CALL_DEADLINE_MAX_MS = 600000,
};

struct call_wish { /* not kept */
	struct str connector;
	struct str method; /* GET POST PUT PATCH DELETE */
	struct str target; /* path and query, as it goes out */
	struct str type;   /* of the body; empty: none is told */
	struct str body;
	uint32_t
		deadline_ms; /* 1 to CALL_DEADLINE_MAX_MS, held here and at the other end */
	size_t answer_max; /* a longer one is ST_TOO_BIG */
};

struct call_got {
	/* ST_OK: http, type and body are the answer, whatever http says.
	 * ST_NEEDS_CONNECTOR: no process of that group is there, or it ended meanwhile.
	 * ST_UPSTREAM_TIMEOUT: none in time.  ST_TOO_BIG: longer than answer_max.
	 * ST_UPSTREAM_BAD: not HTTP, cut short, or the credential stood in it.
	 * Else what the dialer, TLS or the keeper said. */
	enum status st;
	uint16_t http;
	struct str type, body; /* views, during the callback */
};

typedef void (*call_fn)(void *ctx, const struct call_got *got);

struct call;

/* fn comes once, never from inside.  ST_BAD_REQUEST: the wish is not of this form;
 * ST_NOT_FOUND: no connector that may be called; ST_NEEDS_CONNECTOR, ST_NOMEM,
 * ST_LIMIT_RATE: then nothing was begun, and fn won't come. */
enum status call_begin(struct control *c, const struct call_wish *wish, call_fn fn,
		       void *ctx, struct call **ret_call) MUSTCHECK;
void call_cancel(struct call *call); /* fn won't come; NULL is fine */

#endif

#ifndef CONNECTORS_UPSTREAM_H
#define CONNECTORS_UPSTREAM_H
/*
 * upstream: connections to company systems.  One serves a single sandbox, connector,
 * destination and policy; with other sandboxes it is never shared.  The dialer connects
 * (FETCH), TLS is verified here, always.
 *
 *	take     a side of a connection that is there
 *	begin    FETCH -> TLS -> a side of a new one
 */
#include "connectors/connector.h"

enum { UPSTREAM_IDLE_MS = 30000, UPSTREAM_IDLE_MAX = 256, UPSTREAM_SHAKE_MS = 10000 };

struct upstream_wish {
	uint32_t connector; /* index in the image in force */
	uint32_t handle;    /* whose; HANDLE_NONE: the connector's own business */
	int sandbox;        /* the socket that it is for; -1 */
	const struct dest *dest;
	bool is_plain; /* http://, which carries no credential */
	bool is_ws;    /* a WebSocket is asked for */
	enum tls_offer offer;
	struct str chain, key; /* PEM of a client certificate; empty: none */
};

struct upstream_call;

struct upstream_got {
	enum status st;
	struct side *side; /* ST_OK: the callee's */
	const char *words; /* more on a failed handshake, for the log; or NULL */
};

typedef void (*upstream_fn)(void *ctx, const struct upstream_got *got);

/* What its system is spoken to with. */
enum tls_offer upstream_offer(const struct image_connector *at);
/* NULL: none.  is_careful: of a connection that shows no sign of a close. */
struct side *upstream_take(struct connector *all, const struct upstream_wish *wish,
			   bool is_careful);
/* fn comes once, never from inside; the wish is not kept, its key is read at once. */
enum status upstream_begin(struct connector *all, const struct upstream_wish *wish,
			   upstream_fn fn, void *ctx,
			   struct upstream_call **ret_c) MUSTCHECK;
void upstream_cancel(struct upstream_call *c); /* NULL is fine */

void upstream_flush(struct connector *all); /* a new policy: what idles, goes */
void upstream_tick(struct connector *all);
void upstream_done(struct connector *all); /* no side runs any more */

#endif

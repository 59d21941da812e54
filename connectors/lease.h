#ifndef CONNECTORS_LEASE_H
#define CONNECTORS_LEASE_H
/*
 * lease: the secrets of one request, from the keeper's memory to ours and out of it
 * again.  Each part is a mapping of what the keeper gave, and is gone with
 * lease_done().
 */
#include "connectors/auth.h"
#include "connectors/connector.h"
#include "vault/secret.h"

struct lease {
	struct secret part[AUTH_PARTS];
	uint32_t version; /* of the secret itself */
	uint64_t expires_s;
};

struct lease_call;

/* st ST_OK: *l is the callee's, to be ended with lease_done(). */
typedef void (*lease_fn)(void *ctx, enum status st, struct lease *l);

struct lease_wish {
	struct str connector; /* its name */
	const struct auth_conf *conf;
	unsigned parts; /* bits 1 << AUTH_PART_x, at least one */
	int sandbox; /* the socket that it is for; -1: the connector's own business */
};

/* fn comes once, never from inside; the wish is not kept. */
enum status lease_begin(struct connector *all, const struct lease_wish *wish,
			lease_fn fn, void *ctx, struct lease_call **ret_c) MUSTCHECK;
void lease_cancel(struct lease_call *c); /* fn won't come; NULL is fine */

void lease_views(const struct lease *l, struct str ret_parts[AUTH_PARTS]);
/* A client's certificate with what vouches for it, and its key, as PEM: views, of one part
 * that holds them all or of two. */
void lease_client(const struct lease *l, struct str *ret_chain, struct str *ret_key);
void lease_done(struct lease *l); /* fine twice, and on a zeroed one */

typedef void (*rotate_fn)(void *ctx, enum status st);
struct rotate_call;

struct rotate_wish {
	struct lease_wish of; /* whose secret; its parts are not read */
	uint32_t version;     /* that the value replaces */
	struct str value;
};

/* A new value of the secret, durable before fn says ST_OK.  The wish is not kept, and its
 * value is copied. */
enum status rotate_begin(struct connector *all, const struct rotate_wish *wish,
			 rotate_fn fn, void *ctx, struct rotate_call **ret_c) MUSTCHECK;
void rotate_cancel(struct rotate_call *c);

#endif

#ifndef PROXY_CLI_GATE_SECRET_H
#define PROXY_CLI_GATE_SECRET_H
/*
 * gate_secret: a credential that a gateway of our own adds for one host, from a variable
 * of the caller.  Its value is moved into a sealed memfd and out of our environment
 * before any other process is made; then it goes into the gateway's own vault.
 */
#include "proxy/base/buf.h"

struct admin_where;

enum { GATE_SECRETS_MAX = 32, GATE_SECRET_NAME_MAX = 64, GATE_SHAPE_MAX = 128 };

struct gate_secret {
	char name[GATE_SECRET_NAME_MAX + 1];
	char shape[GATE_SHAPE_MAX + 1]; /* of the placeholder that CMD has instead */
	const char *host;               /* with a port or not */
	int value;
};

/* item: NAME@HOST[:PORT].  Says on standard error what is wrong. */
enum status gate_secret_take(const char *item, struct gate_secret *ret_s) MUSTCHECK;
/* Into the vault, which is made if there is none; the values are closed. */
enum status gate_secrets_put(const struct admin_where *where, struct gate_secret *s,
			     size_t n) MUSTCHECK;
void gate_secrets_done(struct gate_secret *s, size_t n);

/* The connector of the secret with this index, as YAML; and its name. */
bool gate_secret_put_connector(struct buf *b, const struct gate_secret *s,
			       size_t index) MUSTCHECK;
void gate_secret_put_name(struct buf *b, size_t index);

#endif

#ifndef PROXY_WORKER_MINT_H
#define PROXY_WORKER_MINT_H
/*
 * mint: leaf certificates for the hosts that this worker intercepts and for listeners
 * that speak TLS themselves, one P-256 key for all of them, made when the worker starts,
 * and one SSL_CTX (tls_server.h).  The authority's key is the keeper's: a leaf is asked
 * for (MINT), once however many connections wait for it, and kept as long as it is
 * valid, the least used go first.
 *
 * Leaves that only carry a refusal are kept apart, and fewer of them: the names are the
 * sandbox's choice, and must not drive out those that work is done with.
 *
 * No session is ever resumed, so none crosses from one sandbox or name to another.
 */
#include <openssl/ssl.h>

#include "proxy/base/list.h"
#include "proxy/io/ask.h"

enum mint_why { /* as asks.def has it */
		MINT_TO_INTERCEPT,
		MINT_TO_REFUSE,
		MINT_TO_LISTEN,
		MINT_WHYS
};

struct mint;

/* ST_OK: an SSL in accept state that has the leaf, the receiver's to free.  Else why
 * there is none: ST_NO_KEEPER, or what the keeper said. */
typedef void (*mint_fn)(void *ctx, enum status st, SSL *ssl);

struct mint_wait { /* embedded in who waits, who sets fn and ctx, the rest zeroed */
	struct list link;
	mint_fn fn;
	void *ctx;
	bool is_waiting;
};

/* keeper: where the worker has its line, NULL while there is none. */
enum status mint_new(struct loop *l, struct ask_line *const *keeper,
		     struct mint **ret_m) MUSTCHECK;
void mint_free(struct mint *m); /* nobody waits any more */

/* The authority is another one: no leaf that was asked for before is kept. */
void mint_forget(struct mint *m);
/* The names of listeners may be others. */
void mint_forget_listeners(struct mint *m);
/* Is the leaf there, or asked for? */
bool mint_has(const struct mint *m, struct str host, enum mint_why why);
/* host: as dest_put_host() writes it, without brackets; MINT_TO_LISTEN: the listener's
 * name.  ST_OK: *ret_ssl is there.  ST_AGAIN: wait->fn will say, unless mint_cancel()
 * comes first.  Else there is none. */
enum status mint_ask(struct mint *m, struct str host, enum mint_why why,
		     struct mint_wait *wait, SSL **ret_ssl) MUSTCHECK;
void mint_cancel(struct mint_wait *wait);

#endif

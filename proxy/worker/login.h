#ifndef PROXY_WORKER_LOGIN_H
#define PROXY_WORKER_LOGIN_H
/*
 * login: a sandbox that is known by id and token instead of its socket.  Control checks
 * the token and grants the socket to the sandbox, there and at the dialer; the worker
 * only carries the question, so it can't speak for a sandbox by itself.
 */
#include "proxy/http/head.h"
#include "proxy/worker/conn.h"

struct login;

enum { LOGIN_TRIES_MAX = 8 }; /* refusals on one connection */

/* ST_OK: the connection is that sandbox's, the chain's connection phase has passed.
 * Called once, never from inside login_start(); the login is gone afterwards. */
typedef void (*login_fn)(void *ctx, enum status st);

/* ST_AUTH_INSECURE off loopback without TLS: the token would travel readable. */
enum status login_start(struct conn *c, struct str id, struct str token, login_fn fn,
			void *ctx, struct login **ret_login) MUSTCHECK;
void login_cancel(struct login *l); /* NULL is fine */

/* The connection is its sandbox's alone: each request that follows on it must bring the
 * same credential again, or a client that carries several sandboxes over one connection
 * would make them one.  ST_AUTH_REQUIRED, ST_AUTH_FAILED. */
void login_keep(struct conn *c, const struct head *h);
enum status login_check(const struct conn *c, const struct head *h) MUSTCHECK;

/* With what a request's head carries.  ST_UNKNOWN_SANDBOX: no sandbox has a token. */
enum status login_by_head(struct conn *c, const struct head *h, login_fn fn, void *ctx,
			  struct login **ret_login) MUSTCHECK;

/* Does any sandbox of the configuration have a token? */
bool login_is_possible(const struct image *im);
/* user:token of a Basic credential (RFC 7617), decoded into space. */
bool login_basic(struct str value, struct buf *space, struct str *ret_id,
		 struct str *ret_token) MUSTCHECK;

#endif

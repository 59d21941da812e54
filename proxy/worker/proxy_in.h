#ifndef PROXY_WORKER_PROXY_IN_H
#define PROXY_WORKER_PROXY_IN_H
/*
 * proxy_in: what arrives on a proxy listener, told apart by its first bytes: SOCKS5,
 * CONNECT, or an HTTP request in absolute-form, which goes on to visit_start() once the
 * sandbox is known.
 */
#include "proxy/http/head.h"
#include "proxy/worker/conn.h"

/* seen: bytes already read (also: a CONNECT that the turn engine found on a kept
 * connection), copied before this returns. */
void proxy_in_start(struct conn *c, struct str seen);

/* The words that tell a success in c->form: 200 to CONNECT, the SOCKS reply, or none.
 */
void proxy_in_put_welcome(struct buf *b, const struct conn *c);

/* The one target of a CONNECT: Host, where it is, names the same host and, if any, port.
 */
enum status proxy_connect_dest(const struct head *h, struct dest *ret_d) MUSTCHECK;

#endif

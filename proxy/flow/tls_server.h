#ifndef PROXY_FLOW_TLS_SERVER_H
#define PROXY_FLOW_TLS_SERVER_H
/*
 * tls_server: how TLS is spoken with those who connect to us: 1.2 and 1.3, h2 or
 * http/1.1 (ALPN, RFC 7301), no session tickets or cache, no early data, renegotiation
 * or compression.  Which certificate is the caller's matter.
 */
#include <openssl/ssl.h>

#include "proxy/base/base.h"

enum status tls_server_new(SSL_CTX **ret_ctx) MUSTCHECK;

#endif

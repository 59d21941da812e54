#ifndef PROXY_FLOW_TLS_VERIFY_H
#define PROXY_FLOW_TLS_VERIFY_H
/*
 * tls_verify: whether a chain of certificates proves that the peer is whom we dialled.
 *
 * OpenSSL's own verification is the first half: path, time, names, constraints, with
 * X509_V_FLAG_X509_STRICT and security level 2.  It takes much that a client which
 * hands out credentials must not, so the second half judges the chain that it built:
 * version 3, a subject alternative name (never the common name), serverAuth, no
 * authority as a leaf, key and signature algorithms, serial (RFC 5280; CA/Browser
 * Forum's baseline requirements 7.1).  Nothing is ever fetched: no CRL, OCSP, AIA.
 */
#include <openssl/x509_vfy.h>

#include "proxy/http/dest.h"

enum { TLS_DEPTH_MAX = 6, TLS_CHAIN_MAX = 64 * 1024 };

/* Everything that is asked of a chain for this destination: its name, or its address. */
enum status tls_verify_expect(X509_VERIFY_PARAM *p, const struct dest *d) MUSTCHECK;

/* For SSL_CTX_set_cert_verify_callback(), and for tests: 1, or 0 with the reason in
 * ctx.  arg is not used. */
int tls_verify(X509_STORE_CTX *ctx, void *arg);

/* A reason of OpenSSL's (X509_V_ERR_...) as one of ours. */
enum status tls_verify_status(int reason);

#endif

#ifndef PROXY_FLOW_TLS_CLIENT_H
#define PROXY_FLOW_TLS_CLIENT_H
/*
 * tls_client: TLS towards hosts: the roots that a process trusts and how a connection
 * is opened with them.  TLS 1.2 and 1.3, security level 2, SNI for names, verification
 * by tls_verify.h always; no renegotiation, compression or early data.
 *
 * One for all hosts (SSL_CTX costs far more than an SSL), and one more, over the same roots,
 * for each client certificate.  Made anew when the roots change: connections that run
 * keep what they were opened with.
 */
#include <openssl/ssl.h>

#include "proxy/http/dest.h"

struct tls_client;

/* Which protocols are offered (ALPN). */
enum tls_offer { TLS_OFFER_H1, TLS_OFFER_H2, TLS_OFFER_BOTH };

enum { TLS_ROOTS_MAX = 4 * 1024 * 1024 };

/* roots: PEM; at least one certificate must parse, and none may be cut off. */
enum status tls_client_new(struct str roots, struct tls_client **ret_c) MUSTCHECK;
/* The same from a descriptor, which stays the caller's. */
enum status tls_client_read(int fd, struct tls_client **ret_c) MUSTCHECK;
/* The same roots, and who we are: PEM, the leaf first, then what links it to its
 * root; an unencrypted key that fits the leaf.  ST_BAD_CONFIG. */
enum status tls_client_with_key(const struct tls_client *c, struct str chain,
				struct str key, struct tls_client **ret_c) MUSTCHECK;
void tls_client_free(struct tls_client *c);

/* An SSL in connect state for stream_tls(), bound to this destination. */
enum status tls_client_open(const struct tls_client *c, const struct dest *d,
			    enum tls_offer offer, SSL **ret_ssl) MUSTCHECK;

/* How the handshake failed, for rows and answers: st is what shake or stream said. */
enum status tls_client_why(const SSL *ssl, enum status st);
/* A few words more on it; NULL when there are none.  Lives as long as the process. */
const char *tls_client_words(const SSL *ssl);

#endif

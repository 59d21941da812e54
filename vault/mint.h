#ifndef VAULT_MINT_H
#define VAULT_MINT_H
/*
 * mint: a leaf certificate for one host, or for a listener of ours, over the public half of a key that the worker
 * keeps.  P-256, ECDSA with SHA-256, one subjectAltName, serverAuth, short life, a serial
 * of 127 random bits (RFC 5280, CA/Browser Forum baseline).
 *
 * host: a DNS name as sandgate writes it, or the text of an address.
 */
#include "vault/ca.h"

enum { MINT_POINT = 65, MINT_DER_MAX = 2048, MINT_NAMES_MAX = 16 };
enum mint_way { MINT_INTERCEPT, MINT_REFUSAL, MINT_LISTENER, MINT_WAYS };

/* A plain DNS name in lower case (RFC 1123, '_' too) or a canonical address. */
bool mint_is_host(struct str host);
struct mint_time {           /* seconds since 1970 */
	uint64_t now, until; /* it ends by then, 0: no matter */
};

/* Appends the leaf in DER.  ST_BAD_HOST; ST_BAD_MESSAGE: not a point of P-256. */
enum status mint_put_leaf(struct buf *b, const struct ca *ca, struct str host,
			  enum mint_way way, struct str point,
			  const struct mint_time *t) MUSTCHECK;
struct mint_names {
	const struct str *v;
	size_t n; /* 1 to MINT_NAMES_MAX */
};
/* The same for all names of a listener of ours. */
enum status mint_put_listener(struct buf *b, const struct ca *ca,
			      const struct mint_names *names, struct str point,
			      const struct mint_time *t) MUSTCHECK;

#endif

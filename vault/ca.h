#ifndef VAULT_CA_H
#define VAULT_CA_H
/*
 * ca: the authority that sandboxes may be told to trust: a P-256 key that never leaves the
 * keeper and a certificate over it (RFC 5280).  In the vault it is one value, sealed like
 * any other, of a kind that is never leased:
 *
 *	length of key u16 | key, DER (RFC 5915) | certificate, DER
 */
#include <openssl/x509.h>

#include "proxy/base/buf.h"
#include "vault/secret.h"

enum { CA_DAYS = 1825, CA_VALUE_MAX = 4096 };

struct ca { /* all zero: none */
	EVP_PKEY *key;
	X509 *cert;
};

/* now: seconds since 1970. */
enum status ca_make(uint64_t now, struct ca *ret_ca) MUSTCHECK;
void ca_done(struct ca *ca); /* wipes; none is fine */

/* As the vault keeps it; ret_value is the caller's to end. */
enum status ca_save(const struct ca *ca, struct secret *ret_value) MUSTCHECK;
/* ST_VAULT_DAMAGED: not such a value, or the key isn't the certificate's. */
enum status ca_load(const unsigned char *value, size_t n, struct ca *ret_ca) MUSTCHECK;

void ca_put_pem(struct buf *b, const struct ca *ca); /* the certificate */
uint64_t ca_expires(const struct ca *ca);            /* seconds since 1970 */

#endif

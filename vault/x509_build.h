#ifndef VAULT_X509_BUILD_H
#define VAULT_X509_BUILD_H
/* What the certificate of a CA and those under it are put together from. */
#include <openssl/x509v3.h>

#include "proxy/base/str.h"

enum { X509_BACKDATE = 3600 }; /* for clocks of sandboxes that are late */

struct x509_span { /* seconds since 1970 */
	uint64_t from, to;
};

/* Version 3, a random serial of 127 bits, validity. */
bool x509_begin(X509 *x, const struct x509_span *span) MUSTCHECK;
/* text: as the configuration files of OpenSSL have it. */
bool x509_extend(X509 *x, X509 *issuer, int nid, const char *text) MUSTCHECK;

#endif

#ifndef PROXY_CLI_TRUST_JAVA_H
#define PROXY_CLI_TRUST_JAVA_H
/* trust_java: certificates as a Java key store (JKS), which every Java reads, also
 * without its password. */
#include "proxy/base/buf.h"

#define TRUST_JAVA_PASSWORD "changeit" /* everybody's: it protects nothing */

/* Visit each certificate of a PEM text, decoded. */
void trust_each_der(struct str pem, void (*fn)(void *ctx, struct str der), void *ctx);

/* What doesn't decode is left out. */
enum status trust_put_java(struct buf *b, struct str pem) MUSTCHECK;

#endif

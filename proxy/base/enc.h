#ifndef PROXY_BASE_ENC_H
#define PROXY_BASE_ENC_H
/* Text forms of bytes: hex, base64 (RFC 4648), percent (RFC 3986), Crockford base32. */
#include "proxy/base/buf.h"

void enc_put_hex(struct buf *b, struct str bytes); /* lower case */
void enc_put_base64(struct buf *b, struct str bytes);
void enc_put_base64url(struct buf *b, struct str bytes); /* without padding */
/* An id as 13 characters of Crockford base32, most significant first: sorts by value.
 */
void enc_put_id(struct buf *b, uint64_t id);

/* Decoders append to b; false (b unspecified past its old end) when not canonical. */
bool enc_get_hex(struct buf *b, struct str text) MUSTCHECK;
bool enc_get_base64(struct buf *b, struct str text) MUSTCHECK;    /* padded or not */
bool enc_get_base64url(struct buf *b, struct str text) MUSTCHECK; /* never padded */
bool enc_get_id(struct str text, uint64_t *ret_id) MUSTCHECK;     /* case folded */

/* Value of one hex digit, or -1. */
int enc_hex_digit(char c);

#endif

#ifndef PROXY_BASE_NUM_H
#define PROXY_BASE_NUM_H
/*
 * Numbers from outside: parsed with bounds, added without wrapping, read from the
 * wire without casts.  The only place where text becomes an integer.
 */
#include "proxy/base/str.h"

/* Digits only (no sign, no blank), at most max.  Leading zeros only if lenient. */
bool num_parse_u64(struct str s, uint64_t max, uint64_t *ret_v) MUSTCHECK;
bool num_parse_strict(struct str s, uint64_t max,
		      uint64_t *ret_v) MUSTCHECK; /* no leading 0 */
bool num_parse_hex(struct str s, uint64_t max, uint64_t *ret_v) MUSTCHECK;

bool num_add(size_t a, size_t b, size_t *ret_sum) MUSTCHECK;
bool num_mul(size_t a, size_t b, size_t *ret_product) MUSTCHECK;
size_t num_min(size_t a, size_t b);
size_t num_max(size_t a, size_t b);

/* Big-endian reads; the caller has checked that the bytes are there. */
uint16_t num_be16(const void *p);
uint32_t num_be32(const void *p);
uint64_t num_be64(const void *p);

/* FNV-1a; for tables whose keys a peer may choose, use map.h, which salts it. */
uint64_t num_hash(struct str s, uint64_t salt);

#endif

#ifndef PROXY_DIALER_GEO_H
#define PROXY_DIALER_GEO_H
/*
 * geo: country and network of an address, from MaxMind databases.
 *
 * They come as descriptors while the role is already in its jail, where nothing can be
 * opened by path and MMDB_open() takes nothing else.  So the file is read into memory
 * of ours (which an operator's in-place update can't pull away either) and the public
 * struct of the library is filled from the metadata; looking up is the library's work.
 */
#include "proxy/base/addr.h"

struct geo;

/* Reads the whole file; fd stays the caller's.  ST_BAD_CONFIG: not such a database. */
enum status geo_open(int fd, struct geo **ret_g) MUSTCHECK;
void geo_close(struct geo *g);

/* ISO 3166 code of two letters, or "" when unknown; g may be NULL. */
void geo_country(const struct geo *g, const struct addr *a, char ret_code[3]);
uint32_t geo_asn(const struct geo *g, const struct addr *a); /* 0: unknown */

#endif

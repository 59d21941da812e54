#ifndef CONNECTORS_MAC_H
#define CONNECTORS_MAC_H
/*
 * mac: digests and keyed digests, by libcrypto, as bare octets.  ST_NOMEM: the library has no
 * room, or not that digest; ST_TOO_BIG: a key longer than it takes.
 */
#include "proxy/base/str.h"

enum { MAC_MAX = 64, MAC_SHA256 = 32 };

enum mac_hash { MAC_HASH_SHA256, MAC_HASH_SHA512, MAC_HASH_SHA1 };

struct mac {
	char bytes[MAC_MAX];
	size_t n;
};

enum status mac_digest(enum mac_hash h, struct str data, struct mac *ret_m) MUSTCHECK;
/* RFC 2104. */
enum status mac_keyed(enum mac_hash h, struct str key, struct str data,
		      struct mac *ret_m) MUSTCHECK;
struct str mac_view(const struct mac *m);
void mac_wipe(struct mac *m); /* those that are keys themselves */

#endif

#ifndef VAULT_SEAL_H
#define VAULT_SEAL_H
/*
 * seal: AES-256-GCM around keys and values, and the keys that come from the master key.
 *
 *	sealed = nonce 12 | ciphertext n | tag 16
 *
 *	master --HMAC--> wrap   seals the random data key of each version
 *	                 file   authenticates all rows of the vault together
 *	                 check  tells a wrong master key from a damaged file
 *
 * A data key seals one value, so its nonce can't repeat; the wrap key's are random, and
 * a vault holds far fewer versions than 2^32.  Where a sealed thing belongs (tenant,
 * name, version) is associated data: moved elsewhere it does not open.
 */
#include "proxy/base/str.h"

enum { SEAL_KEY = 32, SEAL_MORE = 12 + 16, SEAL_WRAPPED = SEAL_KEY + SEAL_MORE };

enum seal_use { SEAL_WRAP, SEAL_FILE, SEAL_CHECK, SEAL_MARK, SEAL_USES };

struct seal_key { /* on the stack for a moment: CLEANUP(seal_key_done) */
	uint8_t b[SEAL_KEY];
};
void seal_key_done(struct seal_key *k); /* wipes */

enum status seal_random(struct seal_key *ret_k) MUSTCHECK;
enum status seal_derive(const struct seal_key *master, enum seal_use use,
			struct seal_key *ret_k) MUSTCHECK;
/* HMAC-SHA256. */
enum status seal_mac(const struct seal_key *key, struct str data,
		     struct seal_key *ret_mac) MUSTCHECK;
bool seal_key_eq(const struct seal_key *a, const struct seal_key *b);

/* sealed has room for plain.n + SEAL_MORE. */
enum status seal_close(const struct seal_key *key, struct str aad, struct str plain,
		       unsigned char *sealed) MUSTCHECK;
/* plain has room for sealed.n - SEAL_MORE; wiped unless ST_OK.  ST_VAULT_DAMAGED: not
 * sealed with this key, for this place, or changed. */
enum status seal_open(const struct seal_key *key, struct str aad, struct str sealed,
		      unsigned char *plain) MUSTCHECK;

#endif

#ifndef VAULT_KDF_H
#define VAULT_KDF_H
/*
 * kdf: a master key from a passphrase, by scrypt (RFC 7914) with N = 2^17, r = 8, p = 1:
 * 128 MiB and about half a second for each guess.  A forked child does it, inside the same
 * jail and with two descriptors only, so that leases of an open vault don't wait and the
 * memory is gone afterwards.
 */
#include <sys/types.h>

#include "vault/seal.h"

enum { KDF_SALT = 16, KDF_PASSPHRASE_MAX = 1024 };

struct kdf { /* all zero: none runs */
	pid_t pid;
	int fd; /* readable when it is done */
};

/* passphrase: a memfd of n bytes, stays the caller's. */
enum status kdf_start(int passphrase, size_t n, const uint8_t salt[KDF_SALT],
		      struct kdf *ret_k) MUSTCHECK;
/* Waits for the child.  ST_NOMEM: it had no room. */
enum status kdf_finish(struct kdf *k, struct seal_key *ret_key) MUSTCHECK;

#endif

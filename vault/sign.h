#ifndef VAULT_SIGN_H
#define VAULT_SIGN_H
/*
 * sign: the key that signs heads of the ledger, Ed25519 (RFC 8032).  Made at the first
 * start, kept as its 32 bytes of seed in the state directory, readable by its owner
 * only.  Nobody but this process ever holds it, so whoever takes over the ledger, or
 * its file, can't make a chain that verifies.
 */
#include "proxy/io/chain.h"

struct signer;

/* state: a descriptor of the state directory, the caller's.  A key file that others may
 * read, or that is not a plain file of 32 bytes, is refused: ST_CONFLICT. */
enum status signer_open(int state, struct signer **ret_s) MUSTCHECK;
void signer_free(struct signer *s); /* wipes; NULL is fine */

/* Appends 64 bytes of signature and 32 of public key: the answer to ASK_SIGN. */
enum status signer_put(struct signer *s, uint64_t segment,
		       const struct chain_hash *head, struct buf *b) MUSTCHECK;

#endif

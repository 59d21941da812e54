#ifndef VAULT_MARK_H
#define VAULT_MARK_H
/*
 * mark: how far the vault had come, in a file beside it and signed with a key that comes
 * from the master's.  A vault file that is behind its mark was put back from a copy.
 */
#include "vault/safe.h"

bool mark_is_there(int dir); /* of whatever vault */
/* ST_NOT_FOUND: none; ST_VAULT_DAMAGED: not of this vault, or changed. */
enum status mark_read(int dir, const struct seal_key *master,
		      const struct safe_head *head, uint64_t *ret_change) MUSTCHECK;
/* next: another master key that the vault is about to have, or NULL: until then the mark
 * is good for both. */
enum status mark_write(int dir, const struct seal_key *master,
		       const struct seal_key *next,
		       const struct safe_head *head) MUSTCHECK;

#endif

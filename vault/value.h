#ifndef VAULT_VALUE_H
#define VAULT_VALUE_H
/*
 * value: what an operator or a connector wants kept, as it comes: a memfd that nobody can
 * change any more.
 */
#include "proxy/io/vault_op.h"
#include "vault/secret.h"

/* A copy.  ST_BAD_MESSAGE: not sealed against write, grow and shrink; ST_BAD_SECRET:
 * empty, or more than max.  memfd stays the caller's. */
enum status value_read(int memfd, size_t max, struct secret *ret_s) MUSTCHECK;
/* What enum vault_kind allows, up to VAULT_VALUE_MAX. */
bool value_is_good(const struct secret *s, enum vault_kind kind);

#endif

#ifndef VAULT_MASTER_H
#define VAULT_MASTER_H
/*
 * master: where a master key comes from when it is no passphrase: master.key in the
 * keeper's directory, or a file or systemd credential that super opened.  What stands
 * there is hashed, so any text of 32 bytes or more that nobody can guess will do.
 */
#include "vault/seal.h"
#include "vault/secret.h"

enum { MASTER_LEAST = 32, MASTER_MOST = 4096 };

enum status master_read_file(int dir, struct seal_key *ret_k) MUSTCHECK;
/* What a change of keys that was cut off left behind. */
enum status master_read_staged(int dir, struct seal_key *ret_k) MUSTCHECK;
enum status master_read_given(int fd, struct seal_key *ret_k) MUSTCHECK;
/* ST_BAD_SECRET: fewer than MASTER_LEAST bytes. */
enum status master_from(const struct secret *s, struct seal_key *ret_k) MUSTCHECK;

/* A new one: staged first, so that a vault sealed with it finds it whatever happens;
 * then it has its name. */
enum status master_stage(int dir, struct seal_key *ret_k) MUSTCHECK;
enum status master_settle(int dir) MUSTCHECK;
void master_remove(int dir);

#endif

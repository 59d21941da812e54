#ifndef VAULT_VAULT_INSIDE_H
#define VAULT_VAULT_INSIDE_H
/* vault_inside: what vault.c and vault_key.c share of a vault, and nobody else sees. */
#include "vault/kdf.h"
#include "vault/vault.h"

enum job { JOB_NONE, JOB_INIT, JOB_UNSEAL, JOB_REKEY };

struct vault {
	struct vault_given given;
	enum vault_state state;
	struct safe *safe; /* NULL: the file can't even be opened */
	struct page *page;
	struct lockout lockout;
	struct ca ca;      /* that signs now */
	uint64_t ca_until; /* its grace is over, 0: none is set */
	struct kdf kdf;
	enum job job;
	struct safe_head job_head; /* of INIT and REKEY: key and salt */
};

struct lockout_now vault_clock(const struct vault *v);
/* Everything of the file is in memory and of this key. */
enum status vault_be_open(struct vault *v, const struct seal_key *key) MUSTCHECK;
/* key lies in the page.  ST_BAD_PASSPHRASE: it isn't this vault's, and nothing has
 * changed. */
enum status vault_open_with(struct vault *v, const struct seal_key *key) MUSTCHECK;
enum status vault_open_with_file(struct vault *v) MUSTCHECK;
enum status vault_open_with_given(struct vault *v) MUSTCHECK;
void vault_changed(struct vault *v); /* a commit has happened */

#endif

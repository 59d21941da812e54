#ifndef VAULT_VAULT_H
#define VAULT_VAULT_H
/*
 * vault: the safe with its key: how it is opened, sealed, changed, and what it must never
 * take for its own.
 *
 *	ABSENT --init--> OPEN <--unseal/seal--> SEALED
 *	any start --> DAMAGED      the file is not as we left it
 *	          --> ROLLED_BACK  it is, but older than what was seen; adopt opens it
 *
 * Only OPEN gives anything out.  What takes a passphrase takes half a second in a child:
 * such a call gives ST_AGAIN, vault_fd() becomes readable, vault_finish() ends it.
 */
#include "vault/ca.h"
#include "vault/lockout.h"
#include "vault/page.h"
#include "vault/safe.h"

enum vault_state {
	VAULT_ABSENT,
	VAULT_SEALED,
	VAULT_OPEN,
	VAULT_DAMAGED,
	VAULT_ROLLED_BACK,
	VAULT_STATES
};

struct vault;

struct vault_given {     /* all descriptors stay the caller's, as long as the vault */
	int dir;         /* the process stands in it */
	int page;        /* super's memory; -1: our own */
	int key;         /* file or credential of the configuration; -1: none */
	struct str boot; /* see lockout_now() */
	/* The key that a vault gets which is made by itself at the first start;
	 * VAULT_KEY_PASSPHRASE: none is. */
	enum vault_key wanted;
};

/* Opens it if the key is at hand, makes it if it may.  Whatever the file is like, there
 * is a vault in some state afterwards; ST_NOMEM, ST_SYSTEM: there is none. */
enum status vault_new(const struct vault_given *g, struct vault **ret_v) MUSTCHECK;
void vault_free(struct vault *v);

enum vault_state vault_state(const struct vault *v);
const char *vault_state_word(enum vault_state state);
/* ST_OK, or why nothing is given out. */
enum status vault_is_open(const struct vault *v) MUSTCHECK;
uint64_t vault_locked_ms(struct vault *v);
/* NULL: none made. */
const struct safe_head *vault_head(const struct vault *v);

/* While it is open: */
const struct table *vault_table(const struct vault *v);
const struct seal_key *vault_master(const struct vault *v);
/*
 * The authority that signs now, NULL: none.  During an overlap that is still the one
 * before the newest, which sandboxes know already; ret_until: what it signs must end by
 * then, 0: no matter.
 */
const struct ca *vault_minter(struct vault *v, uint64_t *ret_until);
/* Certificates of all that are to be trusted, in PEM, the newest first. */
enum status vault_put_cas(const struct vault *v, struct buf *b) MUSTCHECK;
/* Changes of the safe go between these two; the table is another one afterwards. */
struct safe *vault_begin(struct vault *v, enum status *ret_st);
enum status vault_end(struct vault *v, enum status st) MUSTCHECK;
enum status vault_rotate_ca(struct vault *v, uint64_t grace_s) MUSTCHECK;

/* value: the passphrase or the given key; -1: none.  It is read at once. */
enum status vault_init(struct vault *v, enum vault_key key, int value) MUSTCHECK;
enum status vault_unseal(struct vault *v, int value) MUSTCHECK;
enum status vault_rekey(struct vault *v, enum vault_key key, int value) MUSTCHECK;
enum status vault_seal(struct vault *v) MUSTCHECK;
enum status vault_adopt(struct vault *v) MUSTCHECK;

int vault_fd(const struct vault *v); /* -1: nothing runs */
enum status vault_finish(struct vault *v) MUSTCHECK;

uint64_t vault_now(void); /* seconds since 1970 */

#endif

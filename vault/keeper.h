#ifndef VAULT_KEEPER_H
#define VAULT_KEEPER_H
/*
 * keeper: the role that holds the vault, the CA's key and the key that signs heads of the
 * ledger.  A poll loop over lines; each ask is answered before the next is read, but for
 * one at a time that waits for a passphrase to become a key.
 *
 * Nothing is given out, made or changed without a row in the ledger that says so: which
 * secret and version, never a value.
 */
#include "proxy/io/role.h"
#include "vault/sign.h"
#include "vault/sources.h"
#include "vault/supplies.h"
#include "vault/vault.h"

/* Workers and connectors come in numbers; and the one that died before for a moment. */
enum { KEEPER_LINES = 192 };

struct keeper_line {
	struct ask_end end;           /* fd -1: free */
	char group[STR_NAME_MAX + 1]; /* of the connectors at its other end */
	struct ask_rate rates[ASK_COUNT];
	uint64_t refusals_ms; /* mint: up to when its share of refusals is used up */
};

/* The operator whose passphrase is being tried. */
struct keeper_waiting {
	struct keeper_line *line; /* NULL: nobody waits, or who did is gone */
	uint32_t seq;
	enum vault_op op;
};

struct keeper {
	struct role_self role;
	struct signer *signer;
	struct vault *vault;
	struct sources sources;
	struct supplies supplies;
	struct keeper_waiting waiting;
	int state, page, key; /* given; -1: not */
	bool page_is_plain;   /* an ordinary memfd: root can read it */
	char boot[LOCKOUT_BOOT + 1];
	struct keeper_line lines[KEEPER_LINES];
	char space[ASK_BODY_MAX + 8];
};

/* Each hears one ask.  Anything but ST_OK ends the line: the asker broke the contract; a
 * refusal is an answer. */
enum status keeper_sign(struct keeper *k, struct keeper_line *line,
			struct ask_msg *m) MUSTCHECK;
enum status keeper_grant(struct keeper *k, struct keeper_line *line,
			 struct ask_msg *m) MUSTCHECK;
enum status keeper_mint(struct keeper *k, struct keeper_line *line,
			struct ask_msg *m) MUSTCHECK;
enum status keeper_lease(struct keeper *k, struct keeper_line *line,
			 struct ask_msg *m) MUSTCHECK;
enum status keeper_rotate(struct keeper *k, struct keeper_line *line,
			  struct ask_msg *m) MUSTCHECK;
enum status keeper_supply(struct keeper *k, struct keeper_line *line,
			  struct ask_msg *m) MUSTCHECK;
enum status keeper_vault(struct keeper *k, struct keeper_line *line,
			 struct ask_msg *m) MUSTCHECK;
/* What sources kept has come to its end: gone, and told. */
void keeper_expire(struct keeper *k);
/* vault_fd() is readable. */
void keeper_vault_finish(struct keeper *k);
/* Does every connector that declares a secret of the vault have it granted? */
enum status keeper_check_grants(struct keeper *k, const struct image *im) MUSTCHECK;

/* Answers with what b holds and, unless it is -1, a descriptor that stays the caller's.
 */
enum status keeper_answer(struct keeper_line *line, const struct ask_msg *m,
			  const struct buf *b, int fd) MUSTCHECK;

#endif

#ifndef VAULT_SAFE_H
#define VAULT_SAFE_H
/*
 * safe: the vault's file, in sqlite, and the table of it in memory.
 *
 *	vault    one row: format, id, change, how the master key comes, check, mac
 *	secret   tenant, name, kind
 *	version  of a secret: times, sealed data key, sealed value
 *	permit   which connector may use a secret, for which user
 *
 * Only sealed things and names are in the file.  change grows by one with each commit;
 * mac covers it and every row, so the file is taken whole, as we left it, or not at all.
 *
 * A change: safe_begin(), one or more of safe_add_...(), safe_end().  What was begun is
 * durable (synchronous FULL) when safe_end() says ST_OK, and then the table is a new
 * one; else nothing has happened.
 */
#include "vault/table.h"

enum { SAFE_ID = 16, SAFE_SALT = 16 };

struct safe;

struct safe_head {
	uint64_t change;
	enum vault_key key;
	uint8_t id[SAFE_ID], salt[SAFE_SALT]; /* salt: of a passphrase */
};

/* Makes the file if there is none.  path: from where the process stands. */
enum status safe_open(const char *path, struct safe **ret_s) MUSTCHECK;
void safe_free(struct safe *s);

/* NULL: nobody has made a vault in this file. */
const struct safe_head *safe_head(const struct safe *s);
/* head: key and salt; the rest is drawn.  master stays the caller's, good while the
 * store is open.  ST_CONFLICT: there is one. */
enum status safe_make(struct safe *s, const struct safe_head *head,
		      const struct seal_key *master) MUSTCHECK;
/* ST_BAD_PASSPHRASE: not its key.  ST_VAULT_DAMAGED: not as we left it.  master as
 * above. */
enum status safe_unlock(struct safe *s, const struct seal_key *master) MUSTCHECK;
void safe_lock(struct safe *s);
/* NULL: locked. */
const struct table *safe_table(const struct safe *s);

enum status safe_begin(struct safe *s) MUSTCHECK;
/* st: how what was begun went so far; given back when it is not ST_OK. */
enum status safe_end(struct safe *s, enum status st) MUSTCHECK;
enum status safe_add_secret(struct safe *s, const struct table_entry *e) MUSTCHECK;
/* v: number and times; the value is sealed here. */
enum status safe_add_version(struct safe *s, const struct table_entry *e,
			     const struct table_version *v, struct str value) MUSTCHECK;
/* Versions before this one stay good until then; 0: they go at once. */
enum status safe_retire(struct safe *s, const struct table_entry *e, uint32_t number,
			uint64_t until) MUSTCHECK;
enum status safe_purge(struct safe *s, uint64_t now) MUSTCHECK; /* graces over */
enum status safe_remove(struct safe *s, const struct table_entry *e) MUSTCHECK;
enum status safe_permit(struct safe *s, const struct table_entry *e,
			const struct table_grant *g, bool is_taken_back) MUSTCHECK;
/* Seals every data key with another master key; head: key and salt.  A change of its
 * own.  The old master is not needed afterwards. */
enum status safe_rekey(struct safe *s, const struct safe_head *head,
		       const struct seal_key *master) MUSTCHECK;

#endif

#ifndef VAULT_TABLE_H
#define VAULT_TABLE_H
/*
 * table: all secrets of a vault in memory, as sealed as they are in the file, so that a
 * lease never waits for sqlite.  Made anew from the file at each change and then never
 * altered; its digest covers every row, so that a row which was changed, taken out or
 * put back by another hand is found before anything is given out.
 *
 * Sorted by tenant, then name.  Pointers live until table_free().
 */
#include <sqlite3.h>

#include "proxy/io/vault_op.h"
#include "vault/envelope.h"

/* A kind that is never leased: a CA's key and certificate, in DER one after the other. */
enum { TABLE_CA = VAULT_KIND_COUNT, TABLE_KINDS };
enum { TABLE_SEALED_MAX = ENVELOPE_VALUE_MAX + SEAL_MORE, TABLE_MAX = 200000 };

struct table_version {
	uint32_t number;                    /* from 1, ascending */
	uint64_t created, expires, retires; /* seconds since 1970; 0: never */
	struct envelope envelope;
};

struct table_grant {
	struct str connector, user; /* user "": each */
};

struct table_entry {
	struct str tenant, name;
	uint8_t kind;
	struct table_version *versions; /* at least one */
	size_t versions_n;
	struct table_grant *grants;
	size_t grants_n;
};

struct table;

/* key: authenticates the rows; ret_mac is over them and head, which are the bytes of the
 * vault's own row.  ST_VAULT_DAMAGED: rows that no version of us writes. */
enum status table_load(sqlite3 *db, const struct seal_key *key, struct str head,
		       struct seal_key *ret_mac, struct table **ret_t) MUSTCHECK;
void table_free(struct table *t);

size_t table_size(const struct table *t);
const struct table_entry *table_at(const struct table *t, size_t i);
const struct table_entry *table_find(const struct table *t, struct str tenant,
				     struct str name);
/* The first that comes after this one, table_size() if none does. */
size_t table_after(const struct table *t, struct str tenant, struct str name);

/* The one that is given out; it may have expired. */
const struct table_version *table_newest(const struct table_entry *e);
/* NULL: it never was, or its grace is over. */
const struct table_version *table_version(const struct table_entry *e, uint32_t number,
					  uint64_t now);
bool table_is_granted(const struct table_entry *e, struct str connector,
		      struct str user);

struct envelope_place table_place(const struct table_entry *e,
				  const struct table_version *v);

#endif

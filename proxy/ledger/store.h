#ifndef PROXY_LEDGER_STORE_H
#define PROXY_LEDGER_STORE_H
/*
 * store: the ledger on disk: rows in a chain (proxy/io/chain.h), cut into segments.
 *
 * Everything between store_begin() and store_commit() is kept or none of it, with the
 * marks of what was consumed from which ring: so a row is stored once, however often
 * the process dies.  When any call of a batch fails the caller does store_rollback(),
 * and the chain stands where the last commit left it.
 *
 * The oldest segments may be dropped: a prefix, whose ends and signatures stay.
 */
#include "proxy/io/chain.h"
#include "proxy/io/row.h"
#include "proxy/io/sql.h"

struct store_place {      /* where the chain stands */
	uint64_t seq;     /* of the last row; 0: none yet */
	uint64_t segment; /* the open one; first is 1 */
	uint64_t first;   /* its first row's number */
	uint64_t opened;  /* when, wall clock in us */
	struct chain_hash link;
};

struct store_limits {
	uint64_t segment_rows, max_age_ms, max_size;
};

struct store {
	sqlite3 *db;
	struct row_ids ids; /* of rows that the ledger itself writes */
	uint64_t generation;
	struct store_limits limits;
	struct store_place now, committed;
	sqlite3_stmt *insert, *consume;
	struct chain_hasher hasher;
	bool is_open; /* a batch */
};

/* dir/ledger.db.  slot: of the ledger, for ids. */
enum status store_open(struct store *s, const char *dir, uint8_t slot) MUSTCHECK;
void store_close(struct store *s);

enum status store_begin(struct store *s) MUSTCHECK;
enum status
store_commit(struct store *s) MUSTCHECK; /* on failure rolled back already */
void store_rollback(struct store *s);

/* bytes: as row_put() made them; r: what row_get() read from them. */
enum status store_add(struct store *s, struct str bytes, const struct row *r) MUSTCHECK;
/* A row of the ledger's own: id, time, turn and generation are filled in. */
enum status store_note(struct store *s, struct row *r) MUSTCHECK;
/* End the open segment now, if it has rows. */
enum status store_cut(struct store *s) MUSTCHECK;

/* The last row taken from the ring of this slot. */
enum status store_consumed(struct store *s, uint8_t slot,
			   const struct chain_hash *digest) MUSTCHECK;
bool store_last_consumed(struct store *s, uint8_t slot, struct chain_hash *ret_digest);

/* Walk the last rows; false: *ret_seq is the first that doesn't fit. */
bool store_tail_fits(struct store *s, uint64_t *ret_seq);

#endif

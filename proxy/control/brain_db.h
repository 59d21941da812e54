#ifndef PROXY_CONTROL_BRAIN_DB_H
#define PROXY_CONTROL_BRAIN_DB_H
/*
 * brain_db: the file of brain_store, for the files that brain_store is made of
 * (brain_store*.c); nobody else needs this.
 *
 * A statement outside of brain_db_begin() is a transaction of its own.
 */
#include "proxy/control/brain_store.h"
#include "proxy/io/sql.h"

struct brain_store {
	sqlite3 *db;
	sqlite3_stmt *find, *touch; /* what every execution request does */
};

enum status brain_db_begin(struct brain_store *s) MUSTCHECK;
/* ST_OK: keep it all; else nothing, and that is what comes back. */
enum status brain_db_end(struct brain_store *s, enum status st) MUSTCHECK;
/* sql_run(); what the tables forbid is ST_CONFLICT. */
enum status brain_db_run(struct brain_store *s, sqlite3_stmt *q) MUSTCHECK;
/* The same, and ST_NOT_FOUND when it changed nothing. */
enum status brain_db_change(struct brain_store *s, sqlite3_stmt *q) MUSTCHECK;
/* The same, of which a power cut may leave nothing.  Not inside of a transaction. */
enum status brain_db_lazily(struct brain_store *s, sqlite3_stmt *q) MUSTCHECK;

/* A number from outside: more than sqlite holds counts as the most. */
void brain_db_number(sqlite3_stmt *q, int at, uint64_t v);
enum status brain_db_text(sqlite3_stmt *q, int column, struct arena *a,
			  struct str *ret_s) MUSTCHECK;

/* Rows of "SELECT " BRAIN_DB_COLUMNS " FROM sandboxes ...". */
#define BRAIN_DB_COLUMNS                                                               \
	BRAIN_DB_COLUMNS_OF("request", "metadata", "policy", "endpoints")
/* The same without the long texts that callers write: of many rows these are few bytes,
 * whoever wrote them. */
#define BRAIN_DB_SHORT BRAIN_DB_COLUMNS_OF("x''", "x''", "x''", "x''")
#define BRAIN_DB_COLUMNS_OF(request, metadata, policy, endpoints)                      \
	"id, server, upstream, tenant, user, agent, session, task, on_behalf_of,"      \
	" reuse_key, shape, snapshot, " request ", " metadata ", " policy              \
	", " endpoints ", tier, state, reuse, created_s, expires_s, used_s,"           \
	" paused_s, gone_s, create_ms, pause_ms, resume_ms, snapshot_ms, freed"

/* The first row, or ST_NOT_FOUND. */
enum status brain_db_one(sqlite3_stmt *q, struct arena *a,
			 struct brain_sandbox *ret_x) MUSTCHECK;
/* All rows, at most BRAIN_LIST_MAX; total is left 0. */
enum status brain_db_rows(sqlite3_stmt *q, struct arena *a,
			  struct brain_sandboxes *ret_x) MUSTCHECK;

/* In place of those that it has. */
enum status brain_db_labels(struct brain_store *s, struct str id,
			    const struct brain_pair *pairs, size_t n) MUSTCHECK;

/* "sb-" or "sn-" and 130 random bits. */
enum status brain_db_id(struct str prefix, char ret_id[BRAIN_ID]) MUSTCHECK;

#endif

#ifndef PROXY_IO_SQL_H
#define PROXY_IO_SQL_H
/*
 * sql: sqlite, in our words.  A statement is prepared once and used as
 *
 *	sql_u64(q, 1, seq); sql_bytes(q, 2, payload); st = sql_run(q);
 *
 * sql_run() and a sql_next() that ended reset the statement, so nothing of it is left.
 * Texts and blobs bound or read are views: good until the next step.
 */
#include <sqlite3.h>

#include "proxy/base/str.h"

/* Open and harden: the one writer (makes the file), or a reader beside it.
 * ST_NOT_FOUND: a reader, and there is no file.  ST_BAD_MESSAGE, here and below: the file
 * is damaged, or no database. */
enum status sql_open_writer(const char *path, sqlite3 **ret_db) MUSTCHECK;
enum status sql_open_reader(const char *path, sqlite3 **ret_db) MUSTCHECK;
enum status sql_exec(sqlite3 *db, const char *text) MUSTCHECK;
enum status sql_prepare(sqlite3 *db, const char *text, sqlite3_stmt **ret_q) MUSTCHECK;
void sql_done(sqlite3_stmt **q); /* for CLEANUP */

/* A transaction, all of it or nothing: the end commits what went well, st, and takes back
 * what did not.  ST_SYSTEM: it could not even be taken back. */
enum status sql_begin(sqlite3 *db) MUSTCHECK;
enum status sql_end(sqlite3 *db, enum status st) MUSTCHECK;
/* Fine where none is open: a full disk, say, has taken it back already. */
enum status sql_rollback(sqlite3 *db) MUSTCHECK;

void sql_u64(sqlite3_stmt *q, int at, uint64_t v); /* v <= INT64_MAX */
void sql_bytes(sqlite3_stmt *q, int at, struct str v);

enum status sql_run(sqlite3_stmt *q) MUSTCHECK;
/* ST_OK: a row is there; ST_END: no more. */
enum status sql_next(sqlite3_stmt *q) MUSTCHECK;

uint64_t sql_get_u64(sqlite3_stmt *q, int column); /* negative counts as 0 */
struct str sql_get_bytes(sqlite3_stmt *q, int column);
bool sql_is_null(sqlite3_stmt *q, int column);

#endif

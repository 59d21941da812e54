#include "proxy/io/sql.h"

#include <stdlib.h>
#include <string.h>

static enum status
status_of(int rc)
{
	switch (rc) {
	case SQLITE_OK:
	case SQLITE_DONE:
		return ST_OK;
	case SQLITE_NOMEM:
		return ST_NOMEM;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return ST_BAD_MESSAGE;
	default:
		/* FULL, IOERR, BUSY: the caller tries again; nothing is lost.
		 */
		return ST_SYSTEM;
	}
}

enum status
sql_exec(sqlite3 *db, const char *text)
{
	return status_of(sqlite3_exec(db, text, NULL, NULL, NULL));
}

enum status
sql_begin(sqlite3 *db)
{
	return sql_exec(db, "BEGIN IMMEDIATE");
}

enum status
sql_rollback(sqlite3 *db)
{
	return sqlite3_get_autocommit(db) != 0 ? ST_OK : sql_exec(db, "ROLLBACK");
}

enum status
sql_end(sqlite3 *db, enum status st)
{
	if (st == ST_OK)
		st = sql_exec(db, "COMMIT");
	return st != ST_OK && sql_rollback(db) != ST_OK ? ST_SYSTEM : st;
}

/*
 * A file that someone else wrote must not run code (trusted_schema, defensive) nor
 * crash us (cell_size_check; no mmap, where an I/O error would be a signal).
 */
static enum status
harden(sqlite3 *db)
{
	const int on[] = { SQLITE_DBCONFIG_DEFENSIVE,
			   SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE };
	const int off[] = { SQLITE_DBCONFIG_TRUSTED_SCHEMA,
			    SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW,
			    SQLITE_DBCONFIG_DQS_DML, SQLITE_DBCONFIG_DQS_DDL };

	if (sqlite3_db_config(db, on[0], 1, NULL) != SQLITE_OK ||
	    sqlite3_db_config(db, on[1], 0, NULL) != SQLITE_OK)
		return ST_SYSTEM;
	for (size_t i = 0; i < COUNT_OF(off); i++)
		if (sqlite3_db_config(db, off[i], 0, NULL) != SQLITE_OK)
			return ST_SYSTEM;
	(void)sqlite3_busy_timeout(db, 2000);
	return sql_exec(db, "PRAGMA cell_size_check=ON;"
			    "PRAGMA mmap_size=0;"
			    "PRAGMA temp_store=MEMORY;"
			    "PRAGMA cache_size=-8192;");
}

/* FULL: each commit is an fsync, so what was committed outlives a power cut. */
static enum status
prepare_to_write(sqlite3 *db)
{
	return sql_exec(db, "PRAGMA auto_vacuum=INCREMENTAL;"
			    "PRAGMA journal_mode=WAL;"
			    "PRAGMA synchronous=FULL;"
			    "PRAGMA journal_size_limit=67108864;");
}

static enum status
open_with(const char *path, int flags, const char *vfs, sqlite3 **ret_db)
{
	sqlite3 *db = NULL;
	int rc = sqlite3_open_v2(
		path, &db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, vfs);
	enum status st = rc == SQLITE_CANTOPEN ? ST_NOT_FOUND : status_of(rc);

	if (st == ST_OK)
		st = harden(db);
	if (st != ST_OK) {
		(void)sqlite3_close(db);
		return st;
	}
	*ret_db = db;
	return ST_OK;
}

static const char as_is[] = "sandgate-as-is";

static int
keep_name(sqlite3_vfs *vfs, const char *name, int room, char *ret_name)
{
	size_t n = strlen(name);

	(void)vfs;
	if (room <= 0 || n >= (size_t)room)
		return SQLITE_CANTOPEN;
	memcpy(ret_name, name, n + 1);
	return SQLITE_OK;
}

/*
 * A role stands in its own directory and may not be allowed to walk there: a directory
 * above it may be another user's.  sqlite makes every name absolute before it opens it;
 * this is its own way to files but for that.  It lives as long as the process.
 */
static enum status
register_as_is(void)
{
	const sqlite3_vfs *usual = sqlite3_vfs_find(NULL);

	if (sqlite3_vfs_find(as_is) != NULL)
		return ST_OK;
	sqlite3_vfs *vfs = usual == NULL ? NULL : malloc(sizeof *vfs);
	if (vfs == NULL)
		return ST_NOMEM;
	*vfs = *usual;
	vfs->pNext = NULL;
	vfs->zName = as_is;
	vfs->xFullPathname = keep_name;
	return status_of(sqlite3_vfs_register(vfs, 0));
}

enum status
sql_open_writer(const char *path, sqlite3 **ret_db)
{
	sqlite3 *db = NULL;
	enum status st;

	/* No threads, so no locks, and nobody asks how much memory it uses.  Too late
	 * if the library is in use already, which only costs the time. */
	(void)sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
	(void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	st = register_as_is();
	if (st == ST_OK)
		st = open_with(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, as_is,
			       &db);
	if (st == ST_OK)
		st = prepare_to_write(db);
	if (st != ST_OK) {
		(void)sqlite3_close(db);
		return st;
	}
	*ret_db = db;
	return ST_OK;
}

/* A reader of a file in WAL mode takes locks in its index beside it, no more. */
enum status
sql_open_reader(const char *path, sqlite3 **ret_db)
{
	return open_with(path, SQLITE_OPEN_READONLY, NULL, ret_db);
}

enum status
sql_prepare(sqlite3 *db, const char *text, sqlite3_stmt **ret_q)
{
	return status_of(sqlite3_prepare_v3(db, text, -1, SQLITE_PREPARE_PERSISTENT,
					    ret_q, NULL));
}

void
sql_done(sqlite3_stmt **q)
{
	(void)sqlite3_finalize(*q);
	*q = NULL;
}

void
sql_u64(sqlite3_stmt *q, int at, uint64_t v)
{
	need(v <= INT64_MAX);
	need(sqlite3_bind_int64(q, at, (int64_t)v) == SQLITE_OK);
}

/* An empty view may have no pointer, and sqlite would read that as NULL. */
void
sql_bytes(sqlite3_stmt *q, int at, struct str v)
{
	need(v.n <= INT32_MAX);
	need(sqlite3_bind_blob(q, at, v.n == 0 ? "" : v.p, (int)v.n, SQLITE_STATIC) ==
	     SQLITE_OK);
}

enum status
sql_run(sqlite3_stmt *q)
{
	int rc = sqlite3_step(q);

	(void)sqlite3_reset(q);
	return status_of(rc == SQLITE_ROW ? SQLITE_DONE : rc);
}

enum status
sql_next(sqlite3_stmt *q)
{
	int rc = sqlite3_step(q);

	if (rc == SQLITE_ROW)
		return ST_OK;
	(void)sqlite3_reset(q);
	return rc == SQLITE_DONE ? ST_END : status_of(rc);
}

uint64_t
sql_get_u64(sqlite3_stmt *q, int column)
{
	int64_t v = sqlite3_column_int64(q, column);

	return v < 0 ? 0 : (uint64_t)v;
}

struct str
sql_get_bytes(sqlite3_stmt *q, int column)
{
	const void *p = sqlite3_column_blob(q, column);

	return str_of(p, p == NULL ? 0 : (size_t)sqlite3_column_bytes(q, column));
}

bool
sql_is_null(sqlite3_stmt *q, int column)
{
	return sqlite3_column_type(q, column) == SQLITE_NULL;
}

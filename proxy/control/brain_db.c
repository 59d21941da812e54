#include "proxy/control/brain_db.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "proxy/base/num.h"
#include "proxy/control/brain_schema.h"

/* Literals of the schema and of our statements. */
_Static_assert(BRAIN_PLACING == 0 && BRAIN_PENDING == 1 && BRAIN_RUNNING == 2 &&
		       BRAIN_PAUSED == 3 && BRAIN_SNAPSHOT == 4 && BRAIN_KILLING == 5 &&
		       BRAIN_FAILED == 6 && BRAIN_GONE == 7,
	       "states of the schema");
_Static_assert(BRAIN_REUSE_NONE == 0 && BRAIN_REUSES == 4, "reuse of the schema");
_Static_assert(BRAIN_ID == 29, "ids of the schema");

/* The file. */

static enum status
get_number(sqlite3 *db, const char *query, uint64_t *ret_v)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(db, query, &q);

	if (st == ST_OK)
		st = sql_next(q);
	if (st != ST_OK)
		return st == ST_END ? ST_STORE_DAMAGED : st;
	*ret_v = sql_get_u64(q, 0);
	return ST_OK;
}

static const char schema_query[] = "SELECT sql FROM sqlite_schema ORDER BY name";

/* Row by row: the same statements under the same names made both. */
static enum status
compare_schemas(sqlite3 *ours, sqlite3 *file)
{
	CLEANUP(sql_done) sqlite3_stmt *a = NULL;
	CLEANUP(sql_done) sqlite3_stmt *b = NULL;
	enum status want = sql_prepare(ours, schema_query, &a),
		    got = sql_prepare(file, schema_query, &b);

	while (want == ST_OK && got == ST_OK) {
		want = sql_next(a);
		got = sql_next(b);
		if (want == ST_OK && got == ST_OK &&
		    !str_eq(sql_get_bytes(a, 0), sql_get_bytes(b, 0)))
			return ST_STORE_DAMAGED;
	}
	return want == ST_END && got == ST_END ? ST_OK : ST_STORE_DAMAGED;
}

static void
close_db(sqlite3 **db)
{
	(void)sqlite3_close(*db);
	*db = NULL;
}

static enum status
make_schema(sqlite3 *db)
{
	enum status st = ST_OK;

	for (size_t i = 0; i < COUNT_OF(brain_schema) && st == ST_OK; i++)
		st = sql_exec(db, brain_schema[i]);
	return st;
}

/* Triggers of a file are code of who wrote it: none but ours may be there. */
static enum status
check_schema(sqlite3 *db)
{
	CLEANUP(close_db) sqlite3 *ours = NULL;

	if (sqlite3_open_v2(":memory:", &ours,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK)
		return ST_NOMEM;
	enum status st = make_schema(ours);
	return st == ST_OK ? compare_schemas(ours, db) : st;
}

/* A query that finds what is wrong: its rows, but for one that says "ok". */
static enum status
check(sqlite3 *db, const char *query)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(db, query, &q);

	if (st == ST_OK)
		st = sql_next(q);
	if (st == ST_END)
		return ST_OK;
	if (st == ST_OK && !str_eq(sql_get_bytes(q, 0), STR("ok")))
		st = ST_STORE_DAMAGED;
	return st;
}

static enum status
whole(sqlite3 *db, enum status (*change)(sqlite3 *db))
{
	enum status st = sql_begin(db);

	if (st == ST_OK)
		st = change(db);
	return sql_end(db, st);
}

/* Nothing stays of it in a file that isn't ours: only the result tells. */
static enum status
upgrade(sqlite3 *db)
{
	enum status st = sql_exec(db, brain_upgrade);

	return st == ST_OK ? check_schema(db) : st;
}

static enum status
check_tables(sqlite3 *db)
{
	uint64_t version = 0;
	enum status st = get_number(db, "PRAGMA user_version", &version);

	if (st == ST_OK)
		st = version == 1 ? whole(db, upgrade) : check_schema(db);
	if (st == ST_OK)
		st = check(db, "PRAGMA integrity_check(1)");
	if (st == ST_OK)
		st = check(db, "PRAGMA foreign_key_check");
	return st;
}

static enum status
ready(sqlite3 *db)
{
	uint64_t tables = 0;
	enum status st = get_number(db, "SELECT count(*) FROM sqlite_schema", &tables);

	if (st == ST_OK)
		st = tables == 0 ? whole(db, make_schema) : check_tables(db);
	if (st == ST_OK &&
	    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 1, NULL) != SQLITE_OK)
		st = ST_SYSTEM;
	if (st == ST_OK)
		st = sql_exec(db, "PRAGMA foreign_keys=ON");
	/* A commit, for the sake of its files: the first one syncs the name of the log, for
	 * which the directory has to be opened. */
	if (st == ST_OK)
		st = sql_exec(db, "PRAGMA user_version=2");
	return st == ST_OK ? sql_exec(db, "PRAGMA wal_checkpoint(PASSIVE)") : st;
}

static enum status
prepare(struct brain_store *s)
{
	enum status st = sql_prepare(s->db,
				     "SELECT " BRAIN_DB_COLUMNS
				     " FROM sandboxes WHERE id = ?1 AND tenant = ?2"
				     " AND user = ?3 AND state < 7",
				     &s->find);

	return st != ST_OK ? st
			   : sql_prepare(s->db,
					 "UPDATE sandboxes SET used_s = max(used_s, ?2)"
					 " WHERE id = ?1",
					 &s->touch);
}

enum status
brain_store_open(const char *path, struct brain_store **ret_s)
{
	struct brain_store *s = calloc(1, sizeof *s);

	if (s == NULL)
		return ST_NOMEM;
	enum status st = sql_open_writer(path, &s->db);
	if (st == ST_OK)
		st = ready(s->db);
	if (st == ST_OK)
		st = prepare(s);
	if (st != ST_OK) {
		brain_store_close(s);
		return st == ST_BAD_MESSAGE ? ST_STORE_DAMAGED : st;
	}
	*ret_s = s;
	return ST_OK;
}

void
brain_store_close(struct brain_store *s)
{
	if (s == NULL)
		return;
	sql_done(&s->find);
	sql_done(&s->touch);
	close_db(&s->db);
	free(s);
}

struct sqlite3 *
brain_store_db(struct brain_store *s)
{
	return s->db;
}

/* Statements. */

static enum status
told(const struct brain_store *s, enum status st)
{
	bool is_forbidden = (sqlite3_errcode(s->db) & 0xff) == SQLITE_CONSTRAINT;

	return st == ST_SYSTEM && is_forbidden ? ST_CONFLICT : st;
}

enum status
brain_db_begin(struct brain_store *s)
{
	return sql_begin(s->db);
}

enum status
brain_db_end(struct brain_store *s, enum status st)
{
	if (st == ST_OK)
		st = told(s, sql_exec(s->db, "COMMIT"));
	if (st != ST_OK)
		(void)!sql_rollback(s->db);
	return st;
}

enum status
brain_db_run(struct brain_store *s, sqlite3_stmt *q)
{
	return told(s, sql_run(q));
}

enum status
brain_db_change(struct brain_store *s, sqlite3_stmt *q)
{
	enum status st = brain_db_run(s, q);

	return st == ST_OK && sqlite3_changes(s->db) == 0 ? ST_NOT_FOUND : st;
}

/* At once back: others commit on the same connection. */
enum status
brain_db_lazily(struct brain_store *s, sqlite3_stmt *q)
{
	enum status st = sql_exec(s->db, "PRAGMA synchronous=NORMAL");

	if (st != ST_OK)
		return st;
	st = brain_db_change(s, q);
	enum status back = sql_exec(s->db, "PRAGMA synchronous=FULL");
	return back == ST_OK ? st : back;
}

/* Values. */

void
brain_db_number(sqlite3_stmt *q, int at, uint64_t v)
{
	sql_u64(q, at, v > INT64_MAX ? INT64_MAX : v);
}

enum status
brain_db_text(sqlite3_stmt *q, int column, struct arena *a, struct str *ret_s)
{
	struct str copy = arena_copy(a, sql_get_bytes(q, column));

	if (copy.p == NULL)
		return ST_NOMEM;
	*ret_s = copy;
	return ST_OK;
}

#define AT(member) offsetof(struct brain_sandbox, member)

static const size_t texts[] = { AT(id),           AT(server),     AT(upstream),
				AT(owner.tenant), AT(owner.user), AT(agent),
				AT(session),      AT(task),       AT(on_behalf_of),
				AT(reuse_key),    AT(shape),      AT(snapshot),
				AT(request),      AT(metadata),   AT(policy),
				AT(endpoints) };

static const size_t numbers[] = { AT(created_s),       AT(expires_s),
				  AT(used_s),          AT(paused_s),
				  AT(gone_s),          AT(cost.create_ms),
				  AT(cost.pause_ms),   AT(cost.resume_ms),
				  AT(cost.snapshot_ms) };

static enum status
take(sqlite3_stmt *q, struct arena *a, struct brain_sandbox *ret_x)
{
	struct brain_sandbox x = { 0 };
	enum status st = ST_OK;
	int at = 0;

	for (size_t i = 0; i < COUNT_OF(texts) && st == ST_OK; i++) {
		struct str text;
		st = brain_db_text(q, at++, a, &text);
		if (st == ST_OK)
			memcpy((char *)&x + texts[i], &text, sizeof text);
	}
	if (st != ST_OK)
		return st;
	/* The tables know no others. */
	x.tier = (uint8_t)sql_get_u64(q, at++);
	x.state = (enum brain_state)sql_get_u64(q, at++);
	x.reuse = (enum brain_reuse)sql_get_u64(q, at++);
	for (size_t i = 0; i < COUNT_OF(numbers); i++) {
		uint64_t v = sql_get_u64(q, at++);
		memcpy((char *)&x + numbers[i], &v, sizeof v);
	}
	x.cost.freed.is_known = sqlite3_column_type(q, at) != SQLITE_NULL;
	x.cost.freed.octets = sql_get_u64(q, at);
	*ret_x = x;
	return ST_OK;
}

enum status
brain_db_one(sqlite3_stmt *q, struct arena *a, struct brain_sandbox *ret_x)
{
	enum status st = sql_next(q);

	if (st == ST_OK)
		st = take(q, a, ret_x);
	(void)sqlite3_reset(q);
	return st == ST_END ? ST_NOT_FOUND : st;
}

enum status
brain_db_rows(sqlite3_stmt *q, struct arena *a, struct brain_sandboxes *ret_x)
{
	struct brain_sandboxes x = { arena_alloc(a, BRAIN_LIST_MAX * sizeof *x.of), 0,
				     0 };
	enum status st = x.of == NULL ? ST_NOMEM : ST_OK;

	while (st == ST_OK) {
		st = x.n == BRAIN_LIST_MAX ? ST_END : sql_next(q);
		if (st == ST_OK)
			st = take(q, a, &x.of[x.n++]);
	}
	(void)sqlite3_reset(q);
	if (st != ST_END)
		return st;
	*ret_x = x;
	return ST_OK;
}

/* Labels and ids. */

static enum status
add_labels(struct brain_store *s, struct str id, const struct brain_pair *pairs,
	   size_t n)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(s->db,
				     "INSERT INTO labels(sandbox, key, value)"
				     " SELECT n, ?2, ?3 FROM sandboxes WHERE id = ?1",
				     &q);

	for (size_t i = 0; i < n && st == ST_OK; i++) {
		sql_bytes(q, 1, id);
		sql_bytes(q, 2, pairs[i].key);
		sql_bytes(q, 3, pairs[i].value);
		st = brain_db_run(s, q);
	}
	return st;
}

enum status
brain_db_labels(struct brain_store *s, struct str id, const struct brain_pair *pairs,
		size_t n)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(s->db,
				     "DELETE FROM labels WHERE sandbox = (SELECT n "
				     "FROM sandboxes WHERE id = ?)",
				     &q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, id);
	st = brain_db_run(s, q);
	return st == ST_OK && n > 0 ? add_labels(s, id, pairs, n) : st;
}

enum status
brain_db_id(struct str prefix, char ret_id[BRAIN_ID])
{
	static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
	unsigned char dice[BRAIN_ID];

	need(prefix.n == 3);
	if (getrandom(dice, sizeof dice, 0) != sizeof dice)
		return ST_SYSTEM;
	memcpy(ret_id, prefix.p, prefix.n);
	for (size_t i = prefix.n; i < BRAIN_ID; i++)
		ret_id[i] = digits[dice[i] & 31];
	return ST_OK;
}

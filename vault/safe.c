#include "vault/safe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/crypto.h>

#include "proxy/io/sql.h"

enum { FORMAT = 1, HEAD_MAX = 256 };

struct safe {
	sqlite3 *db;
	bool is_made;
	struct safe_head head;
	struct seal_key check, mac;    /* as in the file */
	const struct seal_key *master; /* NULL: locked */
	struct table *table;           /* NULL: locked */
};

static const char schema[] =
	"CREATE TABLE IF NOT EXISTS vault(one INTEGER PRIMARY KEY CHECK (one = 1),"
	" format INTEGER NOT NULL, id BLOB NOT NULL, change INTEGER NOT NULL,"
	" key INTEGER NOT NULL, salt BLOB NOT NULL, test BLOB NOT NULL,"
	" mac BLOB NOT NULL);"
	"CREATE TABLE IF NOT EXISTS secret(tenant BLOB NOT NULL, name BLOB NOT NULL,"
	" kind INTEGER NOT NULL, PRIMARY KEY (tenant, name)) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS version(tenant BLOB NOT NULL, name BLOB NOT NULL,"
	" version INTEGER NOT NULL, created INTEGER NOT NULL,"
	" expires INTEGER NOT NULL, retires INTEGER NOT NULL, wrapped BLOB NOT NULL,"
	" sealed BLOB NOT NULL, PRIMARY KEY (tenant, name, version)) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS permit(tenant BLOB NOT NULL, name BLOB NOT NULL,"
	" connector BLOB NOT NULL, user BLOB NOT NULL,"
	" PRIMARY KEY (tenant, name, connector, user)) WITHOUT ROWID;";

/* The vault's own row. */

static bool
take_bytes(sqlite3_stmt *q, int column, void *to, size_t n)
{
	struct str s = sql_get_bytes(q, column);

	if (s.n != n)
		return false;
	memcpy(to, s.p, n);
	return true;
}

static enum status
take_head(struct safe *s, sqlite3_stmt *q)
{
	uint64_t format = sql_get_u64(q, 0), key = sql_get_u64(q, 3);
	struct safe_head *h = &s->head;

	if (format != FORMAT || key >= VAULT_KEY_COUNT ||
	    !take_bytes(q, 1, h->id, sizeof h->id) ||
	    !take_bytes(q, 4, h->salt, sizeof h->salt) ||
	    !take_bytes(q, 5, s->check.b, sizeof s->check.b) ||
	    !take_bytes(q, 6, s->mac.b, sizeof s->mac.b))
		return ST_VAULT_DAMAGED;
	h->change = sql_get_u64(q, 2);
	h->key = (enum vault_key)key;
	s->is_made = true;
	return ST_OK;
}

static enum status
read_head(struct safe *s)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db, "SELECT format, id, change, key, salt, test, mac FROM vault",
		&q);

	if (st == ST_OK)
		st = sql_next(q);
	if (st == ST_END)
		return ST_OK; /* nothing made yet */
	return st == ST_OK ? take_head(s, q) : st;
}

/* What the mac covers of it. */
static void
put_head(struct buf *b, const struct safe_head *h, const struct seal_key *check)
{
	buf_put_u8(b, FORMAT);
	buf_put(b, str_of(h->id, sizeof h->id));
	buf_put_u64(b, h->change);
	buf_put_u8(b, (uint8_t)h->key);
	buf_put(b, str_of(h->salt, sizeof h->salt));
	buf_put(b, str_of(check->b, sizeof check->b));
}

static enum status
write_head(struct safe *s, const struct safe_head *h, const struct seal_key *check,
	   const struct seal_key *mac)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db, "INSERT OR REPLACE INTO vault VALUES(1, ?, ?, ?, ?, ?, ?, ?)",
		&q);

	if (st != ST_OK)
		return st;
	sql_u64(q, 1, FORMAT);
	sql_bytes(q, 2, str_of(h->id, sizeof h->id));
	sql_u64(q, 3, h->change);
	sql_u64(q, 4, (uint64_t)h->key);
	sql_bytes(q, 5, str_of(h->salt, sizeof h->salt));
	sql_bytes(q, 6, str_of(check->b, sizeof check->b));
	sql_bytes(q, 7, str_of(mac->b, sizeof mac->b));
	return sql_run(q);
}

static enum status
load(struct safe *s, const struct safe_head *h, const struct seal_key *check,
     const struct seal_key *master, struct seal_key *ret_mac, struct table **ret_t)
{
	CLEANUP(seal_key_done) struct seal_key file = { 0 };
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str head;

	buf_init(&b, HEAD_MAX);
	put_head(&b, h, check);
	enum status st = buf_finish(&b, &head);
	if (st == ST_OK)
		st = seal_derive(master, SEAL_FILE, &file);
	return st == ST_OK ? table_load(s->db, &file, head, ret_mac, ret_t) : st;
}

/* Opening. */

/* A file of another hand can't make us allocate at its will. */
static enum status
limit(sqlite3 *db)
{
	static const int limits[][2] = {
		{ SQLITE_LIMIT_LENGTH, 1 << 20 },
		{ SQLITE_LIMIT_SQL_LENGTH, 8192 },
		{ SQLITE_LIMIT_ATTACHED, 0 },
		{ SQLITE_LIMIT_COLUMN, 32 },
		{ SQLITE_LIMIT_EXPR_DEPTH, 32 },
		{ SQLITE_LIMIT_COMPOUND_SELECT, 4 },
		{ SQLITE_LIMIT_VARIABLE_NUMBER, 32 },
		{ SQLITE_LIMIT_TRIGGER_DEPTH, 1 },
		{ SQLITE_LIMIT_FUNCTION_ARG, 8 },
	};

	for (size_t i = 0; i < COUNT_OF(limits); i++)
		(void)sqlite3_limit(db, limits[i][0], limits[i][1]);
	return sql_exec(db, "PRAGMA secure_delete=ON");
}

enum status
safe_open(const char *path, struct safe **ret_s)
{
	struct safe *s = calloc(1, sizeof *s);
	enum status st = s == NULL ? ST_NOMEM : sql_open_writer(path, &s->db);

	if (st == ST_OK)
		st = limit(s->db);
	if (st == ST_OK)
		st = sql_exec(s->db, schema);
	if (st == ST_OK)
		st = read_head(s);
	if (st != ST_OK) {
		safe_free(s);
		return st;
	}
	*ret_s = s;
	return ST_OK;
}

void
safe_free(struct safe *s)
{
	if (s == NULL)
		return;
	safe_lock(s);
	(void)sqlite3_close(s->db);
	free(s);
}

const struct safe_head *
safe_head(const struct safe *s)
{
	return s->is_made ? &s->head : NULL;
}

const struct table *
safe_table(const struct safe *s)
{
	return s->table;
}

void
safe_lock(struct safe *s)
{
	table_free(s->table);
	s->table = NULL;
	s->master = NULL;
}

enum status
safe_unlock(struct safe *s, const struct seal_key *master)
{
	struct seal_key check = { 0 }, mac = { 0 };
	struct table *t = NULL;

	need(s->is_made && s->table == NULL);
	enum status st = seal_derive(master, SEAL_CHECK, &check);
	if (st == ST_OK && !seal_key_eq(&check, &s->check))
		st = ST_BAD_PASSPHRASE;
	if (st == ST_OK)
		st = load(s, &s->head, &check, master, &mac, &t);
	if (st == ST_OK && !seal_key_eq(&mac, &s->mac))
		st = ST_VAULT_DAMAGED;
	if (st != ST_OK) {
		table_free(t);
		return st;
	}
	s->table = t;
	s->master = master;
	return ST_OK;
}

/* Changing. */

enum status
safe_begin(struct safe *s)
{
	return sql_begin(s->db);
}

/* With another key or not: the rows as they are now, their mac, the row of the vault. */
static enum status
commit(struct safe *s, const struct safe_head *h, const struct seal_key *master)
{
	struct seal_key check = { 0 }, mac = { 0 };
	struct table *t = NULL;
	enum status st = seal_derive(master, SEAL_CHECK, &check);

	if (st == ST_OK)
		st = load(s, h, &check, master, &mac, &t);
	if (st == ST_OK)
		st = write_head(s, h, &check, &mac);
	if (st == ST_OK)
		st = sql_exec(s->db, "COMMIT");
	if (st != ST_OK) {
		table_free(t);
		return st;
	}
	safe_lock(s);
	s->head = *h;
	s->check = check;
	s->mac = mac;
	s->is_made = true;
	s->table = t;
	s->master = master;
	/* So that no older page, with data keys that went, stays in the log beside the
	 * file; what is not done now is done next time. */
	(void)!sql_exec(s->db, "PRAGMA wal_checkpoint(TRUNCATE)");
	return ST_OK;
}

static enum status
finish(struct safe *s, enum status st, const struct safe_head *h,
       const struct seal_key *master)
{
	if (st == ST_OK)
		st = commit(s, h, master);
	if (st != ST_OK)
		(void)!sql_rollback(s->db);
	return st;
}

enum status
safe_end(struct safe *s, enum status st)
{
	struct safe_head next = s->head;

	need(s->master != NULL);
	next.change++;
	return finish(s, st, &next, s->master);
}

enum status
safe_make(struct safe *s, const struct safe_head *head, const struct seal_key *master)
{
	struct safe_head h = *head;

	if (s->is_made)
		return ST_CONFLICT;
	if (getrandom(h.id, sizeof h.id, 0) != sizeof h.id)
		return ST_SYSTEM;
	h.change = 1;
	enum status st = safe_begin(s);
	return st == ST_OK ? finish(s, ST_OK, &h, master) : st;
}

static void
bind_key(sqlite3_stmt *q, const struct table_entry *e)
{
	sql_bytes(q, 1, e->tenant);
	sql_bytes(q, 2, e->name);
}

enum status
safe_add_secret(struct safe *s, const struct table_entry *e)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(s->db, "INSERT INTO secret VALUES(?, ?, ?)", &q);

	if (st != ST_OK)
		return st;
	bind_key(q, e);
	sql_u64(q, 3, e->kind);
	return sql_run(q);
}

static enum status
insert_version(struct safe *s, const struct table_entry *e,
	       const struct table_version *v, const struct envelope_new *sealed)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db, "INSERT INTO version VALUES(?, ?, ?, ?, ?, ?, ?, ?)", &q);

	if (st != ST_OK)
		return st;
	bind_key(q, e);
	sql_u64(q, 3, v->number);
	sql_u64(q, 4, v->created);
	sql_u64(q, 5, v->expires);
	sql_u64(q, 6, v->retires);
	sql_bytes(q, 7, str_of(sealed->wrapped, sizeof sealed->wrapped));
	sql_bytes(q, 8, str_of(sealed->sealed, sealed->sealed_n));
	return sql_run(q);
}

enum status
safe_add_version(struct safe *s, const struct table_entry *e,
		 const struct table_version *v, struct str value)
{
	const struct envelope_place place = table_place(e, v);
	struct envelope_new sealed;
	enum status st = envelope_close(s->master, &place, value, &sealed);

	return st == ST_OK ? insert_version(s, e, v, &sealed) : st;
}

enum status
safe_retire(struct safe *s, const struct table_entry *e, uint32_t number,
	    uint64_t until)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	const char *text =
		until == 0 ? "DELETE FROM version WHERE tenant = ? AND name = ? AND "
			     "version < ?"
			   : "UPDATE version SET retires = ?4 WHERE tenant = ?1 AND "
			     "name = ?2 AND version < ?3 AND (retires = 0 OR retires > "
			     "?4)";
	enum status st = sql_prepare(s->db, text, &q);

	if (st != ST_OK)
		return st;
	bind_key(q, e);
	sql_u64(q, 3, number);
	if (until != 0)
		sql_u64(q, 4, until);
	return sql_run(q);
}

enum status
safe_purge(struct safe *s, uint64_t now)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db, "DELETE FROM version WHERE retires > 0 AND retires <= ?", &q);

	if (st != ST_OK)
		return st;
	sql_u64(q, 1, now);
	return sql_run(q);
}

enum status
safe_remove(struct safe *s, const struct table_entry *e)
{
	static const char *const texts[] = {
		"DELETE FROM permit WHERE tenant = ? AND name = ?",
		"DELETE FROM version WHERE tenant = ? AND name = ?",
		"DELETE FROM secret WHERE tenant = ? AND name = ?",
	};
	enum status st = ST_OK;

	for (size_t i = 0; i < COUNT_OF(texts) && st == ST_OK; i++) {
		CLEANUP(sql_done) sqlite3_stmt *q = NULL;
		st = sql_prepare(s->db, texts[i], &q);
		if (st != ST_OK)
			return st;
		bind_key(q, e);
		st = sql_run(q);
	}
	return st;
}

enum status
safe_permit(struct safe *s, const struct table_entry *e, const struct table_grant *g,
	    bool is_taken_back)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db,
		is_taken_back ? "DELETE FROM permit WHERE tenant = ? AND name = ? AND "
				"connector = ? AND user = ?"
			      : "INSERT OR IGNORE INTO permit VALUES(?, ?, ?, ?)",
		&q);

	if (st != ST_OK)
		return st;
	bind_key(q, e);
	sql_bytes(q, 3, g->connector);
	sql_bytes(q, 4, g->user);
	return sql_run(q);
}

/* Another master key. */

static enum status
rewrap(struct safe *s, const struct seal_key *to, const struct table_entry *e,
       const struct table_version *v)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	const struct envelope_place place = table_place(e, v);
	struct envelope_new made;
	enum status st = envelope_rewrap(s->master, to, &place, &v->envelope, &made);

	if (st == ST_OK)
		st = sql_prepare(
			s->db,
			"UPDATE version SET wrapped = ?4 WHERE tenant = ?1 AND "
			"name = ?2 AND version = ?3",
			&q);
	if (st != ST_OK)
		return st;
	bind_key(q, e);
	sql_u64(q, 3, v->number);
	sql_bytes(q, 4, str_of(made.wrapped, sizeof made.wrapped));
	return sql_run(q);
}

static enum status
rewrap_all(struct safe *s, const struct seal_key *to)
{
	enum status st = ST_OK;

	for (size_t i = 0; i < table_size(s->table) && st == ST_OK; i++) {
		const struct table_entry *e = table_at(s->table, i);
		for (size_t k = 0; k < e->versions_n && st == ST_OK; k++)
			st = rewrap(s, to, e, &e->versions[k]);
	}
	return st;
}

enum status
safe_rekey(struct safe *s, const struct safe_head *head, const struct seal_key *master)
{
	struct safe_head next = s->head;

	need(s->master != NULL);
	next.change++;
	next.key = head->key;
	memcpy(next.salt, head->salt, sizeof next.salt);
	enum status st = safe_begin(s);
	if (st != ST_OK)
		return st;
	return finish(s, rewrap_all(s, master), &next, master);
}

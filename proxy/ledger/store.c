#include "proxy/ledger/store.h"

#include <string.h>

#include "proxy/base/clock.h"

/* Far more than any ledger ever counts, with room to count on. */
#define COUNT_MAX ((uint64_t)INT64_MAX / 2)

static const char schema[] =
	"CREATE TABLE IF NOT EXISTS rows(seq INTEGER PRIMARY KEY, id INTEGER,"
	" denial INTEGER, sandbox BLOB, payload BLOB, digest BLOB NOT NULL,"
	" link BLOB NOT NULL, erased INTEGER) STRICT;"
	/* Of all rows it cost a fifth of storing them. */
	"CREATE INDEX IF NOT EXISTS rows_refused ON rows(id) WHERE denial = 1;"
	"CREATE TABLE IF NOT EXISTS segments(segment INTEGER PRIMARY KEY,"
	" first_seq INTEGER NOT NULL, prev_link BLOB NOT NULL, opened INTEGER NOT NULL,"
	" last_seq INTEGER, last_link BLOB, closed INTEGER,"
	" dropped INTEGER NOT NULL DEFAULT 0) STRICT;"
	"CREATE TABLE IF NOT EXISTS heads(seq INTEGER PRIMARY KEY, segment INTEGER NOT "
	"NULL,"
	" is_end INTEGER NOT NULL, link BLOB NOT NULL, signature BLOB NOT NULL,"
	" key BLOB NOT NULL) STRICT;"
	"CREATE TABLE IF NOT EXISTS shares(segment INTEGER NOT NULL, sandbox BLOB NOT "
	"NULL,"
	" bytes INTEGER NOT NULL, PRIMARY KEY(segment, sandbox)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS consumed(slot INTEGER PRIMARY KEY,"
	" digest BLOB NOT NULL) STRICT;"
	"CREATE TABLE IF NOT EXISTS pending(sandbox BLOB PRIMARY KEY, second INTEGER "
	"NOT NULL,"
	" count INTEGER NOT NULL, code BLOB NOT NULL) STRICT, WITHOUT ROWID;"
	"PRAGMA application_id=1396786289;"
	"PRAGMA user_version=1;";

static enum status
open_segment(struct store *s)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db,
		"INSERT INTO segments(segment, first_seq, prev_link, opened)"
		" VALUES(?, ?, ?, ?)",
		&q);

	if (st != ST_OK)
		return st;
	s->now.segment++;
	s->now.first = s->now.seq + 1;
	s->now.opened = clock_wall_us();
	sql_u64(q, 1, s->now.segment);
	sql_u64(q, 2, s->now.first);
	sql_bytes(q, 3, chain_str(&s->now.link));
	sql_u64(q, 4, s->now.opened);
	return sql_run(q);
}

/* Where the chain stands according to the file; a new file gets its first segment. */
static enum status
load_segment(struct store *s)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st =
		sql_prepare(s->db,
			    "SELECT segment, first_seq, prev_link, opened FROM segments"
			    " ORDER BY segment DESC LIMIT 1",
			    &q);

	if (st != ST_OK)
		return st;
	st = sql_next(q);
	if (st == ST_END)
		return open_segment(s);
	if (st != ST_OK)
		return st;
	s->now.segment = sql_get_u64(q, 0);
	s->now.first = sql_get_u64(q, 1);
	s->now.opened = sql_get_u64(q, 3);
	s->now.seq = s->now.first == 0 ? 0 : s->now.first - 1;
	return chain_from(sql_get_bytes(q, 2), &s->now.link) ? ST_OK : ST_BAD_MESSAGE;
}

static enum status
load_last_row(struct store *s)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db, "SELECT seq, link FROM rows ORDER BY seq DESC LIMIT 1", &q);

	if (st != ST_OK)
		return st;
	st = sql_next(q);
	if (st != ST_OK)
		return st == ST_END ? ST_OK : st;
	if (sql_get_u64(q, 0) < s->now.first)
		return ST_OK;
	s->now.seq = sql_get_u64(q, 0);
	return chain_from(sql_get_bytes(q, 1), &s->now.link) ? ST_OK : ST_BAD_MESSAGE;
}

static enum status
prepare(struct store *s)
{
	enum status st = sql_exec(s->db, schema);

	if (st == ST_OK)
		st = sql_prepare(s->db,
				 "INSERT INTO rows(seq, id, denial, sandbox, payload, "
				 "digest, link)"
				 " VALUES(?, ?, ?, ?, ?, ?, ?)",
				 &s->insert);
	if (st == ST_OK)
		st = sql_prepare(
			s->db,
			"INSERT INTO consumed(slot, digest) VALUES(?, ?) ON CONFLICT"
			" DO UPDATE SET digest = excluded.digest",
			&s->consume);
	if (st == ST_OK)
		st = load_segment(s);
	if (st == ST_OK)
		st = load_last_row(s);
	/* Nobody counts so far: a file that says so was tampered with. */
	if (st == ST_OK && (s->now.seq > COUNT_MAX || s->now.segment > COUNT_MAX))
		st = ST_BAD_MESSAGE;
	s->committed = s->now;
	return st;
}

enum status
store_open(struct store *s, const char *dir, uint8_t slot)
{
	CLEANUP(buf_done) struct buf path = { 0 };

	*s = (struct store){ .ids = { .slot = slot } };
	s->limits = (struct store_limits){ 100000, INT64_MAX / 1000, INT64_MAX };
	buf_init(&path, 4200);
	buf_putf(&path, "%s/ledger.db", dir);
	if (buf_cstr(&path) == NULL)
		return ST_TOO_BIG;
	enum status st = chain_hasher_init(&s->hasher);
	if (st == ST_OK)
		st = sql_open_writer(buf_cstr(&path), &s->db);
	if (st == ST_OK)
		st = prepare(s);
	if (st != ST_OK)
		store_close(s);
	return st;
}

void
store_close(struct store *s)
{
	if (s->is_open)
		store_rollback(s);
	sql_done(&s->insert);
	sql_done(&s->consume);
	chain_hasher_done(&s->hasher);
	(void)sqlite3_close(s->db);
	s->db = NULL;
}

enum status
store_begin(struct store *s)
{
	need(!s->is_open);
	enum status st = sql_begin(s->db);
	s->is_open = st == ST_OK;
	return st;
}

void
store_rollback(struct store *s)
{
	(void)!sql_rollback(s->db);
	s->is_open = false;
	s->now = s->committed;
}

enum status
store_commit(struct store *s)
{
	need(s->is_open);
	enum status st = sql_exec(s->db, "COMMIT");
	if (st != ST_OK) {
		store_rollback(s);
		return st;
	}
	s->is_open = false;
	s->committed = s->now;
	return ST_OK;
}

static enum status
append(struct store *s, struct str bytes, const struct row *r)
{
	struct chain_hash digest = chain_hasher_digest(&s->hasher, bytes);
	struct chain_hash link =
		chain_hasher_link(&s->hasher, &s->now.link, s->now.seq + 1, &digest);
	sqlite3_stmt *q = s->insert;

	need(s->is_open);
	sql_u64(q, 1, s->now.seq + 1);
	need(sqlite3_bind_int64(q, 2, chain_sql_id(r->id)) == SQLITE_OK);
	sql_u64(q, 3, row_is_refusal(r));
	sql_bytes(q, 4, r->sandbox);
	sql_bytes(q, 5, bytes);
	sql_bytes(q, 6, chain_str(&digest));
	sql_bytes(q, 7, chain_str(&link));
	enum status st = sql_run(q);
	(void)sqlite3_clear_bindings(q);
	if (st != ST_OK)
		return st;
	s->now.seq++;
	s->now.link = link;
	return ST_OK;
}

/* How much of the segment is refusals, by sandbox: retention asks when room is short.
 */
static enum status
put_shares(struct store *s)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db,
		"INSERT INTO shares(segment, sandbox, bytes)"
		" SELECT ?, sandbox, sum(length(payload)) FROM rows WHERE seq BETWEEN "
		"? AND ?"
		" AND denial = 1 AND sandbox IS NOT NULL AND payload IS NOT NULL"
		" GROUP BY sandbox",
		&q);

	if (st != ST_OK)
		return st;
	sql_u64(q, 1, s->now.segment);
	sql_u64(q, 2, s->now.first);
	sql_u64(q, 3, s->now.seq);
	return sql_run(q);
}

static enum status
end_segment(struct store *s)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db,
		"UPDATE segments SET last_seq = ?, last_link = ?, closed = ?"
		" WHERE segment = ?",
		&q);

	if (st != ST_OK)
		return st;
	sql_u64(q, 1, s->now.seq);
	sql_bytes(q, 2, chain_str(&s->now.link));
	sql_u64(q, 3, clock_wall_us());
	sql_u64(q, 4, s->now.segment);
	return sql_run(q);
}

static enum status
note(struct store *s, struct row *r)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str bytes;

	r->id = row_next_id(&s->ids);
	r->turn = r->id;
	r->time_us = clock_wall_us();
	r->generation = s->generation;
	buf_init(&b, ROW_MAX);
	row_put(&b, r);
	enum status st = buf_finish(&b, &bytes);
	return st == ST_OK ? append(s, bytes, r) : st;
}

enum status
store_cut(struct store *s)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct row r = { .kind = ROW_SEGMENT };

	if (s->now.seq < s->now.first)
		return ST_OK;
	buf_init(&b, 200);
	buf_putf(&b, "segment %llu closed at row %llu",
		 (unsigned long long)s->now.segment, (unsigned long long)s->now.seq);
	enum status st = put_shares(s);
	if (st == ST_OK)
		st = end_segment(s);
	if (st == ST_OK)
		st = open_segment(s);
	if (st == ST_OK)
		st = buf_finish(&b, &r.detail);
	return st == ST_OK ? note(s, &r) : st;
}

static enum status
cut_if_full(struct store *s)
{
	if (s->now.seq + 1 - s->now.first < s->limits.segment_rows)
		return ST_OK;
	return store_cut(s);
}

enum status
store_add(struct store *s, struct str bytes, const struct row *r)
{
	enum status st = append(s, bytes, r);

	return st == ST_OK ? cut_if_full(s) : st;
}

enum status
store_note(struct store *s, struct row *r)
{
	enum status st = note(s, r);

	return st == ST_OK ? cut_if_full(s) : st;
}

enum status
store_consumed(struct store *s, uint8_t slot, const struct chain_hash *digest)
{
	need(s->is_open);
	sql_u64(s->consume, 1, slot);
	sql_bytes(s->consume, 2, chain_str(digest));
	return sql_run(s->consume);
}

bool
store_last_consumed(struct store *s, uint8_t slot, struct chain_hash *ret_digest)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;

	if (sql_prepare(s->db, "SELECT digest FROM consumed WHERE slot = ?", &q) !=
	    ST_OK)
		return false;
	sql_u64(q, 1, slot);
	return sql_next(q) == ST_OK && chain_from(sql_get_bytes(q, 0), ret_digest);
}

/* One row against the link before it; what was erased has only its digest left. */
static bool
row_fits(sqlite3_stmt *q, const struct chain_hash *prev, uint64_t seq,
	 struct chain_hash *ret_link)
{
	struct chain_hash digest, link;

	if (sql_get_u64(q, 0) != seq || !chain_from(sql_get_bytes(q, 2), &digest) ||
	    !chain_from(sql_get_bytes(q, 3), &link))
		return false;
	if (!sql_is_null(q, 1)) {
		struct chain_hash real = chain_digest(sql_get_bytes(q, 1));
		if (!chain_eq(&real, &digest))
			return false;
	}
	*ret_link = chain_link(prev, seq, &digest);
	return chain_eq(ret_link, &link);
}

enum { TAIL_ROWS = 2000 };

bool
store_tail_fits(struct store *s, uint64_t *ret_seq)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	uint64_t from = s->now.seq > TAIL_ROWS ? s->now.seq - TAIL_ROWS : 1;
	struct chain_hash prev = { { 0 } };

	if (s->now.seq < s->now.first)
		return true;
	from = from < s->now.first ? s->now.first : from;
	*ret_seq = from;
	if (sql_prepare(s->db,
			"SELECT seq, payload, digest, link FROM rows WHERE seq >= ?"
			" ORDER BY seq",
			&q) != ST_OK)
		return false;
	sql_u64(q, 1, from);
	/* The first of them is only where the walk starts. */
	if (sql_next(q) != ST_OK || sql_get_u64(q, 0) != from ||
	    !chain_from(sql_get_bytes(q, 3), &prev))
		return false;
	for (uint64_t seq = from + 1; seq <= s->now.seq; seq++) {
		*ret_seq = seq;
		if (sql_next(q) != ST_OK || !row_fits(q, &prev, seq, &prev))
			return false;
	}
	return true;
}

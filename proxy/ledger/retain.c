#include "proxy/ledger/retain.h"

#include <string.h>

enum {
	SHARE = 4,      /* a sandbox's refusals may fill one part in so many */
	CUT_ROWS = 100, /* fewer aren't worth a segment: cuts and drops are rows too */
};

struct span { /* a closed segment */
	uint64_t segment, first, last;
};

static enum status
count(struct store *s, const char *text, uint64_t *ret_v)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(s->db, text, &q);

	if (st == ST_OK)
		st = sql_next(q);
	if (st == ST_OK)
		*ret_v = sql_get_u64(q, 0);
	return st;
}

/* Bytes in use; pages that deletion left free don't count. */
static enum status
used(struct store *s, uint64_t *ret_bytes)
{
	uint64_t pages = 0, idle = 0, size = 0;
	enum status st = count(s, "PRAGMA page_count", &pages);

	if (st == ST_OK)
		st = count(s, "PRAGMA freelist_count", &idle);
	if (st == ST_OK)
		st = count(s, "PRAGMA page_size", &size);
	if (st == ST_OK)
		*ret_bytes = (pages - idle) * size;
	return st;
}

static enum status
run_on(struct store *s, const char *text, uint64_t a, uint64_t b)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(s->db, text, &q);

	if (st != ST_OK)
		return st;
	sql_u64(q, 1, a);
	if (sqlite3_bind_parameter_count(q) > 1)
		sql_u64(q, 2, b);
	return sql_run(q);
}

/* The oldest closed segment that still has its rows; ST_END: there is none. */
static enum status
oldest(struct store *s, struct span *ret_span, uint64_t *ret_closed)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st =
		sql_prepare(s->db,
			    "SELECT segment, first_seq, last_seq, closed FROM segments"
			    " WHERE dropped = 0 AND last_seq IS NOT NULL"
			    " ORDER BY segment LIMIT 1",
			    &q);

	if (st == ST_OK)
		st = sql_next(q);
	if (st != ST_OK)
		return st;
	*ret_span = (struct span){ sql_get_u64(q, 0), sql_get_u64(q, 1),
				   sql_get_u64(q, 2) };
	*ret_closed = sql_get_u64(q, 3);
	return ST_OK;
}

static enum status
say(struct store *s, enum row_kind kind, struct str sandbox,
    const struct chain_erasure *e)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct row r = { .kind = kind, .sandbox = sandbox };

	buf_init(&b, 256);
	chain_put_erasure(&b, e);
	enum status st = buf_finish(&b, &r.detail);
	return st == ST_OK ? store_note(s, &r) : st;
}

static enum status
drop(struct store *s, const struct span *x)
{
	const struct chain_erasure e = { .segment = x->segment };
	enum status st = say(s, ROW_DROPPED, STR(""), &e);

	if (st == ST_OK)
		st = run_on(s, "DELETE FROM rows WHERE seq BETWEEN ? AND ?", x->first,
			    x->last);
	if (st == ST_OK)
		st = run_on(s, "UPDATE segments SET dropped = 1 WHERE segment = ?",
			    x->segment, 0);
	if (st == ST_OK)
		st = run_on(s, "DELETE FROM shares WHERE segment = ?", x->segment, 0);
	return st;
}

/* Who refused the most: its name and oldest segment, if it is over its share. */
static enum status
noisiest(struct store *s, struct buf *name, struct span *ret_span)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db,
		"SELECT x.sandbox, g.segment, g.first_seq, g.last_seq FROM"
		" (SELECT sandbox, sum(bytes) AS total, min(segment) AS segment FROM "
		"shares"
		"  GROUP BY sandbox ORDER BY total DESC LIMIT 1) AS x"
		" JOIN segments AS g ON g.segment = x.segment WHERE x.total > ?",
		&q);
	struct str view;

	if (st != ST_OK)
		return st;
	sql_u64(q, 1, s->limits.max_size / SHARE);
	st = sql_next(q);
	if (st != ST_OK)
		return st;
	buf_put(name, sql_get_bytes(q, 0));
	*ret_span = (struct span){ sql_get_u64(q, 1), sql_get_u64(q, 2),
				   sql_get_u64(q, 3) };
	return buf_finish(name, &view);
}

static enum status
list_of(struct store *s, const struct span *x, struct str sandbox,
	struct chain_erasure *e)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(s->db,
				     "SELECT seq FROM rows WHERE seq BETWEEN ? AND ?"
				     " AND denial = 1 AND sandbox = ? ORDER BY seq",
				     &q);

	if (st != ST_OK)
		return st;
	sql_u64(q, 1, x->first);
	sql_u64(q, 2, x->last);
	sql_bytes(q, 3, sandbox);
	while ((st = sql_next(q)) == ST_OK) {
		chain_fold(&e->list, sql_get_u64(q, 0));
		e->count++;
	}
	return st == ST_END ? ST_OK : st;
}

static enum status
wipe(struct store *s, const struct span *x, struct str sandbox)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL, *share = NULL;
	enum status st = sql_prepare(
		s->db,
		"UPDATE rows SET payload = NULL, id = NULL, denial = NULL, sandbox = "
		"NULL,"
		" erased = ? WHERE seq BETWEEN ? AND ? AND denial = 1 AND sandbox = ?",
		&q);

	if (st == ST_OK)
		st = sql_prepare(s->db,
				 "DELETE FROM shares WHERE segment = ? AND sandbox = ?",
				 &share);
	if (st != ST_OK)
		return st;
	sql_u64(q, 1, s->now.seq + 1); /* the row that says so comes next */
	sql_u64(q, 2, x->first);
	sql_u64(q, 3, x->last);
	sql_bytes(q, 4, sandbox);
	sql_u64(share, 1, x->segment);
	sql_bytes(share, 2, sandbox);
	st = sql_run(q);
	return st == ST_OK ? sql_run(share) : st;
}

static enum status
erase(struct store *s, const struct span *x, struct str sandbox)
{
	struct chain_erasure e = { .segment = x->segment };
	enum status st = list_of(s, x, sandbox, &e);

	if (st == ST_OK)
		st = wipe(s, x, sandbox);
	return st == ST_OK ? say(s, ROW_ERASED, sandbox, &e) : st;
}

/* A gateway with little traffic must not keep rows for ever in an open segment. */
static bool
is_stale(const struct store *s, uint64_t now_us)
{
	return s->now.seq >= s->now.first && now_us > s->now.opened &&
	       now_us - s->now.opened > s->limits.max_age_ms * 1000 / 4;
}

static enum status
act(struct store *s, uint64_t now_us)
{
	CLEANUP(buf_done) struct buf name = { 0 };
	struct span x = { 0 };
	uint64_t closed = 0, bytes = 0;
	enum status st = oldest(s, &x, &closed);

	if (st == ST_OK && now_us > closed &&
	    now_us - closed > s->limits.max_age_ms * 1000)
		return drop(s, &x);
	if (st != ST_OK && st != ST_END)
		return st;
	if (is_stale(s, now_us))
		return store_cut(s);
	bool has_closed = st == ST_OK;
	st = used(s, &bytes);
	if (st != ST_OK)
		return st;
	if (bytes <= s->limits.max_size)
		return ST_END;
	if (!has_closed)
		return s->now.seq + 1 - s->now.first >= CUT_ROWS ? store_cut(s)
								 : ST_END;
	buf_init(&name, ROW_FIELD_MAX + 200);
	struct span noisy = { 0 };
	st = noisiest(s, &name, &noisy);
	if (st == ST_OK)
		return erase(s, &noisy, str_of(name.p, name.len));
	return st == ST_END ? drop(s, &x) : st;
}

enum status
retain_step(struct store *s, uint64_t now_us)
{
	enum status st = store_begin(s);

	if (st != ST_OK)
		return st;
	st = act(s, now_us);
	if (st != ST_OK) {
		store_rollback(s);
		return st;
	}
	st = store_commit(s);
	return st == ST_OK ? sql_exec(s->db, "PRAGMA incremental_vacuum(2000)") : st;
}

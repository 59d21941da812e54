#include "proxy/cli/ledger_verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "proxy/cli/ledger_walk.h"
#include "proxy/io/row.h"

/* How long a ledger may take from its key to the first signature: a commit. */
enum { AWAIT_MS = 3000, AWAIT_STEP_MS = 50 };

struct segment {
	uint64_t number, first, last; /* last 0: open */
	struct chain_hash prev, end;
	bool is_dropped;
};

bool
walk_misfit(struct walk *w, uint64_t first, uint64_t last, const char *fmt, ...)
{
	va_list ap;

	if (!w->r->is_whole)
		return false;
	va_start(ap, fmt);
	(void)vsnprintf(w->r->what, sizeof w->r->what, fmt, ap);
	va_end(ap);
	w->r->is_whole = false;
	w->r->first = first;
	w->r->last = last < first ? first : last;
	return false;
}

/* The next signed place; one that isn't signed by the keeper is a misfit at once. */
static bool
next_head(struct walk *w)
{
	uint64_t after = w->signed_to + 1;

	w->head = (struct head){ 0 };
	if (sql_next(w->heads) != ST_OK)
		return true;
	struct head h = { .seq = sql_get_u64(w->heads, 0),
			  .segment = sql_get_u64(w->heads, 1),
			  .is_end = sql_get_u64(w->heads, 2) == 1,
			  .is_there = true };
	struct str sig = sql_get_bytes(w->heads, 4), key = sql_get_bytes(w->heads, 5);
	if (!chain_from(sql_get_bytes(w->heads, 3), &h.link))
		return walk_misfit(w, after, h.seq,
				   "the signed head at row %llu is malformed",
				   LL(h.seq));
	if (!ledger_keys_has(&w->keys, key))
		return walk_misfit(
			w, after, h.seq,
			"the head at row %llu is signed with a key that is not in "
			"keeper.pub",
			LL(h.seq));
	if (!chain_is_signed(h.segment, &h.link, sig, key))
		return walk_misfit(
			w, after, h.seq,
			"the signature of the head at row %llu is not the keeper's",
			LL(h.seq));
	w->head = h;
	return true;
}

/* The chain stands at seq: is it what was signed there? */
static bool
meet_head(struct walk *w, uint64_t seq, uint64_t segment, const struct chain_hash *link)
{
	uint64_t after = w->signed_to + 1;

	/* Those before are of places inside a dropped segment. */
	while (w->head.is_there && w->head.seq < seq)
		if (!next_head(w))
			return false;
	if (!w->head.is_there || w->head.seq > seq)
		return true;
	if (w->head.segment != segment || !chain_eq(&w->head.link, link))
		return walk_misfit(w, after, seq,
				   "what was signed at row %llu is not what is there",
				   LL(seq));
	w->r->signatures++;
	w->signed_to = seq;
	return next_head(w);
}

static bool
columns_match(sqlite3_stmt *q, const struct row *r)
{
	return sqlite3_column_int64(q, 1) == chain_sql_id(r->id) &&
	       !sql_is_null(q, 1) && !sql_is_null(q, 2) &&
	       sql_get_u64(q, 2) == (row_is_refusal(r) ? 1 : 0) && !sql_is_null(q, 3) &&
	       str_eq(sql_get_bytes(q, 3), r->sandbox) && sql_is_null(q, 7);
}

static bool
payload_fits(struct walk *w, sqlite3_stmt *q, uint64_t seq,
	     const struct chain_hash *digest)
{
	struct str bytes = sql_get_bytes(q, 4);
	struct chain_hash real = chain_digest(bytes);
	struct row r;

	if (!chain_eq(&real, digest))
		return walk_misfit(w, seq, seq, "row %llu: its content was changed",
				   LL(seq));
	if (row_get(bytes, &r) == ST_OK && !columns_match(q, &r))
		return walk_misfit(w, seq, seq,
				   "row %llu: what it is found by was changed",
				   LL(seq));
	return true;
}

static bool
row_fits(struct walk *w, sqlite3_stmt *q, uint64_t seq, struct chain_hash *link)
{
	struct chain_hash digest, have;
	uint64_t number = sql_get_u64(q, 0);

	if (number != seq)
		return walk_misfit(w, seq, number > seq ? number - 1 : seq,
				   "row %llu is missing", LL(seq));
	if (!chain_from(sql_get_bytes(q, 5), &digest) ||
	    !chain_from(sql_get_bytes(q, 6), &have))
		return walk_misfit(w, seq, seq, "row %llu: its hashes are malformed",
				   LL(seq));
	if (!sql_is_null(q, 4)) {
		if (!payload_fits(w, q, seq, &digest))
			return false;
	} else if (sql_is_null(q, 7) || !sql_is_null(q, 1) || !sql_is_null(q, 2) ||
		   !sql_is_null(q, 3)) {
		return walk_misfit(w, seq, seq, "row %llu: its content is gone",
				   LL(seq));
	} else {
		w->r->erased++;
	}
	*link = chain_link(link, seq, &digest);
	if (!chain_eq(link, &have))
		return walk_misfit(w, seq, seq,
				   "row %llu does not follow the row before it",
				   LL(seq));
	return true;
}

/* The row that tells of an erasure or a drop; false when there is none such. */
static bool
get_record(struct walk *w, uint64_t seq, enum row_kind kind,
	   struct chain_erasure *ret_e)
{
	struct row r;
	bool ok = false;

	(void)sqlite3_reset(w->row);
	sql_u64(w->row, 1, seq);
	if (sql_next(w->row) != ST_OK)
		return false;
	if (row_get(sql_get_bytes(w->row, 0), &r) == ST_OK && r.kind == kind)
		ok = chain_get_erasure(r.detail, ret_e);
	(void)sqlite3_reset(w->row);
	return ok;
}

static bool
erasure_fits(struct walk *w, uint64_t record, uint64_t first, uint64_t last,
	     const struct chain_erasure *found)
{
	struct chain_erasure e;

	if (record == 0 || (record > last && get_record(w, record, ROW_ERASED, &e) &&
			    e.count == found->count && chain_eq(&e.list, &found->list)))
		return true;
	return walk_misfit(
		w, first, last,
		"rows from %llu to %llu lost content, and row %llu does not say so",
		LL(first), LL(last), LL(record));
}

/* Rows without content, by the row that is said to tell of them.  After the walk: only
 * then is it known that those rows are what was written. */
static bool
erasures_fit(struct walk *w)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	struct chain_erasure found = { 0 };
	uint64_t record = 0, first = 0, last = 0;

	if (sql_prepare(w->db,
			"SELECT erased, seq FROM rows WHERE erased IS NOT NULL"
			" ORDER BY erased, seq",
			&q) != ST_OK)
		return walk_misfit(w, 1, w->r->tip.seq, "the rows can't be read");
	while (sql_next(q) == ST_OK) {
		if (sql_get_u64(q, 0) != record) {
			if (!erasure_fits(w, record, first, last, &found))
				return false;
			record = sql_get_u64(q, 0);
			first = sql_get_u64(q, 1);
			found = (struct chain_erasure){ 0 };
		}
		last = sql_get_u64(q, 1);
		found.count++;
		chain_fold(&found.list, last);
	}
	return erasure_fits(w, record, first, last, &found);
}

/* From the end of the segment before; the last row of an open one is where it ends. */
static bool
walk_rows(struct walk *w, const struct segment *g)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	struct chain_hash link = g->prev;
	uint64_t seq = g->first, to = g->last == 0 ? INT64_MAX : g->last;

	if (sql_prepare(w->db,
			"SELECT seq, id, denial, sandbox, payload, digest, link, erased"
			" FROM rows WHERE seq BETWEEN ? AND ? ORDER BY seq",
			&q) != ST_OK)
		return walk_misfit(w, seq, to, "the rows can't be read");
	sql_u64(q, 1, g->first);
	sql_u64(q, 2, to);
	enum status st;
	while ((st = sql_next(q)) == ST_OK) {
		if (!row_fits(w, q, seq, &link) || !meet_head(w, seq, g->number, &link))
			return false;
		w->r->rows++;
		w->r->tip = (struct verify_place){ seq, link };
		seq++;
	}
	if (st != ST_END)
		return walk_misfit(w, seq, to, "the rows from %llu on can't be read",
				   LL(seq));
	if (g->last != 0 && seq != g->last + 1)
		return walk_misfit(w, seq, g->last, "row %llu is missing", LL(seq));
	if (g->last != 0 && !chain_eq(&link, &g->end))
		return walk_misfit(w, w->signed_to + 1, g->last,
				   "segment %llu does not end as it says",
				   LL(g->number));
	return true;
}

/* A dropped segment: its ends stay, its rows may not. */
static bool
walk_dropped(struct walk *w, const struct segment *g)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;

	if (w->r->dropped != w->r->segments - 1)
		return walk_misfit(w, g->first, g->last,
				   "segment %llu was dropped, but older ones were not",
				   LL(g->number));
	if (sql_prepare(w->db, "SELECT 1 FROM rows WHERE seq BETWEEN ? AND ? LIMIT 1",
			&q) != ST_OK)
		return walk_misfit(w, g->first, g->last, "the rows can't be read");
	sql_u64(q, 1, g->first);
	sql_u64(q, 2, g->last);
	if (sql_next(q) != ST_END)
		return walk_misfit(w, g->first, g->last,
				   "segment %llu was dropped, but has rows",
				   LL(g->number));
	w->r->dropped++;
	w->r->tip = (struct verify_place){ g->last, g->end };
	return meet_head(w, g->last, g->number, &g->end);
}

static bool
segment_joins(struct walk *w, const struct segment *g, bool was_open)
{
	const struct verify_place *tip = &w->r->tip;

	if (was_open || g->number != w->r->segments || g->first != tip->seq + 1 ||
	    !chain_eq(&g->prev, &tip->link))
		return walk_misfit(w, tip->seq + 1, g->first,
				   "segment %llu does not join the one before it",
				   LL(g->number));
	if (g->is_dropped && g->last < g->first)
		return walk_misfit(w, g->first, g->first, "segment %llu has no end",
				   LL(g->number));
	return true;
}

/* Ends are signed in order, so one without a signature before a signed place lost it.
 */
static bool
end_is_signed(struct walk *w, const struct segment *g, bool is_open)
{
	if (is_open || g->is_dropped || g->last > w->last_head ||
	    w->signed_to == g->last)
		return true;
	return walk_misfit(w, w->signed_to + 1, g->last,
			   "the signature of segment %llu is gone", LL(g->number));
}

static bool
walk_segment(struct walk *w, const struct segment *g, bool *was_open)
{
	w->r->segments++;
	if (!segment_joins(w, g, *was_open))
		return false;
	*was_open = g->last == 0;
	if (!(g->is_dropped ? walk_dropped(w, g) : walk_rows(w, g)))
		return false;
	return end_is_signed(w, g, *was_open);
}

/* The newest drop must be told by a row that is still there; older ones are before it.
 */
static bool
drops_are_told(struct walk *w, uint64_t segment, uint64_t last)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	struct chain_erasure e;
	struct row r;

	if (segment == 0)
		return true;
	if (sql_prepare(w->db,
			"SELECT payload FROM rows WHERE payload IS NOT NULL"
			" ORDER BY seq",
			&q) != ST_OK)
		return walk_misfit(w, 1, last, "the rows can't be read");
	while (sql_next(q) == ST_OK)
		if (row_get(sql_get_bytes(q, 0), &r) == ST_OK &&
		    r.kind == ROW_DROPPED && chain_get_erasure(r.detail, &e) &&
		    e.segment == segment)
			return true;
	return walk_misfit(w, 1, last, "segment %llu was dropped, and no row says so",
			   LL(segment));
}

static bool
walk_all(struct walk *w)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	uint64_t dropped = 0, dropped_to = 0;
	bool was_open = false;

	if (sql_prepare(
		    w->db,
		    "SELECT segment, first_seq, prev_link, last_seq, last_link, dropped"
		    " FROM segments ORDER BY segment",
		    &q) != ST_OK)
		return walk_misfit(w, 1, 1, "the segments can't be read");
	while (sql_next(q) == ST_OK) {
		struct segment g = { .number = sql_get_u64(q, 0),
				     .first = sql_get_u64(q, 1),
				     .last = sql_get_u64(q, 3),
				     .is_dropped = sql_get_u64(q, 5) != 0 };
		if (!chain_from(sql_get_bytes(q, 2), &g.prev) ||
		    (g.last != 0 && !chain_from(sql_get_bytes(q, 4), &g.end)))
			return walk_misfit(w, w->r->tip.seq + 1, g.first,
					   "segment %llu is malformed", LL(g.number));
		if (!walk_segment(w, &g, &was_open))
			return false;
		dropped = g.is_dropped ? g.number : dropped;
		dropped_to = g.is_dropped ? g.last : dropped_to;
	}
	if (w->head.is_there)
		return walk_misfit(
			w, w->r->tip.seq + 1, w->head.seq,
			"rows up to %llu were signed; from %llu on they are missing",
			LL(w->head.seq), LL(w->r->tip.seq + 1));
	if (w->r->segments > 0 && !was_open)
		return walk_misfit(w, w->r->tip.seq + 1, w->r->tip.seq + 1,
				   "the open segment is missing");
	return drops_are_told(w, dropped, dropped_to);
}

/* Rows that belong to no segment. */
static bool
nothing_is_left(struct walk *w)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;

	if (sql_prepare(w->db, "SELECT min(seq), count(*) FROM rows", &q) != ST_OK ||
	    sql_next(q) != ST_OK)
		return walk_misfit(w, 1, 1, "the rows can't be read");
	if (sql_get_u64(q, 1) == w->r->rows)
		return true;
	return walk_misfit(w, sql_get_u64(q, 0), w->r->tip.seq,
			   "there are rows that belong to no segment");
}

static bool
note_line(void *ctx, const struct verify_place *p, bool is_signed)
{
	struct walk *w = ctx;

	w->was_signed = w->was_signed || is_signed;
	if (p != NULL && p->seq > w->logged_to)
		w->logged_to = p->seq;
	return true;
}

/*
 * A ledger that signs goes from its key to the row of heads, and then to heads.log: so
 * what must be in the database is read before it, and what must be there for it after.
 */
static enum status
prepare(struct walk *w, const char *dir)
{
	CLEANUP(sql_done) sqlite3_stmt *last = NULL;
	char path[4200];

	ledger_keys_load(&w->keys, dir);
	w->had_key = w->keys.n > 0;
	(void)ledger_places_each(dir, note_line, w);
	(void)snprintf(path, sizeof path, "%s/ledger.db", dir);
	enum status st = sql_open_reader(path, &w->db);
	/* One transaction: a running ledger goes on writing, we see one moment. */
	if (st == ST_OK)
		st = sql_exec(w->db, "BEGIN");
	if (st == ST_OK)
		st = sql_prepare(w->db, "SELECT max(seq) FROM heads", &last);
	if (st == ST_OK)
		st = sql_next(last);
	if (st == ST_OK) {
		w->last_head = sql_get_u64(last, 0);
		ledger_keys_load(&w->keys, dir);
		st = sql_prepare(w->db,
				 "SELECT seq, segment, is_end, link, signature, key"
				 " FROM heads ORDER BY seq",
				 &w->heads);
	}
	if (st == ST_OK)
		st = sql_prepare(w->db, "SELECT payload, link FROM rows WHERE seq = ?",
				 &w->row);
	return st;
}

static enum status
verify_once(const char *dir, const struct verify_place *expect,
	    struct verify_result *ret_r, bool *ret_is_awaited)
{
	struct verify_result r = { .is_whole = true };
	struct walk w = { .r = &r };

	enum status st = prepare(&w, dir);
	if (st == ST_OK && next_head(&w) && walk_all(&w) && nothing_is_left(&w) &&
	    erasures_fit(&w) && walk_meets_log(&w, dir))
		(void)walk_meets_place(&w, expect, "the place that was expected");
	sql_done(&w.heads);
	sql_done(&w.row);
	(void)sqlite3_close(w.db);
	if (st == ST_OK)
		*ret_r = r;
	*ret_is_awaited = w.is_awaited;
	return st;
}

enum status
ledger_verify(const char *dir, const struct verify_place *expect,
	      struct verify_result *ret_r)
{
	const struct timespec pause = { .tv_nsec = AWAIT_STEP_MS * 1000000L };
	bool is_awaited = false;
	enum status st = verify_once(dir, expect, ret_r, &is_awaited);

	for (int ms = 0; is_awaited && ms < AWAIT_MS; ms += AWAIT_STEP_MS) {
		(void)nanosleep(&pause, NULL);
		st = verify_once(dir, expect, ret_r, &is_awaited);
	}
	return st;
}

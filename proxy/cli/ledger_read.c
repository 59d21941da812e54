#include "proxy/cli/ledger_read.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proxy/base/clock.h"
#include "proxy/base/enc.h"
#include "proxy/cli/ledger_exec.h"
#include "proxy/cli/span.h"
#include "proxy/io/chain.h"

enum { US = 1000000 };

enum status
ledger_open(const char *dir, sqlite3 **ret_db)
{
	CLEANUP(buf_done) struct buf path = { 0 };

	buf_init(&path, 4200);
	buf_putf(&path, "%s/ledger.db", dir);
	const char *p = buf_cstr(&path);
	return p == NULL ? ST_TOO_BIG : sql_open_reader(p, ret_db);
}

void
ledger_say_unreadable(const char *dir, enum status st)
{
	bool is_shut = access(dir, R_OK | X_OK) < 0;

	(void)fprintf(stderr, "sandgate: no ledger can be read in %s: %s\n", dir,
		      is_shut ? strerror(errno) : status_words(st)->sentence);
}

/* What no index tells. */
static bool
is_picky(const struct ledger_filter *f)
{
	return f->exec || f->user.p != NULL || f->session.p != NULL || f->since_us != 0;
}

/* A row that this version can't read is audit verify's business. */
static bool
read_row(const struct ledger_filter *f, struct str bytes, struct row *ret_r)
{
	struct row r;

	if (row_get(bytes, &r) != ST_OK || r.time_us < f->since_us ||
	    (f->exec && !row_is_exec(&r)) ||
	    (f->user.p != NULL && !str_eq(f->user, r.user)) ||
	    (f->session.p != NULL && !str_eq(f->session, r.session)))
		return false;
	*ret_r = r;
	return true;
}

#define WHERE                                                                          \
	" FROM rows WHERE seq > ?1 AND payload IS NOT NULL AND (?2 = 0 OR denial = 1)" \
	" AND (?3 = 0 OR sandbox = ?4) AND (?5 = 0 OR id >= ?6)"

static enum status
prepare(sqlite3 *db, const char *text, const struct ledger_filter *f, uint64_t after,
	sqlite3_stmt **ret_q)
{
	sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(db, text, &q);

	if (st != ST_OK)
		return st;
	sql_u64(q, 1, after);
	sql_u64(q, 2, f->denied);
	sql_u64(q, 3, f->sandbox.p != NULL);
	sql_bytes(q, 4, f->sandbox);
	sql_u64(q, 5, f->since_id != 0);
	need(sqlite3_bind_int64(q, 6, chain_sql_id(f->since_id)) == SQLITE_OK);
	*ret_q = q;
	return ST_OK;
}

/* The number of the row before the newest `limit` of those that are wished for. */
static enum status
find_after(sqlite3 *db, const struct ledger_filter *f, uint64_t *ret_after)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	uint64_t left = f->limit, after = f->after;
	struct row r;

	if (f->limit == 0) {
		*ret_after = f->after;
		return ST_OK;
	}
	enum status st = prepare(db, "SELECT seq, payload" WHERE " ORDER BY seq DESC",
				 f, f->after, &q);
	while (st == ST_OK && left > 0 && (st = sql_next(q)) == ST_OK) {
		if (is_picky(f) && !read_row(f, sql_get_bytes(q, 1), &r))
			continue;
		after = sql_get_u64(q, 0) - 1;
		left--;
	}
	if (st != ST_OK && st != ST_END)
		return st;
	*ret_after = left > 0 ? f->after : after;
	return ST_OK;
}

enum status
ledger_each(sqlite3 *db, const struct ledger_filter *f, ledger_row_fn fn, void *ctx)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	uint64_t after = 0;
	enum status st = find_after(db, f, &after);
	struct row r;

	if (st == ST_OK)
		st = prepare(db, "SELECT seq, payload" WHERE " ORDER BY seq", f, after,
			     &q);
	if (st != ST_OK)
		return st;
	while ((st = sql_next(q)) == ST_OK) {
		if (read_row(f, sql_get_bytes(q, 1), &r) &&
		    !fn(ctx, sql_get_u64(q, 0), &r))
			return ST_OK;
	}
	return st == ST_END ? ST_OK : st;
}

static enum status
find_id(sqlite3 *db, const char *text, uint64_t id, struct buf *b)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(db, text, &q);

	if (st != ST_OK)
		return st;
	need(sqlite3_bind_int64(q, 1, chain_sql_id(id)) == SQLITE_OK);
	st = sql_next(q);
	if (st != ST_OK)
		return st == ST_END ? ST_NOT_FOUND : st;
	buf_clear(b);
	buf_put(b, sql_get_bytes(q, 0));
	return ST_OK;
}

/* Refusals, which are asked for, have an index; for another row all are gone through.
 */
enum status
ledger_by_id(sqlite3 *db, uint64_t id, struct buf *b, struct row *ret_r)
{
	struct str bytes = STR("");
	enum status st = find_id(db,
				 "SELECT payload FROM rows WHERE id = ? AND denial = 1"
				 " ORDER BY seq LIMIT 1",
				 id, b);

	if (st == ST_NOT_FOUND)
		st = find_id(
			db,
			"SELECT payload FROM rows WHERE id = ? ORDER BY seq LIMIT 1",
			id, b);
	if (st == ST_OK)
		st = buf_finish(b, &bytes);
	return st == ST_OK ? row_get(bytes, ret_r) : st;
}

bool
ledger_since(struct str text, uint64_t now_us, uint64_t *ret_us)
{
	uint64_t seconds = 0;

	if (span_read(text, &seconds)) {
		*ret_us = seconds < now_us / US ? now_us - seconds * US : 1;
		return true;
	}
	/* A little earlier is still since. */
	if (!span_read_point(text, &seconds))
		return false;
	*ret_us = seconds * US;
	return true;
}

void
ledger_put_clean(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c < 0x20 || c >= 0x7f || c == '\\')
			buf_putf(b, "\\x%02x", c);
		else
			buf_putc(b, s.p[i]);
	}
}

static void
put_word(struct buf *b, struct str s)
{
	buf_putc(b, ' ');
	if (s.n == 0)
		buf_putc(b, '-');
	else
		ledger_put_clean(b, s);
}

static void
put_connector(struct buf *b, const struct row *r)
{
	if (r->connector.n == 0)
		return;
	buf_put(b, STR(" connector="));
	ledger_put_clean(b, r->connector);
	if (r->secret_version != 0)
		buf_putf(b, " secret_version=%u", r->secret_version);
	if (r->scrubbed != 0)
		buf_putf(b, " scrubbed=%u", r->scrubbed);
}

/* `audit --exec` tells the rest. */
static void
put_exec(struct buf *b, const struct row *r)
{
	if (r->exec.n == 0)
		return;
	json_t *exec = ledger_exec_load(r->exec);
	buf_put(b, STR(" op="));
	ledger_put_clean(b, exec == NULL ? STR("?") : ledger_exec_str(exec, "op"));
	json_decref(exec);
}

void
ledger_put_line(struct buf *b, const struct row *r)
{
	const char *verdict = row_is_refusal(r) ? "denied" : "-";

	if (r->kind == ROW_TUNNEL_START || r->kind == ROW_REQUEST ||
	    r->kind == ROW_EXEC || (r->kind == ROW_DNS && r->reason == ST_OK))
		verdict = r->observed ? "observed" : "allowed";
	clock_put(b, r->time_us);
	buf_putc(b, ' ');
	enc_put_id(b, r->id);
	put_word(b, r->sandbox);
	buf_putf(b, " %s %s %s", row_kind_word(r->kind), verdict,
		 status_code(r->reason));
	put_word(b, r->host);
	put_word(b, r->rule);
	if (r->method.n > 0) {
		put_word(b, r->method);
		put_word(b, r->path);
	}
	if (r->http_status != 0)
		buf_putf(b, " status=%u", r->http_status);
	if (r->bytes_up != 0 || r->bytes_down != 0)
		buf_putf(b, " up=%llu down=%llu", (unsigned long long)r->bytes_up,
			 (unsigned long long)r->bytes_down);
	put_connector(b, r);
	put_exec(b, r);
	if (r->detail.n > 0)
		put_word(b, r->detail);
	buf_putc(b, '\n');
}

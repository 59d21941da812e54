#include "proxy/base/buf.h"
#include "proxy/control/brain_db.h"
#include "proxy/control/brain_store.h"

#define SELECT       "SELECT " BRAIN_DB_COLUMNS " FROM sandboxes WHERE"
#define SELECT_SHORT "SELECT " BRAIN_DB_SHORT " FROM sandboxes WHERE"
#define AS_LIMIT(n)  #n
#define LIMIT(n)     " LIMIT " AS_LIMIT(n)

/* What BRAIN_LIST_MAX is, for the preprocessor. */
#define LIST_MAX 200
_Static_assert(LIST_MAX == BRAIN_LIST_MAX, "the limit in statements");

/* One. */

enum status
brain_store_find(struct brain_store *s, const struct brain_owner *o, struct str id,
		 struct arena *a, struct brain_sandbox *ret)
{
	sql_bytes(s->find, 1, id);
	sql_bytes(s->find, 2, o->tenant);
	sql_bytes(s->find, 3, o->user);
	enum status st = brain_db_one(s->find, a, ret);
	(void)sqlite3_clear_bindings(s->find); /* they were views */
	return st;
}

enum status
brain_store_find_any(struct brain_store *s, struct str id, struct arena *a,
		     struct brain_sandbox *ret)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(s->db, SELECT " id = ?1", &q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, id);
	return brain_db_one(q, a, ret);
}

enum status
brain_store_by_upstream(struct brain_store *s, struct str server, struct str upstream,
			struct arena *a, struct brain_sandbox *ret)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db, SELECT_SHORT " server = ?1 AND upstream = ?2 AND state < 7", &q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, server);
	sql_bytes(q, 2, upstream);
	return brain_db_one(q, a, ret);
}

/* A page of somebody's. */

enum { QUERY_MAX = 4096, FILTER_FIRST = 6 };

/* ?1 tenant, ?2 user, ?3 states, ?4 and ?5 the page, then keys and values. */
static void
put_filter(struct buf *b, const struct brain_filter *f)
{
	buf_put(b,
		STR(" FROM sandboxes WHERE tenant = ?1 AND user = ?2"
		    " AND user IS NOT NULL AND state < 7 AND (?3 >> state) & 1 = 1"));
	for (size_t i = 0; i < f->pairs_n; i++) {
		unsigned at = FILTER_FIRST + 2 * (unsigned)i;
		buf_putf(b,
			 " AND EXISTS(SELECT 1 FROM labels WHERE sandbox = sandboxes.n"
			 " AND key = ?%u AND value = ?%u)",
			 at, at + 1);
	}
}

static enum status
prepare_list(struct brain_store *s, const struct brain_filter *f, struct buf *b,
	     sqlite3_stmt **ret_q)
{
	const char *text = buf_cstr(b);
	enum status st = text == NULL ? ST_TOO_BIG : sql_prepare(s->db, text, ret_q);

	if (st != ST_OK)
		return st;
	sql_bytes(*ret_q, 1, f->owner.tenant);
	sql_bytes(*ret_q, 2, f->owner.user);
	sql_u64(*ret_q, 3, f->states == 0 ? BRAIN_NOT_GONE : f->states);
	for (size_t i = 0; i < f->pairs_n; i++) {
		sql_bytes(*ret_q, FILTER_FIRST + 2 * (int)i, f->pairs[i].key);
		sql_bytes(*ret_q, FILTER_FIRST + 2 * (int)i + 1, f->pairs[i].value);
	}
	return ST_OK;
}

static enum status
count(struct brain_store *s, const struct brain_filter *f, uint64_t *ret_total)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;

	buf_init(&b, QUERY_MAX);
	buf_put(&b, STR("SELECT count(*)"));
	put_filter(&b, f);
	enum status st = prepare_list(s, f, &b, &q);
	if (st == ST_OK)
		st = sql_next(q);
	if (st == ST_OK)
		*ret_total = sql_get_u64(q, 0);
	return st;
}

/* The page is found in the index before any of its rows is read. */
static enum status
get_page(struct brain_store *s, const struct brain_filter *f, struct arena *a,
	 struct brain_sandboxes *ret)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	const char *order = f->newest_first ? " ORDER BY created_s DESC, n DESC"
					    : " ORDER BY created_s, n";

	buf_init(&b, QUERY_MAX);
	buf_put(&b, STR(SELECT " n IN (SELECT n"));
	put_filter(&b, f);
	buf_putf(&b, "%s LIMIT ?4 OFFSET ?5)%s", order, order);
	enum status st = prepare_list(s, f, &b, &q);
	if (st != ST_OK)
		return st;
	sql_u64(q, 4, f->page_size);
	sql_u64(q, 5, (uint64_t)(f->page - 1) * f->page_size);
	return brain_db_rows(q, a, ret);
}

enum status
brain_store_list(struct brain_store *s, const struct brain_filter *f, struct arena *a,
		 struct brain_sandboxes *ret)
{
	struct brain_sandboxes page;
	uint64_t total;

	need(f->page > 0 && f->page_size > 0 && f->page_size <= BRAIN_LIST_MAX);
	if (f->pairs_n > BRAIN_FILTER_PAIRS)
		return ST_TOO_BIG;
	enum status st = count(s, f, &total);
	if (st == ST_OK)
		st = get_page(s, f, a, &page);
	if (st != ST_OK)
		return st;
	page.total = total;
	*ret = page;
	return ST_OK;
}

static enum status
take_names(sqlite3_stmt *q, struct arena *a, struct str *names, size_t max, size_t *n)
{
	enum status st = ST_OK;

	while (st == ST_OK && *n < max) {
		st = sql_next(q);
		if (st == ST_OK)
			st = brain_db_text(q, 0, a, &names[(*n)++]);
	}
	return st == ST_END ? ST_OK : st;
}

enum status
brain_store_servers(struct brain_store *s, const struct brain_owner *o, struct arena *a,
		    struct str *ret_names, size_t max, size_t *ret_n)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	size_t n = 0;
	enum status st =
		sql_prepare(s->db,
			    "SELECT DISTINCT server FROM sandboxes WHERE tenant = ?1"
			    " AND user = ?2 AND user IS NOT NULL AND state < 7"
			    " AND upstream IS NOT NULL ORDER BY server",
			    &q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, o->tenant);
	sql_bytes(q, 2, o->user);
	st = take_names(q, a, ret_names, max, &n);
	if (st == ST_OK)
		*ret_n = n;
	return st;
}

/* Control's own. */

enum status
brain_store_walk(struct brain_store *s, unsigned states, struct str after,
		 struct arena *a, struct brain_sandboxes *ret)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db,
		SELECT_SHORT
		" id > ?1 AND state < 7 AND (?2 >> state) & 1 = 1 ORDER BY id" LIMIT(
			LIST_MAX),
		&q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, after);
	sql_u64(q, 2, states);
	return brain_db_rows(q, a, ret);
}

enum status
brain_store_expired(struct brain_store *s, uint64_t now_s, size_t skip, struct arena *a,
		    struct brain_sandboxes *ret)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db,
		SELECT_SHORT
		" expires_s > 0 AND expires_s <= ?1"
		" AND state < 5 ORDER BY expires_s" LIMIT(LIST_MAX) " OFFSET ?2",
		&q);

	if (st != ST_OK)
		return st;
	brain_db_number(q, 1, now_s);
	sql_u64(q, 2, skip);
	return brain_db_rows(q, a, ret);
}

enum status
brain_store_idle(struct brain_store *s, enum brain_state state, uint64_t used_before_s,
		 size_t skip, struct arena *a, struct brain_sandboxes *ret)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(s->db,
				     SELECT_SHORT
				     " user IS NOT NULL AND state < 5"
				     " AND state = ?1 AND used_s < ?2"
				     " ORDER BY used_s" LIMIT(LIST_MAX) " OFFSET ?3",
				     &q);

	if (st != ST_OK)
		return st;
	sql_u64(q, 1, state);
	brain_db_number(q, 2, used_before_s);
	sql_u64(q, 3, skip);
	return brain_db_rows(q, a, ret);
}

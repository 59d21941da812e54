#include "proxy/ledger/rates.h"

#include <stdlib.h>
#include <string.h>

enum { SANDBOXES_MAX = 65536, US = 1000000 };

struct rate {
	struct list link;
	uint64_t second, stored, extra;
	enum status code; /* of the last one counted */
	bool is_dirty;    /* extra differs from the table */
	size_t n;
	char sandbox[]; /* n bytes */
};

void
rates_init(struct rates *r)
{
	*r = (struct rates){ .limit = UINT64_MAX };
	map_init(&r->by_sandbox, SANDBOXES_MAX);
	list_init(&r->all);
}

static struct str
name_of(const struct rate *x)
{
	return str_of(x->sandbox, x->n);
}

static void
forget(struct rates *r, struct rate *x)
{
	(void)map_take(&r->by_sandbox, name_of(x));
	list_remove(&x->link);
	free(x);
}

void
rates_done(struct rates *r)
{
	list_each_safe (it, &r->all)
		forget(r, LIST_OF(it, struct rate, link));
	map_done(&r->by_sandbox);
}

static struct rate *
make(struct rates *r, struct str sandbox, uint64_t second)
{
	struct rate *x = calloc(1, sizeof *x + sandbox.n);

	if (x == NULL)
		return NULL;
	x->second = second;
	x->n = sandbox.n;
	if (sandbox.n > 0)
		memcpy(x->sandbox, sandbox.p, sandbox.n);
	if (map_put(&r->by_sandbox, name_of(x), x) != ST_OK) {
		free(x);
		return NULL;
	}
	list_append(&r->all, &x->link);
	return x;
}

enum status
rates_load(struct rates *r, struct store *s)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db, "SELECT sandbox, second, count, code FROM pending", &q);

	if (st != ST_OK)
		return st;
	while ((st = sql_next(q)) == ST_OK) {
		struct rate *x = make(r, sql_get_bytes(q, 0), sql_get_u64(q, 1));
		struct str code = sql_get_bytes(q, 3);
		if (x == NULL)
			return ST_NOMEM;
		x->stored = r->limit;
		x->extra = sql_get_u64(q, 2);
		if (!status_by_code(code.p, code.n, &x->code))
			x->code = ST_DENIED;
	}
	return st == ST_END ? ST_OK : st;
}

bool
rates_is_over(struct rates *r, const struct row *row)
{
	struct rate *x = map_get(&r->by_sandbox, row->sandbox);
	uint64_t second = row->time_us / US;

	if (x == NULL)
		x = make(r, row->sandbox, second);
	if (x == NULL)
		return false;
	/* Counted ones of an older second wait for their aggregate row; until it is
	 * written they share the count. */
	if (x->second != second && x->extra == 0) {
		x->second = second;
		x->stored = 0;
	}
	if (x->stored < r->limit) {
		x->stored++;
		return false;
	}
	x->extra++;
	x->code = row->reason;
	x->is_dirty = true;
	return true;
}

enum status
rates_save(struct rates *r, struct store *s)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = ST_OK;

	list_each (it, &r->all) {
		struct rate *x = LIST_OF(it, struct rate, link);
		if (!x->is_dirty)
			continue;
		if (q == NULL)
			st = sql_prepare(
				s->db,
				"INSERT OR REPLACE INTO pending"
				"(sandbox, second, count, code) VALUES(?, ?, ?, ?)",
				&q);
		if (st != ST_OK)
			return st;
		sql_bytes(q, 1, name_of(x));
		sql_u64(q, 2, x->second);
		sql_u64(q, 3, x->extra);
		sql_bytes(q, 4, str_from(status_code(x->code)));
		st = sql_run(q);
		x->is_dirty = false;
	}
	return st;
}

static enum status
put_aggregate(struct store *s, const struct rate *x)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	CLEANUP(buf_done) struct buf b = { 0 };
	struct row row = { .kind = ROW_AGGREGATE,
			   .sandbox = name_of(x),
			   .reason = x->code };

	buf_init(&b, 128);
	buf_putf(&b, "%llu more refusals within a second",
		 (unsigned long long)x->extra);
	enum status st = buf_finish(&b, &row.detail);
	if (st == ST_OK)
		st = store_note(s, &row);
	if (st == ST_OK)
		st = sql_prepare(s->db, "DELETE FROM pending WHERE sandbox = ?", &q);
	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, name_of(x));
	return sql_run(q);
}

enum status
rates_flush(struct rates *r, struct store *s, uint64_t second, uint64_t *ret_n)
{
	uint64_t n = 0;

	list_each_safe (it, &r->all) {
		struct rate *x = LIST_OF(it, struct rate, link);
		if (x->second >= second)
			continue;
		if (x->extra > 0) {
			enum status st = put_aggregate(s, x);
			if (st != ST_OK)
				return st;
			n += x->extra;
		}
		forget(r, x);
	}
	*ret_n = n;
	return ST_OK;
}

bool
rates_is_idle(const struct rates *r)
{
	return list_is_empty(&r->all);
}

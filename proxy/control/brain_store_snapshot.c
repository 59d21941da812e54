#include "proxy/control/brain_db.h"
#include "proxy/control/brain_store.h"

#define COLUMNS                                                                        \
	"id, server, upstream, sandbox, name, tenant, user, shape, info, tier,"        \
	" created_s"
#define FILTER                                                                         \
	" FROM snapshots WHERE tenant = ?1 AND user = ?2"                              \
	" AND (?3 = x'' OR sandbox = ?3) AND (?4 = x'' OR name = ?4)"

static enum status
take(sqlite3_stmt *q, struct arena *a, struct brain_snapshot *ret_x)
{
	struct brain_snapshot x = { 0 };
	struct str *const texts[] = { &x.id,         &x.server, &x.upstream,
				      &x.sandbox,    &x.name,   &x.owner.tenant,
				      &x.owner.user, &x.shape,  &x.info };
	enum status st = ST_OK;

	for (size_t i = 0; i < COUNT_OF(texts) && st == ST_OK; i++)
		st = brain_db_text(q, (int)i, a, texts[i]);
	if (st != ST_OK)
		return st;
	x.tier = (uint8_t)sql_get_u64(q, 9);
	x.created_s = sql_get_u64(q, 10);
	*ret_x = x;
	return ST_OK;
}

static void
put_snapshot(sqlite3_stmt *q, struct str id, const struct brain_snapshot *sn)
{
	sql_bytes(q, 1, id);
	sql_bytes(q, 2, sn->server);
	sql_bytes(q, 3, sn->upstream);
	sql_bytes(q, 4, sn->sandbox);
	sql_bytes(q, 5, sn->name);
	sql_bytes(q, 6, sn->owner.tenant);
	sql_bytes(q, 7, sn->owner.user);
	sql_bytes(q, 8, sn->shape);
	sql_bytes(q, 9, sn->info);
	sql_u64(q, 10, sn->tier);
	brain_db_number(q, 11, sn->created_s);
}

enum status
brain_store_snapshot_add(struct brain_store *s, const struct brain_snapshot *sn,
			 struct arena *a, struct str *ret_id)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	char id[BRAIN_ID];
	enum status st = sql_prepare(s->db,
				     "INSERT INTO snapshots(" COLUMNS
				     ") VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
				     &q);

	if (st == ST_OK)
		st = brain_db_id(STR("sn-"), id);
	if (st != ST_OK)
		return st;
	struct str copy = arena_copy(a, str_of(id, sizeof id));
	if (copy.p == NULL)
		return ST_NOMEM;
	put_snapshot(q, copy, sn);
	st = brain_db_run(s, q);
	if (st == ST_OK)
		*ret_id = copy;
	return st;
}

enum status
brain_store_snapshot_find(struct brain_store *s, const struct brain_owner *o,
			  struct str id, struct arena *a, struct brain_snapshot *ret)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(s->db,
				     "SELECT " COLUMNS " FROM snapshots"
				     " WHERE id = ?1 AND tenant = ?2 AND user = ?3",
				     &q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, id);
	sql_bytes(q, 2, o->tenant);
	sql_bytes(q, 3, o->user);
	st = sql_next(q);
	if (st != ST_OK)
		return st == ST_END ? ST_NOT_FOUND : st;
	return take(q, a, ret);
}

enum status
brain_store_snapshot_info(struct brain_store *s, struct str id, struct str json)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st =
		sql_prepare(s->db, "UPDATE snapshots SET info = ?2 WHERE id = ?1", &q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, id);
	sql_bytes(q, 2, json);
	return brain_db_change(s, q);
}

static enum status
prepare_list(struct brain_store *s, const char *query,
	     const struct brain_snapshot_filter *f, sqlite3_stmt **ret_q)
{
	enum status st = sql_prepare(s->db, query, ret_q);

	if (st != ST_OK)
		return st;
	sql_bytes(*ret_q, 1, f->owner.tenant);
	sql_bytes(*ret_q, 2, f->owner.user);
	sql_bytes(*ret_q, 3, f->sandbox);
	sql_bytes(*ret_q, 4, f->name);
	return ST_OK;
}

static enum status
count(struct brain_store *s, const struct brain_snapshot_filter *f, uint64_t *ret_total)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = prepare_list(s, "SELECT count(*)" FILTER, f, &q);

	if (st == ST_OK)
		st = sql_next(q);
	if (st == ST_OK)
		*ret_total = sql_get_u64(q, 0);
	return st;
}

static enum status
get_page(struct brain_store *s, const struct brain_snapshot_filter *f, struct arena *a,
	 struct brain_snapshots *ret)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	struct brain_snapshots x = { arena_alloc(a, f->page_size * sizeof *x.of), 0,
				     0 };
	const char *query =
		f->newest_first ? "SELECT " COLUMNS FILTER
				  " ORDER BY created_s DESC, n DESC LIMIT ?5 OFFSET ?6"
				: "SELECT " COLUMNS FILTER
				  " ORDER BY created_s, n LIMIT ?5 OFFSET ?6";
	enum status st = x.of == NULL ? ST_NOMEM : prepare_list(s, query, f, &q);

	if (st != ST_OK)
		return st;
	sql_u64(q, 5, f->page_size);
	sql_u64(q, 6, (uint64_t)(f->page - 1) * f->page_size);
	while (st == ST_OK) {
		st = sql_next(q);
		if (st == ST_OK)
			st = take(q, a, &x.of[x.n++]);
	}
	if (st != ST_END)
		return st;
	*ret = x;
	return ST_OK;
}

enum status
brain_store_snapshot_list(struct brain_store *s, const struct brain_snapshot_filter *f,
			  struct arena *a, struct brain_snapshots *ret)
{
	struct brain_snapshots page;
	uint64_t total;

	need(f->page > 0 && f->page_size > 0 && f->page_size <= BRAIN_LIST_MAX);
	enum status st = count(s, f, &total);
	if (st == ST_OK)
		st = get_page(s, f, a, &page);
	if (st != ST_OK)
		return st;
	page.total = total;
	*ret = page;
	return ST_OK;
}

enum status
brain_store_snapshot_gone(struct brain_store *s, struct str id)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(s->db, "DELETE FROM snapshots WHERE id = ?", &q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, id);
	return brain_db_change(s, q);
}

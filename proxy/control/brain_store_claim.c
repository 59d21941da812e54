#include "proxy/control/brain_db.h"
#include "proxy/control/brain_store.h"

struct claim {
	struct brain_store *s;
	const struct brain_claim *c;
	struct arena *arena;
	struct brain_sandbox got;
	enum brain_claimed how;
};

static void
put_owner(sqlite3_stmt *q, int at, const struct brain_owner *o)
{
	sql_bytes(q, at, o->tenant);
	sql_bytes(q, at + 1, o->user);
}

/* The same request again. */

/* What it got may have been forgotten, or failed: then it is as if it had not been. */
static enum status
load_repeated(struct claim *x, struct str id)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st =
		sql_prepare(x->s->db,
			    "SELECT " BRAIN_DB_COLUMNS " FROM sandboxes WHERE id = ?1"
			    " AND tenant = ?2 AND user = ?3 AND state <> 6",
			    &q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, id);
	put_owner(q, 2, &x->c->owner);
	st = brain_db_one(q, x->arena, &x->got);
	if (st == ST_OK)
		x->how = BRAIN_REPEATED;
	return st;
}

static enum status
find_repeated(struct claim *x)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	struct str hash = str_of(x->c->request_hash, sizeof x->c->request_hash);
	enum status st;

	if (x->c->idempotency.n == 0)
		return ST_NOT_FOUND;
	st = sql_prepare(x->s->db,
			 "SELECT hash, sandbox FROM idempotency WHERE tenant = ?1"
			 " AND user = ?2 AND key = ?3 AND expires_s > ?4",
			 &q);
	if (st != ST_OK)
		return st;
	put_owner(q, 1, &x->c->owner);
	sql_bytes(q, 3, x->c->idempotency);
	brain_db_number(q, 4, x->c->now_s);
	st = sql_next(q);
	if (st != ST_OK)
		return st == ST_END ? ST_NOT_FOUND : st;
	if (!str_eq(sql_get_bytes(q, 0), hash))
		return ST_CONFLICT;
	return load_repeated(x, sql_get_bytes(q, 1));
}

static enum status
remember(struct claim *x)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	struct str hash = str_of(x->c->request_hash, sizeof x->c->request_hash);
	enum status st;

	if (x->c->idempotency.n == 0 || x->how == BRAIN_REPEATED)
		return ST_OK;
	st = sql_prepare(x->s->db,
			 "INSERT OR REPLACE INTO"
			 " idempotency(tenant, user, key, hash, sandbox, expires_s)"
			 " VALUES(?, ?, ?, ?, ?, ?)",
			 &q);
	if (st != ST_OK)
		return st;
	put_owner(q, 1, &x->c->owner);
	sql_bytes(q, 3, x->c->idempotency);
	sql_bytes(q, 4, hash);
	sql_bytes(q, 5, x->got.id);
	brain_db_number(q, 6, x->c->idempotency_expires_s);
	return brain_db_run(x->s, q);
}

/* Its own. */

#define REUSED                                                                         \
	" tenant = ?1 AND user = ?2 AND reuse = ?3 AND reuse_key = ?4 AND shape = ?5"  \
	" AND tier = ?6 AND reuse > 0 AND state < 5"

static enum status
prepare_reused(const struct claim *x, const char *query, sqlite3_stmt **ret_q)
{
	enum status st = sql_prepare(x->s->db, query, ret_q);

	if (st != ST_OK)
		return st;
	put_owner(*ret_q, 1, &x->c->owner);
	sql_u64(*ret_q, 3, x->c->reuse);
	sql_bytes(*ret_q, 4, x->c->reuse_key);
	sql_bytes(*ret_q, 5, x->c->shape);
	sql_u64(*ret_q, 6, x->c->tier);
	brain_db_number(*ret_q, 7, x->c->now_s);
	return ST_OK;
}

static enum status
run_reused(const struct claim *x, const char *query)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = prepare_reused(x, query, &q);

	return st == ST_OK ? brain_db_run(x->s, q) : st;
}

static enum status
find_own(struct claim *x)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st;

	if (x->c->reuse == BRAIN_REUSE_NONE)
		return ST_NOT_FOUND;
	st = run_reused(x, "UPDATE sandboxes SET state = 5 WHERE" REUSED
			   " AND expires_s > 0 AND expires_s <= ?7");
	if (st == ST_OK)
		st = run_reused(x, "UPDATE sandboxes SET used_s = max(used_s, ?7)"
				   " WHERE" REUSED);
	if (st == ST_OK) /* ?7: a statement has all that are bound */
		st = prepare_reused(x,
				    "SELECT " BRAIN_DB_COLUMNS
				    " FROM sandboxes WHERE" REUSED " AND ?7 >= 0",
				    &q);
	if (st == ST_OK)
		st = brain_db_one(q, x->arena, &x->got);
	if (st == ST_OK)
		x->how = BRAIN_EXISTING;
	return st;
}

/* A warm one, or none yet. */

static void
put_claim(sqlite3_stmt *q, const struct claim *x)
{
	const struct brain_claim *c = x->c;

	sql_bytes(q, 1, x->got.id);
	put_owner(q, 2, &c->owner);
	sql_bytes(q, 4, c->agent);
	sql_bytes(q, 5, c->session);
	sql_bytes(q, 6, c->task);
	sql_bytes(q, 7, c->on_behalf_of);
	sql_u64(q, 8, c->reuse);
	sql_bytes(q, 9, c->reuse_key);
	brain_db_number(q, 10, c->now_s);
	brain_db_number(q, 11, c->expires_s);
	sql_bytes(q, 12, c->request);
	sql_bytes(q, 13, c->metadata);
	sql_bytes(q, 14, c->policy);
}

/* First it is written down that it is theirs: no row of a sandbox with an owner can be
 * without (brain_schema.h). */
static enum status
own(const struct claim *x)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		x->s->db,
		"INSERT INTO owned(server, upstream, tenant, user, since_s)"
		" SELECT server, upstream, ?2, ?3, ?4 FROM sandboxes WHERE id = ?1",
		&q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, x->got.id);
	put_owner(q, 2, &x->c->owner);
	brain_db_number(q, 4, x->c->now_s);
	return brain_db_run(x->s, q);
}

static enum status
assign(struct claim *x)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		x->s->db,
		"UPDATE sandboxes SET tenant = ?2, user = ?3, agent = ?4, session = ?5,"
		" task = ?6, on_behalf_of = ?7, reuse = ?8, reuse_key = ?9,"
		" created_s = ?10, used_s = ?10, expires_s = ?11, request = ?12,"
		" metadata = ?13, policy = ?14, state = 0 WHERE id = ?1",
		&q);

	if (st == ST_OK)
		st = own(x);
	if (st != ST_OK)
		return st;
	put_claim(q, x);
	return brain_db_run(x->s, q);
}

static enum status
find_warm(struct claim *x)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st;

	if (!x->c->may_be_warm || x->c->is_held)
		return ST_NOT_FOUND;
	st = sql_prepare(x->s->db,
			 "SELECT id FROM sandboxes WHERE user IS NULL AND shape = ?1"
			 " AND tier = ?2 AND state = 2"
			 " AND (expires_s = 0 OR expires_s > ?3) ORDER BY n LIMIT 1",
			 &q);
	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, x->c->shape);
	sql_u64(q, 2, x->c->tier);
	brain_db_number(q, 3, x->c->now_s);
	st = sql_next(q);
	if (st == ST_OK)
		st = brain_db_text(q, 0, x->arena, &x->got.id);
	if (st != ST_OK)
		return st == ST_END ? ST_NOT_FOUND : st;
	x->how = BRAIN_WARM;
	return assign(x);
}

static enum status
add(struct claim *x)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	char id[BRAIN_ID];
	enum status st = sql_prepare(
		x->s->db,
		"INSERT INTO sandboxes(id, tenant, user, agent, session, task,"
		" on_behalf_of, reuse, reuse_key, created_s, used_s, expires_s,"
		" request, metadata, policy, server, tier, state, shape)"
		" VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10, ?11, ?12, ?13,"
		" ?14, ?15, ?16, ?17, ?18)",
		&q);

	if (st == ST_OK)
		st = brain_db_id(STR("sb-"), id);
	if (st != ST_OK)
		return st;
	x->got.id = arena_copy(x->arena, str_of(id, sizeof id));
	if (x->got.id.p == NULL)
		return ST_NOMEM;
	x->how = BRAIN_NEW;
	put_claim(q, x);
	sql_bytes(q, 15, x->c->server);
	sql_u64(q, 16, x->c->tier);
	sql_u64(q, 17, x->c->is_held ? BRAIN_PENDING : BRAIN_PLACING);
	sql_bytes(q, 18, x->c->shape);
	return brain_db_run(x->s, q);
}

static enum status
take_one(struct claim *x)
{
	enum status st = find_warm(x);

	if (st == ST_NOT_FOUND)
		st = add(x);
	if (st == ST_OK)
		st = brain_db_labels(x->s, x->got.id, x->c->pairs, x->c->pairs_n);
	return st == ST_OK ? brain_store_find_any(x->s, x->got.id, x->arena, &x->got)
			   : st;
}

static enum status
claim(struct claim *x)
{
	enum status st = find_repeated(x);

	if (st == ST_NOT_FOUND)
		st = find_own(x);
	if (st == ST_NOT_FOUND)
		st = take_one(x);
	return st == ST_OK ? remember(x) : st;
}

enum status
brain_store_claim(struct brain_store *s, const struct brain_claim *c, struct arena *a,
		  struct brain_sandbox *ret, enum brain_claimed *ret_how)
{
	struct claim x = { .s = s, .c = c, .arena = a };
	enum status st = brain_db_begin(s);

	if (st == ST_OK)
		st = brain_db_end(s, claim(&x));
	if (st != ST_OK)
		return st;
	*ret = x.got;
	*ret_how = x.how;
	return ST_OK;
}

/* Warm ones. */

enum status
brain_store_warm_add(struct brain_store *s, const struct brain_warm *w, struct arena *a,
		     struct str *ret_id)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	char id[BRAIN_ID];
	enum status st = sql_prepare(
		s->db,
		"INSERT INTO sandboxes(id, server, agent, session, task, on_behalf_of,"
		" tier, state, reuse, reuse_key, shape, created_s, expires_s, used_s,"
		" request) VALUES(?1, ?2, x'', x'', x'', x'', ?3, 0, 0, x'', ?4, ?5, "
		"?6,"
		" ?5, ?7)",
		&q);

	if (st == ST_OK)
		st = brain_db_id(STR("sb-"), id);
	if (st != ST_OK)
		return st;
	struct str copy = arena_copy(a, str_of(id, sizeof id));
	if (copy.p == NULL)
		return ST_NOMEM;
	sql_bytes(q, 1, copy);
	sql_bytes(q, 2, w->server);
	sql_u64(q, 3, w->tier);
	sql_bytes(q, 4, w->shape);
	brain_db_number(q, 5, w->now_s);
	brain_db_number(q, 6, w->expires_s);
	sql_bytes(q, 7, w->request);
	st = brain_db_run(s, q);
	if (st == ST_OK)
		*ret_id = copy;
	return st;
}

enum status
brain_store_warm_count(struct brain_store *s, struct str shape, uint8_t tier,
		       uint64_t now_s, uint64_t *ret_n)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(s->db,
				     "SELECT count(*) FROM sandboxes WHERE user IS NULL"
				     " AND shape = ?1 AND tier = ?2 AND state IN (0, 2)"
				     " AND (expires_s = 0 OR expires_s > ?3)",
				     &q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, shape);
	sql_u64(q, 2, tier);
	brain_db_number(q, 3, now_s);
	st = sql_next(q);
	if (st == ST_OK)
		*ret_n = sql_get_u64(q, 0);
	return st;
}

#include "proxy/control/approval_store.h"

#include <stdlib.h>
#include <string.h>

/* What ended is kept this long for those who list it; the ledger keeps its rows longer. */
enum { KEEP_S = 90 * 86400 };

#define ROW                                                                            \
	"SELECT id, tenant, user, agent, on_behalf_of, session, sandbox, what, why,"   \
	" text, level, hash, state, scope, decided_by, note, asked_s, deadline_s,"     \
	" ended_s FROM approvals "
#define GRANT                                                                          \
	"SELECT id, approval, tenant, user, session, what, text, granted_by, scope,"   \
	" hash, created_s, expires_s, on_behalf_of FROM approval_grants "

enum query {
	ADD,
	PENDING,
	PENDING_OF,
	DECIDE,
	FIND,
	EACH_PENDING,
	EACH,
	COVERED,
	ADD_GRANT,
	REVOKE,
	GRANTS,
	CANCEL_ALL,
	FORGET,
	FORGET_GRANTS,
	QUERIES
};

static const char *const texts[QUERIES] = {
	[ADD] = "INSERT INTO approvals(tenant, user, agent, on_behalf_of, session,"
		" sandbox, what, why, text, level, hash, asked_s, deadline_s)"
		" VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)",
	[PENDING] = "SELECT count(*) FROM approvals WHERE tenant = ?1 AND state = 0",
	[PENDING_OF] = "SELECT count(*) FROM approvals WHERE tenant = ?1 AND user = ?2"
		       " AND on_behalf_of = ?3 AND state = 0",
	[DECIDE] = "UPDATE approvals SET state = ?2, scope = ?3, decided_by = ?4,"
		   " note = ?5, ended_s = ?6 WHERE id = ?1 AND state = 0",
	[FIND] = ROW "WHERE id = ?1",
	[EACH_PENDING] = ROW "WHERE state = 0 ORDER BY id DESC",
	[EACH] = ROW "ORDER BY id DESC",
	[COVERED] =
		GRANT "WHERE tenant = ?1 AND user = ?2 AND hash = ?3 AND what = ?4"
		      " AND revoked_s = 0 AND (expires_s = 0 OR expires_s > ?6)"
		      " AND on_behalf_of = ?7 AND (scope = 2 OR session = ?5) LIMIT 1",
	[ADD_GRANT] =
		"INSERT INTO approval_grants(approval, tenant, user, on_behalf_of,"
		" scope, session, what, hash, text, granted_by, created_s,"
		" expires_s) SELECT id, tenant, user, on_behalf_of, scope, CASE scope "
		"WHEN 1 THEN session"
		" ELSE x'' END, what, hash, text, decided_by, ended_s, ?2"
		" FROM approvals WHERE id = ?1",
	[REVOKE] = "UPDATE approval_grants SET revoked_s = ?2"
		   " WHERE id = ?1 AND revoked_s = 0",
	[GRANTS] = GRANT "WHERE revoked_s = 0 AND (expires_s = 0 OR expires_s > ?1)"
			 " ORDER BY id DESC",
	[CANCEL_ALL] = "UPDATE approvals SET state = 4, ended_s = ?1 WHERE state = 0",
	[FORGET] = "DELETE FROM approvals WHERE state <> 0 AND ended_s < ?1",
	[FORGET_GRANTS] = "DELETE FROM approval_grants WHERE"
			  " (revoked_s > 0 AND revoked_s < ?1) OR"
			  " (expires_s > 0 AND expires_s < ?1)",
};

struct approval_store {
	sqlite3 *db;
	sqlite3_stmt *q[QUERIES];
};

static const char *const state_words[APPROVAL_STATES] = { "pending", "allowed",
							  "denied", "expired",
							  "cancelled" };
static const char *const scope_words[APPROVAL_SCOPES] = { "once", "session", "always" };

const char *
approval_state_word(enum approval_state s)
{
	need((size_t)s < APPROVAL_STATES);
	return state_words[s];
}

const char *
approval_scope_word(enum approval_scope s)
{
	need((size_t)s < APPROVAL_SCOPES);
	return scope_words[s];
}

bool
approval_scope_by_word(struct str word, enum approval_scope *ret_s)
{
	for (size_t i = 0; i < APPROVAL_SCOPES; i++) {
		if (!str_eq(word, str_from(scope_words[i])))
			continue;
		*ret_s = (enum approval_scope)i;
		return true;
	}
	return false;
}

/* The texts that were bound are somebody else's. */
static enum status
run(struct approval_store *s, enum query which)
{
	enum status st = sql_run(s->q[which]);

	(void)sqlite3_clear_bindings(s->q[which]);
	return st;
}

/* The same; ST_NOT_FOUND: it changed nothing. */
static enum status
change(struct approval_store *s, enum query which)
{
	enum status st = run(s, which);

	return st == ST_OK && sqlite3_changes(s->db) == 0 ? ST_NOT_FOUND : st;
}

static enum status
forget(struct approval_store *s, uint64_t now_s)
{
	uint64_t before_s = now_s > KEEP_S ? now_s - KEEP_S : 0;

	sql_u64(s->q[FORGET], 1, before_s);
	sql_u64(s->q[FORGET_GRANTS], 1, before_s);
	enum status st = run(s, FORGET);
	return st == ST_OK ? run(s, FORGET_GRANTS) : st;
}

enum status
approval_store_open(sqlite3 *db, uint64_t now_s, struct approval_store **ret_s)
{
	struct approval_store *s = calloc(1, sizeof *s);
	enum status st = s == NULL ? ST_NOMEM : ST_OK;

	if (s != NULL)
		s->db = db;
	for (size_t i = 0; i < QUERIES && st == ST_OK; i++)
		st = sql_prepare(db, texts[i], &s->q[i]);
	if (st == ST_OK) {
		sql_u64(s->q[CANCEL_ALL], 1, now_s);
		st = run(s, CANCEL_ALL);
	}
	if (st == ST_OK)
		st = forget(s, now_s);
	if (st == ST_OK)
		*ret_s = s;
	else
		approval_store_close(s);
	return st;
}

void
approval_store_close(struct approval_store *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < QUERIES; i++)
		sql_done(&s->q[i]);
	free(s);
}

enum status
approval_store_begin(struct approval_store *s)
{
	return sql_begin(s->db);
}

enum status
approval_store_end(struct approval_store *s, enum status st)
{
	return sql_end(s->db, st);
}

enum status
approval_store_add(struct approval_store *s, const struct approval_wish *w,
		   uint64_t now_s, uint64_t deadline_s, uint64_t *ret_id)
{
	sqlite3_stmt *q = s->q[ADD];

	sql_bytes(q, 1, w->tenant);
	sql_bytes(q, 2, w->user);
	sql_bytes(q, 3, w->agent);
	sql_bytes(q, 4, w->on_behalf_of);
	sql_bytes(q, 5, w->session);
	sql_bytes(q, 6, w->sandbox);
	sql_bytes(q, 7, w->what);
	sql_bytes(q, 8, w->why);
	sql_bytes(q, 9, w->text);
	sql_u64(q, 10, w->level);
	sql_bytes(q, 11, str_of((const char *)w->hash, sizeof w->hash));
	sql_u64(q, 12, now_s);
	sql_u64(q, 13, deadline_s);
	enum status st = run(s, ADD);
	if (st == ST_OK)
		*ret_id = (uint64_t)sqlite3_last_insert_rowid(s->db);
	return st;
}

static enum status
count(sqlite3_stmt *q, uint64_t *ret_n)
{
	enum status st = sql_next(q);

	if (st == ST_OK)
		*ret_n = sql_get_u64(q, 0);
	(void)sqlite3_reset(q);
	(void)sqlite3_clear_bindings(q);
	return st;
}

enum status
approval_store_pending(struct approval_store *s, struct str tenant, uint64_t *ret_n)
{
	sql_bytes(s->q[PENDING], 1, tenant);
	return count(s->q[PENDING], ret_n);
}

enum status
approval_store_pending_of(struct approval_store *s, const struct approval_wish *w,
			  uint64_t *ret_n)
{
	sql_bytes(s->q[PENDING_OF], 1, w->tenant);
	sql_bytes(s->q[PENDING_OF], 2, w->user);
	sql_bytes(s->q[PENDING_OF], 3, w->on_behalf_of);
	return count(s->q[PENDING_OF], ret_n);
}

static enum status
add_grant(struct approval_store *s, uint64_t id, uint64_t expires_s)
{
	sql_u64(s->q[ADD_GRANT], 1, id);
	sql_u64(s->q[ADD_GRANT], 2, expires_s);
	return run(s, ADD_GRANT);
}

enum status
approval_store_decide(struct approval_store *s, uint64_t id,
		      const struct approval_end *e)
{
	sqlite3_stmt *q = s->q[DECIDE];

	sql_u64(q, 1, id);
	sql_u64(q, 2, e->state);
	sql_u64(q, 3, e->scope);
	sql_bytes(q, 4, e->by);
	sql_bytes(q, 5, e->note);
	sql_u64(q, 6, e->now_s);
	enum status st = change(s, DECIDE);
	if (st == ST_NOT_FOUND)
		st = ST_CONFLICT;
	if (st == ST_OK && e->state == APPROVAL_ALLOWED && e->scope != APPROVAL_ONCE)
		st = add_grant(s, id, e->expires_s);
	return st;
}

/* A blob of another length, which no row of ours has, matches nothing. */
static void
get_hash(sqlite3_stmt *q, int column, uint8_t ret_hash[32])
{
	struct str s = sql_get_bytes(q, column);

	memset(ret_hash, 0, 32);
	if (s.n == 32)
		memcpy(ret_hash, s.p, 32);
}

static struct approval_row
get_row(sqlite3_stmt *q)
{
	struct approval_row r = {
		.id = sql_get_u64(q, 0),
		.wish = { .tenant = sql_get_bytes(q, 1),
			  .user = sql_get_bytes(q, 2),
			  .agent = sql_get_bytes(q, 3),
			  .on_behalf_of = sql_get_bytes(q, 4),
			  .session = sql_get_bytes(q, 5),
			  .sandbox = sql_get_bytes(q, 6),
			  .what = sql_get_bytes(q, 7),
			  .why = sql_get_bytes(q, 8),
			  .text = sql_get_bytes(q, 9),
			  .level = (uint8_t)sql_get_u64(q, 10) },
		.state = (enum approval_state)(sql_get_u64(q, 12) % APPROVAL_STATES),
		.scope = (enum approval_scope)(sql_get_u64(q, 13) % APPROVAL_SCOPES),
		.by = sql_get_bytes(q, 14),
		.note = sql_get_bytes(q, 15),
		.asked_s = sql_get_u64(q, 16),
		.deadline_s = sql_get_u64(q, 17),
		.ended_s = sql_get_u64(q, 18),
	};

	get_hash(q, 11, r.wish.hash);
	return r;
}

enum status
approval_store_find(struct approval_store *s, uint64_t id, approval_row_fn fn,
		    void *ctx)
{
	sqlite3_stmt *q = s->q[FIND];

	if (id > INT64_MAX)
		return ST_NOT_FOUND;
	sql_u64(q, 1, id);
	enum status st = sql_next(q);
	if (st == ST_OK) {
		struct approval_row r = get_row(q);
		(void)fn(ctx, &r);
	}
	(void)sqlite3_reset(q);
	return st == ST_END ? ST_NOT_FOUND : st;
}

enum status
approval_store_each(struct approval_store *s, bool is_all, approval_row_fn fn,
		    void *ctx)
{
	sqlite3_stmt *q = s->q[is_all ? EACH : EACH_PENDING];
	enum status st;

	while ((st = sql_next(q)) == ST_OK) {
		struct approval_row r = get_row(q);
		if (!fn(ctx, &r))
			break;
	}
	(void)sqlite3_reset(q);
	return st == ST_END ? ST_OK : st;
}

static struct approval_grant
get_grant(sqlite3_stmt *q)
{
	struct approval_grant g = {
		.id = sql_get_u64(q, 0),
		.approval = sql_get_u64(q, 1),
		.tenant = sql_get_bytes(q, 2),
		.user = sql_get_bytes(q, 3),
		.session = sql_get_bytes(q, 4),
		.what = sql_get_bytes(q, 5),
		.text = sql_get_bytes(q, 6),
		.by = sql_get_bytes(q, 7),
		.scope = (enum approval_scope)(sql_get_u64(q, 8) % APPROVAL_SCOPES),
		.created_s = sql_get_u64(q, 10),
		.expires_s = sql_get_u64(q, 11),
		.on_behalf_of = sql_get_bytes(q, 12),
	};

	get_hash(q, 9, g.hash);
	return g;
}

enum status
approval_store_covered(struct approval_store *s, const struct approval_wish *w,
		       uint64_t now_s, struct approval_cover *ret_c)
{
	sqlite3_stmt *q = s->q[COVERED];

	sql_bytes(q, 1, w->tenant);
	sql_bytes(q, 2, w->user);
	sql_bytes(q, 3, str_of((const char *)w->hash, sizeof w->hash));
	sql_bytes(q, 4, w->what);
	sql_bytes(q, 5, w->session);
	sql_u64(q, 6, now_s);
	sql_bytes(q, 7, w->on_behalf_of);
	enum status st = sql_next(q);
	if (st == ST_OK) {
		struct approval_grant g = get_grant(q);
		struct str by = str_head(g.by, APPROVAL_BY_MAX);
		ret_c->approval = g.approval;
		ret_c->by_n = by.n;
		memcpy(ret_c->by, by.p, by.n);
	}
	(void)sqlite3_reset(q);
	(void)sqlite3_clear_bindings(q);
	return st == ST_END ? ST_NOT_FOUND : st;
}

enum status
approval_store_revoke(struct approval_store *s, uint64_t grant, uint64_t now_s)
{
	if (grant > INT64_MAX)
		return ST_NOT_FOUND;
	sql_u64(s->q[REVOKE], 1, grant);
	sql_u64(s->q[REVOKE], 2, now_s);
	return change(s, REVOKE);
}

enum status
approval_store_grants(struct approval_store *s, uint64_t now_s, approval_grant_fn fn,
		      void *ctx)
{
	sqlite3_stmt *q = s->q[GRANTS];
	enum status st;

	sql_u64(q, 1, now_s);
	while ((st = sql_next(q)) == ST_OK) {
		struct approval_grant g = get_grant(q);
		if (!fn(ctx, &g))
			break;
	}
	(void)sqlite3_reset(q);
	return st == ST_END ? ST_OK : st;
}

#include "proxy/control/key_store.h"

#include <openssl/crypto.h>
#include <string.h>

#include "proxy/control/principal.h"
#include "proxy/io/sql.h"

/* Columns of both: as take_principal() reads them. */
#define COLUMNS                                                                        \
	"SELECT hash, id, tenant, user, agent, scopes, may_delegate FROM keys WHERE "
/* A time that is over counts from its first second on. */
#define IS_LIVE " AND revoked_s=0 AND (expires_s=0 OR expires_s>?2)"

enum status
key_store_init(struct key_store *s, sqlite3 *db)
{
	struct key_store made = { .db = db };
	enum status st = sql_prepare(db, COLUMNS "hash=?1" IS_LIVE, &made.by_hash);

	if (st == ST_OK)
		st = sql_prepare(db, COLUMNS "id=?1" IS_LIVE, &made.by_id);
	if (st == ST_OK)
		*s = made;
	else
		key_store_done(&made);
	return st;
}

void
key_store_done(struct key_store *s)
{
	sql_done(&s->by_hash);
	sql_done(&s->by_id);
}

/* Finding. */

static enum status
take_principal(sqlite3_stmt *q, struct principal *ret_p)
{
	struct principal p = { .scopes = (unsigned)sql_get_u64(q, 5) & SCOPE_ALL,
			       .may_delegate = sql_get_u64(q, 6) == 1 };
	char *const names[] = { p.key_id, p.tenant, p.user, p.agent };

	for (size_t i = 0; i < COUNT_OF(names); i++)
		if (principal_set(names[i], sql_get_bytes(q, (int)i + 1)) != ST_OK)
			return ST_KEY_INVALID;
	if (p.user[0] == '\0')
		return ST_KEY_INVALID;
	principal_own(&p);
	*ret_p = p;
	return ST_OK;
}

/* The index has compared the hash already; whoever asks learns nothing from how long that
 * took, because he can't choose SHA-256 of what he sends.  hash NULL: by id. */
static enum status
find(sqlite3_stmt *q, struct str key, uint64_t now_s, const uint8_t *hash,
     struct principal *ret_p)
{
	enum status st;

	sql_bytes(q, 1, key);
	sql_u64(q, 2, now_s);
	st = sql_next(q);
	if (st != ST_OK)
		return st == ST_END ? ST_KEY_INVALID : st;
	struct str kept = sql_get_bytes(q, 0);
	if (hash != NULL &&
	    (kept.n != KEY_HASH || CRYPTO_memcmp(kept.p, hash, KEY_HASH) != 0))
		st = ST_KEY_INVALID;
	else
		st = take_principal(q, ret_p);
	(void)sqlite3_reset(q);
	return st;
}

enum status
key_store_find(struct key_store *s, const uint8_t hash[KEY_HASH], uint64_t now_s,
	       struct principal *ret_p)
{
	return find(s->by_hash, str_of(hash, KEY_HASH), now_s, hash, ret_p);
}

enum status
key_store_find_id(struct key_store *s, struct str id, uint64_t now_s,
		  struct principal *ret_p)
{
	return find(s->by_id, id, now_s, NULL, ret_p);
}

/* Changes. */

enum status
key_store_add(struct key_store *s, const struct key_row *k,
	      const uint8_t hash[KEY_HASH])
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db,
		"INSERT INTO keys(id, hash, tenant, user, agent, label, scopes,"
		" may_delegate, created_s, expires_s) "
		"VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)",
		&q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, k->id);
	sql_bytes(q, 2, str_of(hash, KEY_HASH));
	sql_bytes(q, 3, k->tenant);
	sql_bytes(q, 4, k->user);
	sql_bytes(q, 5, k->agent);
	sql_bytes(q, 6, k->label);
	sql_u64(q, 7, k->scopes);
	sql_u64(q, 8, k->may_delegate);
	sql_u64(q, 9, k->created_s);
	sql_u64(q, 10, k->expires_s);
	return sql_run(q);
}

/* Is there one, and has it ended? */
static enum status
state_of(struct key_store *s, struct str id, uint64_t now_s)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db,
		"SELECT revoked_s<>0 OR (expires_s<>0 AND expires_s<=?2) FROM keys"
		" WHERE id=?1",
		&q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, id);
	sql_u64(q, 2, now_s);
	st = sql_next(q);
	if (st != ST_OK)
		return st == ST_END ? ST_NOT_FOUND : st;
	return sql_get_u64(q, 0) == 0 ? ST_OK : ST_CONFLICT;
}

/* One UPDATE of a row that is there. */
static enum status
end_row(struct key_store *s, const char *text, struct str id, uint64_t at_s)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(s->db, text, &q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, id);
	sql_u64(q, 2, at_s);
	return sql_run(q);
}

enum status
key_store_revoke(struct key_store *s, struct str id, uint64_t now_s)
{
	enum status st = state_of(s, id, now_s);

	if (st != ST_OK)
		return st;
	return end_row(s, "UPDATE keys SET revoked_s=?2 WHERE id=?1", id, now_s);
}

static enum status
copy_row(struct key_store *s, const struct key_rotation *r,
	 const uint8_t hash[KEY_HASH])
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db,
		"INSERT INTO keys(id, hash, tenant, user, agent, label, scopes,"
		" may_delegate, created_s, expires_s)"
		" SELECT ?2, ?3, tenant, user, agent, label, scopes, may_delegate, ?4,"
		" CASE WHEN ?5=0 THEN expires_s ELSE ?5 END FROM keys WHERE id=?1",
		&q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, r->id);
	sql_bytes(q, 2, r->new_id);
	sql_bytes(q, 3, str_of(hash, KEY_HASH));
	sql_u64(q, 4, r->now_s);
	sql_u64(q, 5, r->expires_s);
	return sql_run(q);
}

/* With a grace the old one expires after it, or when it would have anyway. */
static enum status
rotate(struct key_store *s, const struct key_rotation *r, const uint8_t hash[KEY_HASH])
{
	enum status st = state_of(s, r->id, r->now_s);

	if (st == ST_OK)
		st = copy_row(s, r, hash);
	if (st != ST_OK)
		return st;
	if (r->grace_s == 0)
		return end_row(s, "UPDATE keys SET revoked_s=?2 WHERE id=?1", r->id,
			       r->now_s);
	return end_row(s,
		       "UPDATE keys SET expires_s=?2 WHERE id=?1"
		       " AND (expires_s=0 OR expires_s>?2)",
		       r->id, r->now_s + r->grace_s);
}

enum status
key_store_rotate(struct key_store *s, const struct key_rotation *r,
		 const uint8_t hash[KEY_HASH])
{
	enum status st = sql_begin(s->db);

	if (st == ST_OK)
		st = rotate(s, r, hash);
	return sql_end(s->db, st);
}

enum status
key_store_used(struct key_store *s, struct str id, uint64_t used_s)
{
	return end_row(s,
		       "UPDATE keys SET last_used_s=?2 WHERE id=?1 AND last_used_s<?2",
		       id, used_s);
}

/* All of them. */

static void
take_row(sqlite3_stmt *q, struct key_row *ret_k)
{
	*ret_k = (struct key_row){
		.n = sql_get_u64(q, 0),
		.id = sql_get_bytes(q, 1),
		.tenant = sql_get_bytes(q, 2),
		.user = sql_get_bytes(q, 3),
		.agent = sql_get_bytes(q, 4),
		.label = sql_get_bytes(q, 5),
		.scopes = (unsigned)sql_get_u64(q, 6) & SCOPE_ALL,
		.may_delegate = sql_get_u64(q, 7) == 1,
		.created_s = sql_get_u64(q, 8),
		.expires_s = sql_get_u64(q, 9),
		.revoked_s = sql_get_u64(q, 10),
		.last_used_s = sql_get_u64(q, 11),
	};
}

enum status
key_store_walk(struct key_store *s, uint64_t after, key_fn fn, void *ctx)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	struct key_row k;
	enum status st = sql_prepare(
		s->db,
		"SELECT n, id, tenant, user, agent, label, scopes, may_delegate,"
		" created_s, expires_s, revoked_s, last_used_s FROM keys"
		" WHERE n>?1 ORDER BY n LIMIT ?2",
		&q);

	if (st != ST_OK)
		return st;
	sql_u64(q, 1, after);
	sql_u64(q, 2, KEY_LIST_MAX);
	while ((st = sql_next(q)) == ST_OK) {
		take_row(q, &k);
		fn(ctx, &k);
	}
	return st == ST_END ? ST_OK : st;
}

#include "proxy/control/brain_store.h"

#include <string.h>
#include <sys/random.h>

#include "proxy/control/brain_db.h"

/* States. */

/* From where a sandbox may go there. */
static const unsigned sources[BRAIN_STATES] = {
	[BRAIN_PLACING] = BRAIN_BIT(BRAIN_PENDING),
	[BRAIN_PENDING] = BRAIN_BIT(BRAIN_PLACING),
	[BRAIN_RUNNING] = BRAIN_BIT(BRAIN_PLACING) | BRAIN_BIT(BRAIN_PAUSED),
	[BRAIN_PAUSED] = BRAIN_BIT(BRAIN_RUNNING),
	[BRAIN_KILLING] = BRAIN_LIVE | BRAIN_BIT(BRAIN_FAILED),
	[BRAIN_FAILED] = BRAIN_LIVE,
	[BRAIN_GONE] = BRAIN_NOT_GONE,
};

static enum status
get_state(struct brain_store *s, struct str id, enum brain_state *ret_state)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st =
		sql_prepare(s->db, "SELECT state FROM sandboxes WHERE id = ?", &q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, id);
	st = sql_next(q);
	if (st != ST_OK)
		return st == ST_END ? ST_NOT_FOUND : st;
	*ret_state = (enum brain_state)sql_get_u64(q, 0);
	return ST_OK;
}

/* Nothing was changed: since there is none, or since it is elsewhere? */
static enum status
why_not(struct brain_store *s, struct str id)
{
	enum brain_state state;
	enum status st = get_state(s, id, &state);

	return st == ST_OK ? ST_CONFLICT : st;
}

enum status
brain_store_state(struct brain_store *s, struct str id, enum brain_state to,
		  uint64_t now_s)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st;

	need(to < BRAIN_STATES);
	st = sql_prepare(
		s->db,
		"UPDATE sandboxes SET state = ?2,"
		" used_s = CASE ?2 WHEN 2 THEN max(used_s, ?3) ELSE used_s END,"
		" paused_s = CASE ?2 WHEN 2 THEN 0 WHEN 3 THEN ?3 ELSE paused_s END,"
		" gone_s = CASE ?2 WHEN 7 THEN ?3 ELSE gone_s END"
		" WHERE id = ?1 AND (?4 >> state) & 1 = 1",
		&q);
	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, id);
	sql_u64(q, 2, to);
	brain_db_number(q, 3, now_s);
	sql_u64(q, 4, sources[to]);
	st = brain_db_change(s, q);
	return st == ST_NOT_FOUND ? why_not(s, id) : st;
}

enum status
brain_store_gone(struct brain_store *s, struct str id, uint64_t now_s)
{
	enum brain_state state;
	enum status st = get_state(s, id, &state);

	if (st != ST_OK || state == BRAIN_GONE)
		return st;
	return brain_store_state(s, id, BRAIN_GONE, now_s);
}

enum status
brain_store_frozen(struct brain_store *s, struct str id, struct str snapshot,
		   uint64_t now_s)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(s->db,
				     "UPDATE sandboxes SET state = 4, snapshot = ?2,"
				     " paused_s = ?3 WHERE id = ?1 AND state IN (2, 3)",
				     &q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, id);
	sql_bytes(q, 2, snapshot);
	brain_db_number(q, 3, now_s);
	st = brain_db_change(s, q);
	return st == ST_NOT_FOUND ? why_not(s, id) : st;
}

/* Made. */

/* Its owner has it from now on.  Another's it stays: then the row that follows breaks a
 * constraint. */
static enum status
own(struct brain_store *s, struct str id, struct str server, struct str upstream)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db,
		"INSERT OR IGNORE INTO owned(server, upstream, tenant, user, since_s)"
		" SELECT ?2, ?3, tenant, user, used_s FROM sandboxes"
		" WHERE id = ?1 AND user IS NOT NULL",
		&q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, id);
	sql_bytes(q, 2, server);
	sql_bytes(q, 3, upstream);
	return brain_db_run(s, q);
}

struct made {
	struct str id, server, upstream;
	uint64_t expires_s;
};

static enum status
set_made(struct brain_store *s, const struct made *m)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db,
		"UPDATE sandboxes SET server = ?2, upstream = ?3,"
		" expires_s = CASE ?4 WHEN 0 THEN expires_s ELSE ?4 END,"
		" state = CASE WHEN state IN (0, 1, 4) THEN 2 ELSE state END,"
		" paused_s = 0, endpoints = x'' WHERE id = ?1",
		&q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, m->id);
	sql_bytes(q, 2, m->server);
	sql_bytes(q, 3, m->upstream);
	brain_db_number(q, 4, m->expires_s);
	return brain_db_change(s, q);
}

/* ret_is_late: it is told, but is not wanted any more. */
static enum status
make(struct brain_store *s, const struct made *m, bool *ret_is_late)
{
	static const unsigned wanted = BRAIN_BIT(BRAIN_PLACING) |
				       BRAIN_BIT(BRAIN_PENDING) |
				       BRAIN_BIT(BRAIN_SNAPSHOT);
	enum brain_state state;
	enum status st = get_state(s, m->id, &state);

	if (st == ST_OK && (state == BRAIN_RUNNING || state == BRAIN_PAUSED))
		st = ST_CONFLICT;
	if (st == ST_OK)
		st = own(s, m->id, m->server, m->upstream);
	if (st == ST_OK)
		st = set_made(s, m);
	if (st == ST_OK)
		*ret_is_late = (wanted >> state & 1) == 0;
	return st;
}

enum status
brain_store_made(struct brain_store *s, struct str id, struct str server,
		 struct str upstream, uint64_t expires_s)
{
	const struct made m = { id, server, upstream, expires_s };
	bool is_late = false;
	enum status st = brain_db_begin(s);

	if (st == ST_OK)
		st = brain_db_end(s, make(s, &m, &is_late));
	return st == ST_OK && is_late ? ST_CONFLICT : st;
}

/* One column. */

static enum status
set_text(struct brain_store *s, const char *query, struct str id, struct str text)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(s->db, query, &q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, id);
	sql_bytes(q, 2, text);
	return brain_db_change(s, q);
}

enum status
brain_store_touch(struct brain_store *s, struct str id, uint64_t used_s)
{
	sql_bytes(s->touch, 1, id);
	brain_db_number(s->touch, 2, used_s);
	enum status st = brain_db_lazily(s, s->touch);
	(void)sqlite3_clear_bindings(s->touch); /* they were views */
	return st;
}

enum status
brain_store_expires(struct brain_store *s, struct str id, uint64_t expires_s)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db, "UPDATE sandboxes SET expires_s = ?2 WHERE id = ?1", &q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, id);
	brain_db_number(q, 2, expires_s);
	return brain_db_change(s, q);
}

enum status
brain_store_metadata(struct brain_store *s, struct str id, struct str json,
		     const struct brain_pair *pairs, size_t n)
{
	enum status st = brain_db_begin(s);

	if (st != ST_OK)
		return st;
	st = set_text(s, "UPDATE sandboxes SET metadata = ?2 WHERE id = ?1", id, json);
	if (st == ST_OK)
		st = brain_db_labels(s, id, pairs, n);
	return brain_db_end(s, st);
}

enum status
brain_store_policy(struct brain_store *s, struct str id, struct str json)
{
	return set_text(s, "UPDATE sandboxes SET policy = ?2 WHERE id = ?1", id, json);
}

enum status
brain_store_endpoints(struct brain_store *s, struct str id, struct str json)
{
	return set_text(s, "UPDATE sandboxes SET endpoints = ?2 WHERE id = ?1", id,
			json);
}

enum status
brain_store_cost(struct brain_store *s, struct str id, const struct brain_cost *cost)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(
		s->db,
		"UPDATE sandboxes SET create_ms = ?2, pause_ms = ?3,"
		" resume_ms = ?4, snapshot_ms = ?5, freed = ?6 WHERE id = ?1",
		&q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, id);
	brain_db_number(q, 2, cost->create_ms);
	brain_db_number(q, 3, cost->pause_ms);
	brain_db_number(q, 4, cost->resume_ms);
	brain_db_number(q, 5, cost->snapshot_ms);
	if (cost->freed.is_known) /* else NULL */
		brain_db_number(q, 6, cost->freed.octets);
	return brain_db_lazily(s, q);
}

/* The rest. */

static enum status
get_secret(struct brain_store *s, struct str name, uint8_t ret_secret[BRAIN_SECRET])
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st =
		sql_prepare(s->db, "SELECT value FROM settings WHERE name = ?", &q);

	if (st != ST_OK)
		return st;
	sql_bytes(q, 1, name);
	st = sql_next(q);
	if (st != ST_OK)
		return st == ST_END ? ST_NOT_FOUND : st;
	struct str value = sql_get_bytes(q, 0);
	if (value.n != BRAIN_SECRET)
		return ST_STORE_DAMAGED;
	memcpy(ret_secret, value.p, value.n);
	return ST_OK;
}

static enum status
make_secret(struct brain_store *s, struct str name)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	uint8_t dice[BRAIN_SECRET];
	enum status st = sql_prepare(
		s->db, "INSERT OR IGNORE INTO settings(name, value) VALUES(?, ?)", &q);

	if (st != ST_OK)
		return st;
	if (getrandom(dice, sizeof dice, 0) != sizeof dice)
		return ST_SYSTEM;
	sql_bytes(q, 1, name);
	sql_bytes(q, 2, str_of(dice, sizeof dice));
	return brain_db_run(s, q);
}

enum status
brain_store_secret(struct brain_store *s, struct str name,
		   uint8_t ret_secret[BRAIN_SECRET])
{
	enum status st = get_secret(s, name, ret_secret);

	if (st != ST_NOT_FOUND)
		return st;
	st = make_secret(s, name);
	return st == ST_OK ? get_secret(s, name, ret_secret) : st;
}

enum { OWNED_FOR_S = 90 * 24 * 3600 };

/* Each forgets some that no time-out needs any more. */
static const char *const forgetting[] = {
	"DELETE FROM sandboxes WHERE n IN (SELECT n FROM sandboxes"
	" WHERE state = 7 AND gone_s < ? LIMIT 500)",
	"DELETE FROM idempotency WHERE (tenant, user, key) IN"
	" (SELECT tenant, user, key FROM idempotency WHERE expires_s <= ? LIMIT 500)",
	"DELETE FROM owned WHERE (server, upstream) IN"
	" (SELECT server, upstream FROM owned WHERE since_s < ? AND NOT EXISTS"
	" (SELECT 1 FROM sandboxes x WHERE x.server = owned.server"
	" AND x.upstream = owned.upstream) LIMIT 500)",
};

enum status
brain_store_forget(struct brain_store *s, uint64_t now_s, uint64_t gone_before_s)
{
	uint64_t since_s =
		gone_before_s > OWNED_FOR_S ? gone_before_s - OWNED_FOR_S : 0;
	const uint64_t limits[] = { gone_before_s, now_s, since_s };
	bool is_some = false;
	enum status st = ST_OK;

	for (size_t i = 0; i < COUNT_OF(forgetting) && st == ST_OK; i++) {
		CLEANUP(sql_done) sqlite3_stmt *q = NULL;
		st = sql_prepare(s->db, forgetting[i], &q);
		if (st != ST_OK)
			break;
		brain_db_number(q, 1, limits[i]);
		st = brain_db_lazily(s, q);
		is_some = is_some || st == ST_OK;
		if (st == ST_NOT_FOUND)
			st = ST_OK;
	}
	if (st != ST_OK)
		return st;
	return is_some ? ST_OK : ST_END;
}

const char *
brain_state_word(enum brain_state st)
{
	static const char *const words[BRAIN_STATES] = {
		[BRAIN_PLACING] = "placing",   [BRAIN_PENDING] = "pending",
		[BRAIN_RUNNING] = "running",   [BRAIN_PAUSED] = "paused",
		[BRAIN_SNAPSHOT] = "snapshot", [BRAIN_KILLING] = "killing",
		[BRAIN_FAILED] = "failed",     [BRAIN_GONE] = "gone",
	};

	need(st < BRAIN_STATES);
	return words[st];
}

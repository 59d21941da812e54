#ifndef PROXY_CONTROL_APPROVAL_STORE_H
#define PROXY_CONTROL_APPROVAL_STORE_H
/*
 * approval_store: the tables approvals and approval_grants of exec.db.  What is decided
 * stays so; that nobody decides on what was asked in their own name is a constraint of the
 * table too.
 *
 * Times are seconds since 1970, 0: never.
 */
#include "proxy/control/approvals.h"
#include "proxy/io/sql.h"

enum { APPROVAL_BY_MAX = 128, APPROVAL_NOTE_MAX = 1024 };

/* The numbers of both are those of the tables. */
enum approval_state {
	APPROVAL_PENDING,
	APPROVAL_ALLOWED,
	APPROVAL_DENIED,
	APPROVAL_EXPIRED,
	APPROVAL_CANCELLED,
	APPROVAL_STATES
};

enum approval_scope {
	APPROVAL_ONCE,
	APPROVAL_SESSION,
	APPROVAL_ALWAYS,
	APPROVAL_SCOPES
};

const char *approval_state_word(enum approval_state s);
const char *approval_scope_word(enum approval_scope s);
bool approval_scope_by_word(struct str word, enum approval_scope *ret_s) MUSTCHECK;

struct approval_row {
	uint64_t id;
	struct approval_wish wish;
	enum approval_state state;
	enum approval_scope scope;
	struct str by, note;
	uint64_t asked_s, deadline_s, ended_s;
};

struct approval_grant {
	uint64_t id, approval;
	struct str tenant, user, on_behalf_of, session, what, text, by;
	enum approval_scope scope;
	uint8_t hash[32];
	uint64_t created_s, expires_s;
};

struct approval_cover {    /* what lets something pass unasked */
	uint64_t approval; /* by which it was granted */
	size_t by_n;
	char by[APPROVAL_BY_MAX];
};

struct approval_end {
	enum approval_state state;
	enum approval_scope scope;
	struct str by, note;
	uint64_t now_s;
	uint64_t expires_s; /* of the grant that a wider scope makes */
};

struct approval_store;

/* db outlives it.  What was pending becomes cancelled, and what ended long ago is
 * forgotten. */
enum status approval_store_open(sqlite3 *db, uint64_t now_s,
				struct approval_store **ret_s) MUSTCHECK;
void approval_store_close(struct approval_store *s); /* NULL is fine */

/* Several calls that hold together or not at all: end them with st, ST_OK keeps them. */
enum status approval_store_begin(struct approval_store *s) MUSTCHECK;
enum status approval_store_end(struct approval_store *s, enum status st) MUSTCHECK;

enum status approval_store_add(struct approval_store *s, const struct approval_wish *w,
			       uint64_t now_s, uint64_t deadline_s,
			       uint64_t *ret_id) MUSTCHECK;
enum status approval_store_pending(struct approval_store *s, struct str tenant,
				   uint64_t *ret_n) MUSTCHECK;
/* Of the same tenant, user and on-behalf-of. */
enum status approval_store_pending_of(struct approval_store *s,
				      const struct approval_wish *w,
				      uint64_t *ret_n) MUSTCHECK;
/* ST_CONFLICT: it isn't pending, or not there.  A wider scope makes a grant. */
enum status approval_store_decide(struct approval_store *s, uint64_t id,
				  const struct approval_end *e) MUSTCHECK;

/* Views end with the call; fn returns false for enough, and calls nothing of this. */
typedef bool (*approval_row_fn)(void *ctx, const struct approval_row *r);
/* ST_NOT_FOUND. */
enum status approval_store_find(struct approval_store *s, uint64_t id,
				approval_row_fn fn, void *ctx) MUSTCHECK;
/* Pending ones, or all; the newest first. */
enum status approval_store_each(struct approval_store *s, bool is_all,
				approval_row_fn fn, void *ctx) MUSTCHECK;

/* A grant that lets this pass now.  ST_NOT_FOUND: none. */
enum status approval_store_covered(struct approval_store *s,
				   const struct approval_wish *w, uint64_t now_s,
				   struct approval_cover *ret_c) MUSTCHECK;
/* ST_NOT_FOUND: no such grant, or it is revoked. */
enum status approval_store_revoke(struct approval_store *s, uint64_t grant,
				  uint64_t now_s) MUSTCHECK;
/* Those that hold now. */
typedef bool (*approval_grant_fn)(void *ctx, const struct approval_grant *g);
enum status approval_store_grants(struct approval_store *s, uint64_t now_s,
				  approval_grant_fn fn, void *ctx) MUSTCHECK;

#endif

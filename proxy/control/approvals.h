#ifndef PROXY_CONTROL_APPROVALS_H
#define PROXY_CONTROL_APPROVALS_H
/*
 * approvals: what a person has to allow before it is done.
 *
 *	asked -> pending -> allowed | denied   a person said so
 *	                 -> expired            nobody did in time: a denial
 *	                 -> cancelled          nobody waits for it any more
 *
 * Each is a row of exec.db, written before anybody waits for it and again before its end
 * is told; what was pending when control started is cancelled.  The one who allows is never
 * the one who asks: a name of an operator that is also the asker's user (or the one on whose
 * behalf it is asked) is refused.
 *
 * An approval is for one text, by its hash.  With a scope of more than once the same text of
 * the same user (and, of `session`, in the same session) passes unasked until the grant ends
 * or is revoked.
 *
 * At most APPROVALS_USER_MAX wait of one user, APPROVALS_TENANT_MAX in a tenant and
 * APPROVALS_MAX in all: more are refused.
 */
#include "proxy/control/control.h"

struct sqlite3;
struct approval;  /* one that is waited for; control's */
struct approvals; /* control's only one */

enum {
	APPROVALS_MAX = 1024,
	APPROVALS_TENANT_MAX = 128,
	APPROVALS_USER_MAX = 32,
	APPROVALS_TEXT_MAX = 4096
};

/* All are copied. */
struct approval_wish {
	struct str tenant, user, agent, on_behalf_of, session, sandbox;
	struct str what;  /* "command", "code", "create", "host", "connector", ... */
	struct str why;   /* FILE:LINE: sentence */
	struct str text;  /* what would be done; cut to APPROVALS_TEXT_MAX */
	uint8_t level;    /* enum risk_level */
	uint8_t hash[32]; /* of the whole of it */
};

/* Views end with the call. */
struct approval_told {
	enum status st; /* ST_OK: it may; else what to refuse with */
	uint64_t id;    /* of one that a grant lets pass: by which that was granted */
	struct str by;  /* who decided; empty: nobody */
};
typedef void (*approval_fn)(void *ctx, const struct approval_told *t);

/* Of a ticket that is open on a worker's line: who asked, and of which sandbox.  False: no
 * such ticket.  Views live until the loop goes on. */
typedef bool (*approval_who_fn)(struct control *c, const struct ask_line *line,
				uint64_t ticket, struct approval_wish *ret_w);

/* db has the tables of brain_store, and outlives it.  What was pending is cancelled. */
enum status approvals_open(struct control *c, struct sqlite3 *db, approval_who_fn who,
			   struct approvals **ret_a) MUSTCHECK;
void approvals_close(struct approvals *all); /* nobody is told */

/* fn comes once, never from inside this, unless approval_drop() comes first.  ST_OK: it
 * is asked, or a grant lets it pass; else ST_LIMIT_APPROVALS, or why not. */
enum status approvals_begin(struct control *c, const struct approval_wish *w,
			    approval_fn fn, void *ctx,
			    struct approval **ret_a) MUSTCHECK;
/* Nobody waits for it any more. */
void approval_drop(struct approval *a);
uint64_t approval_id(const struct approval *a); /* 0: a grant lets it pass */

/* HOLD, and what ends one. */
void approvals_heard(struct control *c, struct ask_line *line, struct ask_msg *m);
void approvals_left(struct control *c, const struct ask_line *line, uint64_t ticket);
void approvals_line_lost(struct control *c, const struct ask_line *line);

/* What operators ask: the rows of api.def. */
void api_approvals(struct admin_conn *a);

#endif

#ifndef PROXY_CLI_LEDGER_WALK_H
#define PROXY_CLI_LEDGER_WALK_H
/*
 * ledger_walk: one walk over a ledger, for ledger_verify*.c only.  It ends at the first
 * misfit, which its result keeps.
 */
#include "proxy/cli/ledger_heads.h"
#include "proxy/cli/ledger_verify.h"
#include "proxy/io/sql.h"

#define LL(v) ((unsigned long long)(v))

struct head {
	uint64_t seq, segment;
	struct chain_hash link;
	bool is_end, is_there;
};

struct walk {
	/* When we began, before the moment of the database that we see: the last place in
	 * heads.log, was one signed there, and was there a key? */
	uint64_t logged_to;
	bool was_signed, had_key;
	bool is_awaited; /* the first signature: the misfit is that it isn't there */
	sqlite3 *db;
	sqlite3_stmt *heads, *row;
	struct head head; /* the next one to meet */
	uint64_t signed_to, last_head;
	struct ledger_keys keys; /* as of after that moment */
	struct verify_result *r;
};

/* Keep the first misfit only; always false, so that a check can return it. */
PRINTF(4, 5)
bool walk_misfit(struct walk *w, uint64_t first, uint64_t last, const char *fmt, ...);

/* ledger_verify_places.c: places noted outside of the database */
/* p of row 0: nothing is expected. */
bool walk_meets_place(struct walk *w, const struct verify_place *p, const char *where);
bool walk_meets_log(struct walk *w, const char *dir); /* heads.log */

#endif

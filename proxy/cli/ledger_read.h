#ifndef PROXY_CLI_LEDGER_READ_H
#define PROXY_CLI_LEDGER_READ_H
/*
 * ledger_read: the ledger as commands read it, also while the gateway writes it.
 */
#include "proxy/io/row.h"
#include "proxy/io/sql.h"

struct ledger_filter {
	bool denied;        /* refusals only */
	bool exec;          /* execution requests only */
	struct str sandbox; /* p NULL: all; and so the next two */
	struct str user, session;
	uint64_t since_us; /* wall clock; 0: all */
	uint64_t since_id; /* rows drawn at or after this id; 0: all */
	uint64_t after;    /* rows after this number */
	uint64_t limit;    /* the newest so many; 0: all */
};

/* false: stop. */
typedef bool (*ledger_row_fn)(void *ctx, uint64_t seq, const struct row *r);

/* Where the ledger is: below `state` if given, else where the file `config` says, else
 * in the default state directory.  Writes to standard error what is wrong. */
enum status ledger_find(const char *config, const char *state,
			struct buf *dir) MUSTCHECK;
enum status ledger_open(const char *dir, sqlite3 **ret_db) MUSTCHECK;
/* To standard error, with what the system says where it lets nobody look. */
void ledger_say_unreadable(const char *dir, enum status st);

/* In the order they were stored; erased rows are passed over. */
enum status ledger_each(sqlite3 *db, const struct ledger_filter *f, ledger_row_fn fn,
			void *ctx) MUSTCHECK;
/* ST_NOT_FOUND.  The row's views live until b changes. */
enum status ledger_by_id(sqlite3 *db, uint64_t id, struct buf *b,
			 struct row *ret_r) MUSTCHECK;

/* RFC 3339 in UTC, or so long ago: 90s, 10m, 2h, 7d. */
bool ledger_since(struct str text, uint64_t now_us, uint64_t *ret_us) MUSTCHECK;

/* One line for people; what a peer chose can't move the cursor. */
void ledger_put_line(struct buf *b, const struct row *r);
void ledger_put_clean(struct buf *b, struct str s);

#endif

#ifndef PROXY_LEDGER_HEADS_H
#define PROXY_LEDGER_HEADS_H
/*
 * heads: the signed places of the chain.  The end of each closed segment is signed,
 * and while rows come also the place where the chain stands.  Each signed place is a
 * row of the table `heads` and a line in heads.log beside the database, so that rows
 * cut off the end are missed:
 *
 *	sequence segment link signature time        (hex; signature "-": not signed)
 *
 * keeper.pub holds the key that signed first, one per line in hex; another key's
 * signature is not taken, until an operator adds the key.
 */
#include "proxy/ledger/store.h"

enum { HEADS_LOG_MAX = 1 << 20 }; /* then it becomes heads.log.1 */

struct heads {
	char *dir;       /* owned */
	uint64_t logged; /* sequence of the last line */
};

struct head {
	uint64_t seq, segment;
	struct chain_hash link;
	bool is_end; /* of its segment */
};

enum status heads_open(struct heads *h, const char *dir) MUSTCHECK;
void heads_done(struct heads *h);

/* What to sign next: ends of segments first, then where the chain stands.  ST_END: all
 * is signed. */
enum status heads_wanted(struct store *s, struct head *ret_head) MUSTCHECK;
/* ST_CONFLICT: signed with a key that is not in keeper.pub, or not signed rightly. */
enum status heads_signed(struct heads *h, struct store *s, const struct head *x,
			 struct str sig, struct str key) MUSTCHECK;
/* The keeper does not answer: note the place without a signature. */
enum status heads_unsigned(struct heads *h, const struct head *x) MUSTCHECK;

/* The last place in heads.log that the chain doesn't reach: rows were cut off its end.
 */
bool heads_is_cut(const struct heads *h, const struct store *s, uint64_t *ret_seq);

#endif

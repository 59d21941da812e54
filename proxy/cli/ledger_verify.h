#ifndef PROXY_CLI_LEDGER_VERIFY_H
#define PROXY_CLI_LEDGER_VERIFY_H
/*
 * ledger_verify: does the ledger still hold what was written?  Walks the chain from
 * the first row to the last: each payload against its digest, each digest against its
 * link, what was erased or dropped against the row that says so, each signed place
 * against the keeper's key and against the link there, then heads.log, which misses
 * rows cut off the end.
 *
 * What it can't see by itself: a ledger and a heads.log cut back together.  A place
 * noted elsewhere (`expect`) shows that too.
 */
#include "proxy/io/chain.h"

struct verify_place {
	uint64_t seq; /* 0: none */
	struct chain_hash link;
};

struct verify_result {
	bool is_whole;
	uint64_t first, last; /* else: the rows among which the first misfit is */
	char what[200];       /* and what is wrong with it */
	uint64_t rows, erased, segments, dropped, signatures;
	struct verify_place tip; /* the last row that fits */
};

/* dir: of ledger.db, heads.log, keeper.pub.  A status only when it can't be read. */
enum status ledger_verify(const char *dir, const struct verify_place *expect,
			  struct verify_result *ret_r) MUSTCHECK;

#endif

#ifndef PROXY_CLI_LEDGER_REPLAY_H
#define PROXY_CLI_LEDGER_REPLAY_H
/*
 * ledger_replay: the rows of a sandbox or session put together to what was done there,
 * step by step: how a step began, how it ended and who was asked about it.
 *
 * Rows of several processes lie in the ledger nearly in the order of time; here they are in
 * that order.  Rows of one step have one turn.  An approval has a row of its own process and a turn of
 * its own: it belongs to the next step that names it and has no beginning yet.  A step
 * may have an end only, when it was answered at once or the ledger has dropped its
 * beginning, or a beginning only, when it still runs or nobody lived to tell.
 */
#include <jansson.h>

#include "proxy/base/list.h"
#include "proxy/base/map.h"
#include "proxy/io/row.h"

enum { REPLAY_ROWS_MAX = 1 << 20 };

struct replay_row {
	struct list link; /* of its step, in the order of time */
	uint64_t seq;
	struct row r; /* views into bytes */
	struct buf bytes;
	json_t *exec; /* NULL: none that can be read */
};

struct replay_step {
	struct list link;
	uint64_t number;
	struct list rows;
	const struct replay_row *start, *end; /* or NULL; a refusal is both */
};

struct replay {
	struct list steps;
	struct replay_row **rows;
	size_t steps_n, rows_n, room;
	uint64_t last_seq, begun_us;
	struct map by_turn, by_approval; /* struct replay_step */
};

void replay_init(struct replay *r);
void replay_done(struct replay *r);
/* The next row of the ledger. */
enum status replay_add(struct replay *r, uint64_t seq, const struct row *row) MUSTCHECK;
/* All are there: puts the steps together. */
enum status replay_join(struct replay *r) MUSTCHECK;

#endif

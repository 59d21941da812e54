#ifndef PROXY_LEDGER_RATES_H
#define PROXY_LEDGER_RATES_H
/*
 * rates: how many refusals of each sandbox were stored in this second, and how many
 * more were only counted.  The second is that of the row, so the same rows give the
 * same ledger.  What is counted lies in the store's table `pending` in the same
 * transaction as everything else, so it outlives the process.
 */
#include "proxy/base/list.h"
#include "proxy/base/map.h"
#include "proxy/ledger/store.h"

struct rates {
	struct map by_sandbox; /* struct rate */
	struct list all;
	uint64_t limit; /* refusals of one sandbox that are stored in a second */
};

void rates_init(struct rates *r);
void rates_done(struct rates *r); /* and usable again */
/* What a batch that was rolled back or an earlier process had counted. */
enum status rates_load(struct rates *r, struct store *s) MUSTCHECK;

/* Count a refusal; true: it is one too many, and is counted instead of stored.  A full
 * table stores rather than counts. */
bool rates_is_over(struct rates *r, const struct row *row);
/* Within a batch: keep the counts (rates_save), write the aggregate rows of seconds
 * before this one (rates_flush; ret_n: refusals in them). */
enum status rates_save(struct rates *r, struct store *s) MUSTCHECK;
enum status rates_flush(struct rates *r, struct store *s, uint64_t second,
			uint64_t *ret_n) MUSTCHECK;
bool rates_is_idle(const struct rates *r); /* no second is open */

#endif

/* The rows that a role writes. */
#include <time.h>

#include "proxy/base/clock.h"
#include "proxy/io/role.h"

struct row
role_row_begin(struct role_self *r, enum row_kind kind, const struct who *w)
{
	uint64_t id = row_next_id(&r->ids);
	struct row row = { .id = id,
			   .turn = id,
			   .kind = kind,
			   .reason = ST_OK,
			   .time_us = clock_wall_us(),
			   .generation = r->generation };

	if (w != NULL) {
		row.sandbox = w->id;
		row.user = w->user;
		row.agent = w->agent;
		row.session = w->session;
	}
	return row;
}

#ifdef SG_BENCH_NO_RING
/* Only for measuring what the ring costs: such a build must never serve anybody. */
enum status
role_row(struct role_self *r, const struct row *row)
{
	(void)row;
	stats_add(r->stats, STAT_ROWS, 1);
	return ST_OK;
}
#else
/* A ledger that is slower than its writers for a moment slows them down: a refusal
 * would blame sandboxes for it.  One that hangs is found out when the ring is full. */
static void
breathe(const struct role_self *r, const struct row *row)
{
	static const struct timespec breath = { .tv_nsec = 2000000 };

	if (row_is_start(row) && rowring_is_crowded(r->ring))
		(void)nanosleep(&breath, NULL);
}

enum status
role_row(struct role_self *r, const struct row *row)
{
	enum status st = ST_NO_LEDGER;

	if (r->ring != NULL) {
		breathe(r, row);
		st = rowring_put(r->ring, row);
	}
	stats_add(r->stats, st == ST_OK ? STAT_ROWS : STAT_ROWS_REFUSED, 1);
	return st;
}
#endif

bool
role_has_ledger(const struct role_self *r)
{
	return r->ring != NULL && rowring_is_open(r->ring);
}

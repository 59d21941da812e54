/*
 * audit: a row before the first byte goes on, and one when it is over.  No row, no way
 * out.  Refusals are recorded by the core, for they also happen before any filter runs.
 */
#include "filters/filter.h"

static enum verdict
on_open(struct exchange *x)
{
	enum status st;

	/* A request that is sent again, on a new connection, is still one request. */
	if (x->is_started)
		return VERDICT_NEXT;
	st = x->host->record(x, RECORD_START);
	if (st != ST_OK) {
		x->reason = st;
		return VERDICT_FAIL;
	}
	x->is_started = true;
	return VERDICT_NEXT;
}

static void
on_done(struct exchange *x)
{
	/* The end of what was recorded at its start: a full ring can't undo what
	 * happened, and stops the next start. */
	if (x->is_started)
		(void)!x->host->record(x, RECORD_END);
}

const struct filter filter_audit = {
	.name = "audit",
	.needs = NEEDS_NOTHING,
	.on_open = on_open,
	.on_done = on_done,
};

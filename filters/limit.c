/*
 * limit: connections and requests of a sandbox, counted where the sandbox is.
 */
#include "filters/filter.h"

static enum verdict
take(struct exchange *x, enum filter_budget what)
{
	enum status st = x->host->take(x, what);

	return st == ST_OK ? VERDICT_NEXT : filter_deny(x, st);
}

static enum verdict
on_connection(struct exchange *x)
{
	return take(x, BUDGET_CONNECTION);
}

static enum verdict
on_request(struct exchange *x)
{
	return take(x, BUDGET_REQUEST);
}

const struct filter filter_limit = {
	.name = "limit",
	.needs = NEEDS_NOTHING,
	.on_connection = on_connection,
	.on_request = on_request,
};

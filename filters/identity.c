/*
 * identity: nobody unknown passes.  Who it is has been read from the kernel before;
 * here the answer is held against every phase, because a reload may take a sandbox
 * away.
 */
#include "filters/filter.h"

static enum verdict
known(struct exchange *x)
{
	return x->who == NULL ? filter_deny(x, ST_UNKNOWN_SANDBOX) : VERDICT_NEXT;
}

const struct filter filter_identity = {
	.name = "identity",
	.needs = NEEDS_NOTHING,
	.on_connection = known,
	.on_hello = known,
	.on_request = known,
};

#ifndef PROXY_DNS_QUOTA_H
#define PROXY_DNS_QUOTA_H
/*
 * quota: what one sandbox has in use here and how fast it may ask: a token bucket for
 * queries (burst: two seconds' worth), TCP connections, questions under way.  One more,
 * with an empty id, is shared by all sources that nobody registered.
 *
 * Who counts itself in conns or pending holds the pointer until quota_release().
 */
#include "proxy/base/list.h"
#include "proxy/base/map.h"

enum { QUOTA_PENDING = 64, QUOTA_SANDBOXES = 65536 };

struct quota {
	struct list link;
	uint64_t milli;     /* thousandths of a query that may still be asked */
	uint64_t filled_ms; /* when milli was brought up to date */
	uint64_t told_ms;   /* when the ledger last heard that the rate is over */
	uint32_t conns, pending;
	bool is_gone; /* no longer in the map */
	uint8_t id_len;
	char id[UINT8_MAX];
};

struct quotas {
	struct map by_id;
	struct list all;
};

void quotas_init(struct quotas *qs);
void quotas_done(struct quotas *qs); /* nothing may be counted any more */

/* NULL when there is no memory or place, or the id is too long: deny. */
struct quota *quotas_get(struct quotas *qs, struct str id, uint64_t now_ms);
/* The sandbox is gone. */
void quotas_forget(struct quotas *qs, struct quota *q);

bool quota_take(struct quota *q, uint64_t now_ms, uint64_t per_second);
/* True at most once a second. */
bool quota_may_tell(struct quota *q, uint64_t now_ms);
struct str quota_id(const struct quota *q);
/* After one of the counters went down. */
void quota_release(struct quota *q);

#endif

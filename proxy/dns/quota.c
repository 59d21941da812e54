#include "proxy/dns/quota.h"

#include <stdlib.h>
#include <string.h>

enum { BURST_MS = 2000, TELL_EVERY_MS = 1000 };

void
quotas_init(struct quotas *qs)
{
	map_init(&qs->by_id, QUOTA_SANDBOXES);
	list_init(&qs->all);
}

void
quotas_done(struct quotas *qs)
{
	list_each_safe (it, &qs->all)
		quotas_forget(qs, LIST_OF(it, struct quota, link));
	map_done(&qs->by_id);
}

struct str
quota_id(const struct quota *q)
{
	return str_of(q->id, q->id_len);
}

struct quota *
quotas_get(struct quotas *qs, struct str id, uint64_t now_ms)
{
	struct quota *q = map_get(&qs->by_id, id);

	if (q || id.n > sizeof(q->id))
		return q;
	q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	q->id_len = (uint8_t)id.n;
	if (id.n > 0)
		memcpy(q->id, id.p, id.n);
	/* Filled as if it had never asked anything. */
	q->filled_ms = now_ms > BURST_MS ? now_ms - BURST_MS : 0;
	if (map_put(&qs->by_id, id, q) != ST_OK) {
		free(q);
		return NULL;
	}
	list_append(&qs->all, &q->link);
	return q;
}

void
quota_release(struct quota *q)
{
	if (q->is_gone && q->conns == 0 && q->pending == 0)
		free(q);
}

void
quotas_forget(struct quotas *qs, struct quota *q)
{
	map_take(&qs->by_id, quota_id(q));
	list_remove(&q->link);
	q->is_gone = true;
	quota_release(q);
}

bool
quota_take(struct quota *q, uint64_t now_ms, uint64_t per_second)
{
	uint64_t passed = now_ms - q->filled_ms, most = per_second * BURST_MS;

	if (passed > BURST_MS)
		passed = BURST_MS;
	q->filled_ms = now_ms;
	q->milli += passed * per_second;
	if (q->milli > most)
		q->milli = most;
	if (q->milli < 1000)
		return false;
	q->milli -= 1000;
	return true;
}

bool
quota_may_tell(struct quota *q, uint64_t now_ms)
{
	if (q->told_ms != 0 && now_ms - q->told_ms < TELL_EVERY_MS)
		return false;
	q->told_ms = now_ms;
	return true;
}

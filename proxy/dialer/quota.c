#include "proxy/dialer/quota.h"

#include <stdlib.h>
#include <string.h>

void
quota_init(struct quota *q)
{
	map_init(&q->by_id, QUOTA_SANDBOXES);
}

static void
share_free(struct quota_share *s)
{
	free(s->id);
	free(s);
}

void
quota_done(struct quota *q)
{
	size_t at = 0;
	struct str key;
	void *value;

	while (map_next(&q->by_id, &at, &key, &value))
		share_free(value);
	map_done(&q->by_id);
}

static struct quota_share *
share_new(struct str id)
{
	struct quota_share *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->id = malloc(id.n + 1);
	if (s->id == NULL) {
		free(s);
		return NULL;
	}
	if (id.n > 0)
		memcpy(s->id, id.p, id.n);
	s->id_len = id.n;
	return s;
}

static struct quota_share *
share_of(struct quota *q, struct str id)
{
	struct quota_share *s = map_get(&q->by_id, id);

	if (s != NULL)
		return s;
	s = share_new(id);
	if (s != NULL && map_put(&q->by_id, id, s) != ST_OK) {
		share_free(s);
		return NULL;
	}
	return s;
}

static void
share_drop_if_unused(struct quota *q, struct quota_share *s)
{
	if (s->dials > 0 || s->lookups > 0)
		return;
	(void)map_take(&q->by_id, str_of(s->id, s->id_len));
	share_free(s);
}

enum status
quota_take_dial(struct quota *q, struct str id, uint32_t max,
		struct quota_share **ret_s)
{
	struct quota_share *s = share_of(q, id);

	if (s == NULL)
		return ST_NOMEM;
	if (s->dials >= max) {
		share_drop_if_unused(q, s);
		return ST_LIMIT_CONNECTIONS;
	}
	s->dials++;
	*ret_s = s;
	return ST_OK;
}

enum status
quota_take_lookup(struct quota *q, struct str id, uint32_t max,
		  struct quota_share **ret_s)
{
	struct quota_share *s = share_of(q, id);

	if (s == NULL)
		return ST_NOMEM;
	if (s->lookups >= max) {
		share_drop_if_unused(q, s);
		return ST_LIMIT_CONNECTIONS;
	}
	s->lookups++;
	*ret_s = s;
	return ST_OK;
}

void
quota_give_dial(struct quota *q, struct quota_share *s)
{
	need(s->dials > 0);
	s->dials--;
	share_drop_if_unused(q, s);
}

void
quota_give_lookup(struct quota *q, struct quota_share *s)
{
	need(s->lookups > 0);
	s->lookups--;
	share_drop_if_unused(q, s);
}

#ifndef PROXY_DIALER_QUOTA_H
#define PROXY_DIALER_QUOTA_H
/*
 * quota: how much of the dialer each sandbox has in use, by its id, so that one cannot
 * take what the others need.  The id, not the handle: handles of static sandboxes
 * change their meaning with a reload, and what was taken must be given back to the same
 * one.
 */
#include "proxy/base/map.h"

struct quota_share { /* one sandbox's; lives while anything is taken */
	uint32_t dials, lookups;
	size_t id_len;
	char *id;
};

struct quota {
	struct map by_id;
};

enum { QUOTA_SANDBOXES = 1 << 20 };

void quota_init(struct quota *q);
void quota_done(struct quota *q);

/* ST_LIMIT_CONNECTIONS: max are taken.  ST_NOMEM. */
enum status quota_take_dial(struct quota *q, struct str id, uint32_t max,
			    struct quota_share **ret_s) MUSTCHECK;
enum status quota_take_lookup(struct quota *q, struct str id, uint32_t max,
			      struct quota_share **ret_s) MUSTCHECK;
void quota_give_dial(struct quota *q, struct quota_share *s);
void quota_give_lookup(struct quota *q, struct quota_share *s);

#endif

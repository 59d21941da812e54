#ifndef PROXY_DNS_RECENT_H
#define PROXY_DNS_RECENT_H
/*
 * recent: what the dialer resolved for a sandbox a moment ago, so that the same
 * question needs no ask.  An entry is one sandbox's, for one name and type; it lives as
 * long as its TTL says and no longer than the policy under which it was made.  Policy
 * judges the name before each answer all the same.
 *
 * Rows: the first answer in a second has a row of its own; those that follow within
 * that second are counted, and one row tells how many they were.
 */
#include "proxy/base/list.h"
#include "proxy/base/map.h"
#include "proxy/http/dnsmsg.h"
#include "proxy/io/loop.h"
#include "proxy/io/role.h"

enum { RECENT_MAX = 4096, RECENT_KEY_MAX = 6 + 256 };

struct recent {
	struct role_self *role;
	struct loop_timer tick;
	struct map by_key;
	struct list all; /* oldest first */
};

struct recent_answer {
	struct addr addrs[DNSMSG_ADDRS_MAX];
	size_t n;
	uint32_t ttl; /* what is left of it, in seconds */
};

struct recent_question {
	uint32_t handle; /* of the sandbox */
	uint16_t type;
	struct str name; /* as dest_name() gives it */
};

void recent_init(struct recent *r, struct role_self *role, struct loop *l);
void recent_done(struct recent *r);

/* False: not known.  *ret_row: the caller writes a row, else it is counted here. */
bool recent_find(struct recent *r, const struct recent_question *q,
		 struct recent_answer *ret_a, bool *ret_row) MUSTCHECK;
/* Keep it, if there is memory and it has a TTL. */
void recent_keep(struct recent *r, const struct recent_question *q,
		 const struct recent_answer *a);
/* Of this sandbox, or of all with HANDLE_NONE; what was counted gets its row. */
void recent_forget(struct recent *r, uint32_t handle);

#endif

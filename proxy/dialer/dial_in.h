#ifndef PROXY_DIALER_DIAL_IN_H
#define PROXY_DIALER_DIAL_IN_H
/* dial_in: a dial from inside: dial.c runs it, dial_judge.c hears what is asked and says
 * whether it may go on. */
#include "conf/policy.h"
#include "proxy/dialer/dial.h"
#include "proxy/dialer/place.h"
#include "proxy/dialer/race.h"

/* The handle of a connector's own business.  Not an enum: ISO C wants those to fit int. */
#define DIAL_NOBODY UINT32_MAX

struct dial {
	struct dialer *dialer;
	struct peer *peer;
	struct list link; /* in dialer->dials */
	enum ask ask;     /* DIAL, or FETCH: for a connector */
	uint32_t seq, handle;
	int fd; /* the sandbox's own socket; -1: a connector's own business */
	struct quota_share *share;
	enum policy_way way;
	uint8_t connector_len; /* FETCH: its name; an index changes with a reload */
	char connector[STR_NAME_MAX];
	struct dest dest;   /* what is judged */
	struct dest target; /* what is dialled: dest, or the parent proxy */
	bool is_via, is_done, is_watched;
	uint8_t lookups_left;
	enum status dns_failed;   /* ST_OK: none did */
	struct place_found found; /* of the address judged last */
	struct resolve_wait wait4, wait6;
	struct loop_timer deadline, resolution;
	struct race race;
};

/* fd is the dial's from now on; NULL: no memory. */
struct dial *dial_new(struct peer *p, enum ask a, uint32_t seq, int fd);
void dial_refuse(struct dial *d,
		 enum status why); /* one that was not begun; frees it */
void dial_refuse_ask(struct peer *p, enum ask a, uint32_t seq, enum status why);
void dial_begin(struct dial *d); /* it was admitted */
void dial_fail(struct dial *d, enum status why);

/* This very address?  ctx: a dial. */
enum status dial_may(void *ctx, const struct addr *a) MUSTCHECK;
/* Whose share of the dialer it uses: a sandbox's id, or a connector's name. */
struct str dial_whose(const struct dial *d);

#endif

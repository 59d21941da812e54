#ifndef PROXY_DIALER_DIAL_IN_H
#define PROXY_DIALER_DIAL_IN_H
/* dial_in: a dial from inside: dial.c runs it, dial_judge.c hears what is asked and says
 * whether it may go on. */
#include "conf/policy.h"
#include "proxy/dialer/dial.h"
#include "proxy/dialer/place.h"
#include "proxy/dialer/race.h"

/* The handle of what is for no sandbox: a connector's own business, or a REACH.  Not an enum:
 * ISO C wants those to fit int. */
#define DIAL_NOBODY UINT32_MAX

enum { DIAL_CALLER_MAX = 64 };

struct dial {
	struct dialer *dialer;
	struct peer *peer;
	struct list link; /* in dialer->dials */
	enum ask
		ask; /* DIAL; FETCH: for a connector; REACH: to an execution server's */
	uint32_t seq, handle;
	int fd; /* the asker's own socket; -1: a connector's own business */
	struct quota_share *share;
	enum policy_way way;
	/* Of the connector (FETCH) or the server (REACH): an index changes with a reload. */
	uint8_t name_len;
	char name[STR_NAME_MAX];
	/* REACH: whose share it is: where the caller connected from. */
	uint8_t caller_len;
	char caller[DIAL_CALLER_MAX];
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
/* Whose share of the dialer it uses: a sandbox's id, or what no sandbox is called. */
struct str dial_whose(const struct dial *d);

#endif

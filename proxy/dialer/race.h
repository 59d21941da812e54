#ifndef PROXY_DIALER_RACE_H
#define PROXY_DIALER_RACE_H
/*
 * race: connect to the first of several addresses that answers (RFC 8305): IPv6 before
 * IPv4, turn by turn, the next one beside the last after a pause or at once when that
 * one failed.  Each address is put to `may` just before its connect and again when it
 * stands; only what both allow is handed over.
 *
 * Addresses may be added while it runs.  All callbacks come from the loop.
 */
#include "proxy/base/addr.h"
#include "proxy/base/list.h"
#include "proxy/io/loop.h"

enum {
	RACE_ADDRS_MAX = 32,    /* of one family */
	RACE_ATTEMPTS_MAX = 16, /* connects of one race */
};

struct race_result {
	enum status st; /* ST_OK: fd; ST_END: there was no address at all */
	int fd;         /* the receiver's; -1 */
	struct addr addr;
	uint8_t attempts;
};

struct race_hooks {
	enum status (*may)(void *ctx, const struct addr *a);
	/* Once.  The race is over; it may be cleared and its owner's death deferred. */
	void (*done)(void *ctx, const struct race_result *r);
};

struct race_queue {
	struct addr addrs[RACE_ADDRS_MAX];
	uint8_t n, next;
};

struct race {
	struct loop *loop;
	const struct race_hooks *hooks;
	void *ctx;
	struct loop_timer timer; /* the next step */
	struct race_queue v6, v4;
	struct list attempts;
	uint64_t delay_ms;
	uint32_t mark; /* SO_MARK of each connection; 0: none */
	uint16_t port;
	uint8_t last_family, attempts_n;
	bool is_running, is_complete; /* complete: no more addresses will be added */
	bool is_stepping;             /* the next step comes at the end of this turn */
	enum status refused, failed;  /* what became of those that are out */
};

void race_init(struct race *r, struct loop *l, const struct race_hooks *hooks,
	       void *ctx);
void race_clear(struct race *r); /* closes what is open; done is not called any more */

void race_set(struct race *r, uint16_t port, uint64_t delay_ms);
void race_mark(struct race *r, uint32_t mark);
void race_add(struct race *r, const struct addr *addrs, size_t n);
void race_complete(struct race *r); /* no more addresses come */
void race_run(struct race *r);      /* from now on; again after adding */
bool race_is_running(const struct race *r);

#endif

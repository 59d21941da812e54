#ifndef PROXY_CONTROL_ENROLL_H
#define PROXY_CONTROL_ENROLL_H
/*
 * enroll: sandboxes that others make and end while the gateway runs, known by the addresses
 * that they connect from.  From the answer on every role knows the sandbox; super keeps it,
 * so that a role (control too) which dies finds it again at its start.  With super it is
 * gone: who wants it enrolls it anew.
 *
 * The policy is one of the configuration; the narrowing is the sandbox's own
 * (conf/narrow.h) and can only take away from it.
 */
#include "conf/narrow.h"
#include "proxy/base/addr.h"
#include "proxy/control/control.h"

enum { ENROLL_SOURCES = 8 };

struct enroll_wish {
	struct str id; /* a name; no static or attached sandbox's */
	struct str user, agent, session, policy;
	const struct addr *sources; /* 1 to ENROLL_SOURCES */
	size_t sources_n;
	/* The text of conf/narrow.h: NULL: nothing is narrowed; one that is empty or broken
	 * denies everything. */
	const struct str *narrow;
	bool trusts_ca;
};

/* Comes once, later.  ST_OK: every role has been told before. */
typedef void (*enroll_fn)(void *ctx, enum status st, uint32_t handle);

/*
 * A sandbox that is enrolled already under this id becomes what w says (the same handle;
 * tunnels that it doesn't allow any more are closed).
 *
 * ST_CONFLICT: the id is a static or attached sandbox's, or an address is one of another
 * sandbox; ST_NO_POLICY; ST_BAD_PARAMETER; ST_TOO_BIG; ST_LIMIT_RATE: again later.  Unless
 * ST_OK fn doesn't come.
 */
enum status enroll_begin(struct control *c, const struct enroll_wish *w, enroll_fn fn,
			 void *ctx) MUSTCHECK;
/* Another narrowing for the sandbox, as in the wish.  ST_NOT_FOUND: none of this id is
 * enrolled.  Open tunnels that it forbids are closed. */
enum status enroll_narrow(struct control *c, struct str id, const struct str *narrow,
			  enroll_fn fn, void *ctx) MUSTCHECK;
/* It is gone, with its tunnels.  ST_NOT_FOUND: it was already. */
enum status enroll_end(struct control *c, struct str id, enroll_fn fn,
		       void *ctx) MUSTCHECK;
/* Who waits with this ctx waits no longer; what was asked for is done all the same. */
void enroll_forget(struct control *c, const void *ctx);

/* Is it enrolled now, and where from?  NULL: no such one. */
const struct who *enroll_find(struct control *c, struct str id);

#endif

#ifndef PROXY_DIALER_PLACE_H
#define PROXY_DIALER_PLACE_H
/*
 * place: may this very address be dialled for this sandbox and destination?  Asked just
 * before connect and again when the connection stands, so that a policy which came in
 * between counts.
 *
 * Never, whatever a rule says: the unspecified address, this gateway's own listeners,
 * and the address of another registered sandbox (a connection to it would, handed back
 * to us, read as one from it).
 */
#include "conf/who.h"
#include "proxy/dialer/geo.h"
#include "proxy/http/dest.h"

struct place { /* what judging needs */
	const struct image *image;
	struct who_table *who;
	const struct geo *countries, *networks; /* or NULL */
};

struct place_found {
	uint32_t rule; /* that allowed, or RULE_NONE */
	char country[3];
};

/* dest->port 0: any port (a DNS question). */
enum status place_judge(const struct place *p, const struct who *w,
			const struct dest *d, const struct addr *a,
			struct place_found *ret_f);

/* The same for a connector's dial; w: the sandbox that it is for, or NULL. */
enum status place_fetch(const struct place *p, uint32_t connector, const struct who *w,
			const struct dest *d, const struct addr *a,
			struct place_found *ret_f);

/* The same for an endpoint of an execution server.  It may be the address of a sandbox that
 * is registered, for its egress, too. */
enum status place_reach(const struct place *p, const struct image_exec_server *s,
			const struct dest *d, const struct addr *a,
			struct place_found *ret_f);

/* One of our own listeners, reached by this address? */
bool place_is_self(const struct image *im, const struct addr *a, uint16_t port);

/* Of two refusals the one that tells more. */
enum status place_worse(enum status a, enum status b);

#endif

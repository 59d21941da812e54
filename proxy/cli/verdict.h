#ifndef PROXY_CLI_VERDICT_H
#define PROXY_CLI_VERDICT_H
/*
 * verdict: what the gateway would say to a URL, asked of the same code in the same
 * order as the data path asks it.  Names are not resolved; what only an address can
 * decide is decided where the address is known (literals, resolver.hosts).
 *
 *	http://HOST[:PORT]/PATH   a plain HTTP request
 *	https://HOST[:PORT]/PATH  a TLS connection with that name, and where it is ended here
 *	                          the request inside
 *	HOST:PORT                 any other bytes
 */
#include "conf/policy.h"

struct verdict {
	struct dest dest;
	enum policy_way way;
	struct str method, path, query; /* views of what was asked */
	bool has_dest;
	bool is_intercepted; /* https: TLS is ended, and the request was judged too */
	struct policy_answer answer; /* of the way; before addresses */
	enum status reason;          /* in the end: ST_OK is allowed */
	uint32_t rule;               /* that decided, or RULE_NONE */
	bool has_addr;               /* an address was judged */
	struct addr addr;            /* it refused, or was the last */
	enum status
		inside; /* what is wrong with the target of https, if anything reads it */
	bool is_fetch; /* a connector dials: */
	struct dest upstream;
	bool needs_place; /* the rule looks at countries or networks: the dialer decides
			   */
};

void verdict_find(const struct image *im, struct mandate may, struct str method,
		  struct str url, struct verdict *ret_v);
bool verdict_is_allowed(const struct verdict *v);
/* When a person is asked about what is allowed, in words; NULL: never. */
const char *verdict_asks(const struct image *im, const struct verdict *v);

/* Why TLS with this name is ended here: "looks at methods, paths or query", ... and the
 * rule that makes it so; NULL: it isn't. */
const char *verdict_why_intercepted(const struct image *im, uint32_t policy,
				    const struct verdict *v, uint32_t *ret_rule);
/* What DNS would answer for the name: "an address", "NXDOMAIN", ... */
const char *verdict_dns(const struct image *im, struct mandate may,
			const struct dest *d);
/* "carried unread as TLS", ... */
const char *verdict_action(enum policy_action a);

#endif

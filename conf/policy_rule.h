#ifndef CONF_POLICY_RULE_H
#define CONF_POLICY_RULE_H
/*
 * policy_rule: one rule at a time: which rules of a policy cover a host, and whether
 * the other conditions of one hold.
 */
#include "conf/image_format.h"
#include "proxy/http/dest.h"

struct head;

/* Called for every rule whose hosts (or, for a literal, cidrs) cover the host. */
typedef void (*policy_rule_fn)(void *ctx, uint32_t index, const struct image_rule *r);

/*
 * addr: a resolved address that the cidrs of deny rules are held against as well, or
 * NULL.  Allow rules with cidrs cover literals only: what a name resolves to changes.
 */
void policy_each_rule(const struct image *im, uint32_t policy, const struct dest *d,
		      const struct addr *addr, policy_rule_fn fn, void *ctx);

/* Of deny rules method, path and query hold also for other spellings, that some server
 * may read as what is listed; of allow rules as written. */

/* No ports listed: every port (the compiler writes 443 and 80 into allow rules). */
bool policy_port_fits(const struct image *im, const struct image_rule *r,
		      uint16_t port);
bool policy_method_fits(const struct image *im, const struct image_rule *r,
			struct str m);
bool policy_path_fits(const struct image *im, const struct image_rule *r,
		      struct str path);
/* Every key of the query is listed (nothing listed: every query fits). */
bool policy_query_fits(const struct image *im, const struct image_rule *r,
		       struct str query);
/* Some key of the query may be read as one that is listed (nothing listed: every query
 * does). */
bool policy_query_meets(const struct image *im, const struct image_rule *r,
			struct str query);
/* The next key of a query with its value, as they are spelled; false: no more.  `a&&b`
 * has an empty parameter, which is none. */
bool policy_next_key(struct str *rest, struct str *ret_key, struct str *ret_value);
/* As servers that forgive read it: letters of either case, no blanks in front, and what
 * follows a bracket or a NUL is no part of the name. */
bool policy_may_be_key(struct str word, struct str key);

/* Methods that fields or the query ask for beside the request's own. */
struct policy_methods {
	const struct head *head; /* NULL: none */
	struct str query;
	size_t at; /* 0 at first */
};
bool policy_next_method(struct policy_methods *m, struct str *ret_method);

/* policy_path_rank() of the most specific of its paths that match. */
uint32_t policy_rule_rank(const struct image *im, const struct image_rule *r,
			  struct str path);
bool policy_cidrs_have(const struct image *im, uint32_t first, uint32_t n,
		       const struct addr *a, bool is_narrow);
bool policy_country_is_listed(const struct image *im, const struct image_rule *r,
			      const char country[3]);
bool policy_asn_is_listed(const struct image *im, const struct image_rule *r,
			  uint32_t asn);

/* The rule looks at what TLS hides. */
bool policy_rule_reads(const struct image_rule *r);
/* The rule looks at what only the dialer knows. */
bool policy_rule_places(const struct image_rule *r);

#endif

#ifndef PROXY_CONTROL_BRAIN_POLICY_H
#define PROXY_CONTROL_BRAIN_POLICY_H
/*
 * brain_policy: a networkPolicy of OpenSandbox as a caller may have it.
 *
 *	{"defaultAction": "deny", "egress": [{"action": "allow", "target": "*.example.test"}]}
 *
 * Ordered, the first rule that meets a destination wins, case folded; `*.NAME` is any depth
 * below NAME, not NAME itself; a target may be an address or a network.  No defaultAction,
 * and no policy at all, is deny.
 *
 * It only narrows: what the operator's policy doesn't allow, no policy of a caller does.
 * policy_narrow() writes both as one, for servers that enforce by themselves.
 */
#include <jansson.h>

#include "conf/image.h"
#include "conf/narrow.h"
#include "proxy/base/buf.h"

/* What every role can be told of one sandbox. */
enum { NETPOLICY_RULES = NARROW_RULES_MAX, NETPOLICY_TARGET = 253 };

/* The same policy in the one form that is kept: known fields only, targets in lower case.
 * ST_BAD_PARAMETER: why says what is wrong; ST_TOO_BIG: over NETPOLICY_RULES or
 * NARROW_TEXT_MAX. */
enum status netpolicy_read(const json_t *from, json_t **ret_policy,
			   struct buf *why) MUSTCHECK;
/* rules: an array of rules that go before those of the policy; an older rule for the same
 * target goes.  Of equal targets among them the first counts. */
enum status netpolicy_patch(const json_t *policy, const json_t *rules,
			    json_t **ret_policy, struct buf *why) MUSTCHECK;
/* targets: an array of texts; what isn't there is passed over. */
enum status netpolicy_delete(const json_t *policy, const json_t *targets,
			     json_t **ret_policy, struct buf *why) MUSTCHECK;

/* "allow_all", "deny_all" or "enforcing". */
const char *netpolicy_mode(const json_t *policy);
/* What the policy would let a sandbox reach, as exec_shape.hosts: n of max names, views
 * into the policy.  "*" when it says allow by default. */
size_t netpolicy_hosts(const json_t *policy, struct str *ret_hosts, size_t max);

/* An operator's policy of the image in the same form: its denials, then what it allows.
 * Rules that look at more than names and addresses are taken by their names. */
json_t *netpolicy_of_image(const struct image *im, uint32_t policy);
/* Allows exactly what both allow.  operator: of netpolicy_of_image(); policy NULL: the
 * operator's alone. */
json_t *netpolicy_narrow(const json_t *operators, const json_t *policy);
/* As conf/narrow.h reads it; NULL: everything is denied. */
void netpolicy_put_narrow(struct buf *b, const json_t *policy);
/* Of a target in the kept form: would the policy allow all of it? */
bool netpolicy_allows(const json_t *policy, struct str target);

#endif

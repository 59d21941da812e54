#ifndef CONF_DESCRIBE_H
#define CONF_DESCRIBE_H
/*
 * describe: a compiled policy told again, for whoever lives under it: the page that a
 * sandbox reads, and `explain`.
 */
#include "conf/image.h"
#include "conf/narrow.h"

/* {"name","mode","allow":[{"hosts","cidrs","ports","methods","paths","query","connector",
 *  "protocol","rule"}],"deny":[...]}; the buf fails when it is too small. */
void describe_policy(struct buf *b, const struct image *im, uint32_t policy);
/* The same of what a sandbox may, with "narrowed" (narrow_put_json()) if there is such. */
void describe_mandate(struct buf *b, const struct image *im, struct mandate may);
/* Distinct single ports of its allow rules, at most max; returns how many. */
size_t describe_ports(const struct image *im, uint32_t policy, uint16_t *ports,
		      size_t max);
void describe_rule(struct buf *b, const struct image *im, uint32_t rule);

#endif

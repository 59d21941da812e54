#ifndef CONF_RULE_PART_H
#define CONF_RULE_PART_H
/* rule_part: the lists inside a rule.  ctx is a struct rule_context. */
#include "conf/build.h"
#include "conf/policy_rule.h"

void rule_part_hosts(struct build *b, const struct node *n, void *ctx);
void rule_part_cidrs(struct build *b, const struct node *n, void *ctx);
void rule_part_ports(struct build *b, const struct node *n, void *ctx);
void rule_part_methods(struct build *b, const struct node *n, void *ctx);
void rule_part_paths(struct build *b, const struct node *n, void *ctx);
void rule_part_query(struct build *b, const struct node *n, void *ctx);
void rule_part_addresses(struct build *b, const struct node *n, void *ctx);
void rule_part_countries(struct build *b, const struct node *n, void *ctx);
void rule_part_asns(struct build *b, const struct node *n, void *ctx);

#endif

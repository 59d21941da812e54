#ifndef CONF_BUILD_OVERLAP_H
#define CONF_BUILD_OVERLAP_H
/*
 * build_overlap: how the rules of one policy lie to each other.  Private to conf/.
 *
 * Errors: a host of a connector that an allow rule reaches too (past what the connector
 * lets pass), and two connectors of which neither has the more specific path.  Warnings:
 * rules that can't change any answer.
 */
#include "conf/build.h"

void build_overlaps(struct build *b, const struct image_rule *rules, size_t rules_n);

#endif

#ifndef CONF_HOST_H
#define CONF_HOST_H
/*
 * host: a host pattern as an operator writes it: an exact name, or `*.` before one.
 * `*.x` covers any depth, not x itself.  A pattern on a public suffix would hand out
 * names that anyone may register: on one that registries run it is always refused, on
 * one of shared hosting only without `shared_suffix: true`.
 */
#include "conf/node.h"

struct host_wish {
	bool may_be_single; /* one label is enough */
	bool may_be_shared; /* shared_suffix: true */
};

struct host_pattern {
	struct str name; /* lower case, in the arena, without "*." */
	bool is_wild, is_shared;
};

/* False when something was reported. */
bool host_parse(struct arena *a, struct report *r, const struct node *n,
		const struct host_wish *wish, struct host_pattern *ret_h);

#endif

#ifndef CONF_URL_H
#define CONF_URL_H
/*
 * url: http:// or https://, a host, maybe a port and a path, as an operator writes where
 * a connector calls.  No user, no query, no fragment.
 */
#include "conf/node.h"
#include "proxy/http/dest.h"

struct url {
	bool is_plain; /* http:// */
	struct dest dest;
	struct str path; /* "" or from the first slash on */
};

/* False when something was reported. */
bool url_parse(struct report *r, const struct node *n, struct url *ret_u) MUSTCHECK;

#endif

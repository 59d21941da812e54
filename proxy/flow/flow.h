#ifndef PROXY_FLOW_FLOW_H
#define PROXY_FLOW_FLOW_H
/*
 * flow: what all engines of one process share.  One struct in the role's own, set up
 * once and passed down; nothing of it lives longer than one callback but the numbers.
 *
 * space: where a callback reads into.  Views of it are good until that callback ends,
 * so whoever reads delivers, has it flushed, and keeps the rest in a ring of its own.
 */
#include "proxy/flow/out.h"
#include "proxy/http/h1_line.h"

struct flow {
	struct loop *loop;
	char *space;
	size_t space_n;
	struct gather gather;    /* of the h1 side that is being put to, out.h; its
				    `wipes` also holds for HTTP/2 */
	struct h1_limits limits; /* of heads, both protocols; set anew by each policy */
};

#endif

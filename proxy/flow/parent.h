#ifndef PROXY_FLOW_PARENT_H
#define PROXY_FLOW_PARENT_H
/*
 * parent: speaks CONNECT to the company's parent proxy on a new connection (RFC 9110
 * section 9.3.6).  What it answers is taken exactly up to its end: the bytes behind are
 * the host's.
 */
#include "proxy/flow/flow.h"
#include "proxy/http/dest.h"
#include "proxy/http/h1_read.h"

/* ST_OK: the connection leads to the host now.  ST_PARENT_PROXY, ST_CONNECT_TIMEOUT. */
typedef void (*parent_fn)(void *ctx, enum status st);

struct parent { /* zeroed: nothing runs */
	struct flow *flow;
	struct loop_io io;
	struct loop_timer timer;
	struct h1_read reader;
	struct arena arena;
	int fd; /* its owner's */
	bool is_running;
	parent_fn fn;
	void *ctx;
};

struct parent_wish {
	int fd; /* connected, non-blocking */
	const struct dest *dest;
	uint64_t ms; /* at most so long */
};

/* fn comes once, never from inside. */
enum status parent_begin(struct parent *p, struct flow *f, const struct parent_wish *w,
			 parent_fn fn, void *ctx) MUSTCHECK;
void parent_cancel(struct parent *p); /* fn won't come; safe on a zeroed one */

#endif

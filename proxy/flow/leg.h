#ifndef PROXY_FLOW_LEG_H
#define PROXY_FLOW_LEG_H
/*
 * leg: one connection to a host, HTTP/1 or HTTP/2, that is ready for requests: dialled,
 * and its handshake done.  It makes a side for each request, one at a time or many.
 *
 * The owner (a pool) decides who may ask it what; it embeds the leg's address in a
 * record of its own and keeps it until leg_free().
 */
#include "proxy/flow/side.h"
#include "proxy/flow/stream.h"

struct leg;

struct leg_hooks {
	/*
	 * A side ended, or is_over or is_full changed: the owner looks at g->sides and g->is_over
	 * and may free the leg.  Called at the end of a done() or abort() of one of its
	 * sides, or from the leg's own callback as the last thing in it.
	 */
	void (*settled)(void *ctx, struct leg *g);
};

/* Numbers of the policy in force; read through the pointer each time. */
struct leg_limits {
	size_t window,
		connection; /* h2: what a host may send ahead: of a stream, of all */
	uint32_t streams;   /* h2: at once, whatever the host would allow */
};

struct leg_class {
	const char *name; /* "h1", "h2" */
	/* A side for one request.  ST_AGAIN: is_full; ST_END: never again; ST_NOMEM. */
	enum status (*ask)(struct leg *g, struct side **ret_s);
	/* Is there no sign that the host has closed it?  For what can't be repeated. */
	bool (*is_quiet)(struct leg *g);
	/* No side is left (its owner has ended them).  The stream is closed, memory by
	 * loop_defer. */
	void (*free)(struct leg *g);
};

struct leg {
	const struct leg_class *class;
	struct flow *flow;
	struct stream stream; /* of its own, and so is the descriptor */
	struct loop_io io;
	const struct leg_hooks *hooks;
	const struct leg_limits *limits;
	void *ctx;
	uint32_t sides;  /* that run now */
	uint32_t served; /* that ran before */
	bool is_https;   /* requests say https, and 443 is the port left out */
	bool is_full;    /* as many sides run as can */
	bool is_over;    /* takes no more requests: closed, unclean, GOAWAY */
	bool takes_ws;   /* may be asked for a WebSocket: h1, or h2 that has said so */
};

/* What a new leg is made of; copied, the stream (not yet armed) is moved into it. */
struct leg_start {
	struct flow *flow;
	struct stream *stream;
	const struct leg_hooks *hooks;
	const struct leg_limits *limits;
	void *ctx;
	bool is_https;
};

/* NULL: no memory, and the stream is still the caller's. */
struct leg *leg_h1_new(const struct leg_start *start);
struct leg *leg_h2_new(const struct leg_start *start);

static inline enum status
leg_ask(struct leg *g, struct side **ret_s)
{
	if (g->is_over)
		return ST_END;
	return g->is_full ? ST_AGAIN : g->class->ask(g, ret_s);
}

static inline void
leg_free(struct leg *g)
{
	if (g != NULL)
		g->class->free(g);
}

#endif

#ifndef PROXY_FLOW_FRONT_H
#define PROXY_FLOW_FRONT_H
/*
 * front: the client's end of one connection, HTTP/1 or HTTP/2: it makes a side for each
 * request (one at a time, or many) and deals with all that is the connection's alone:
 * preface, settings, keep-alive, GOAWAY, lingering, floods.
 *
 * The owner (a worker's conn, a connector's lane) gives the stream, its loop_io, whose
 * fn and ctx the front sets, and these functions.  Both are the front's until over(), and
 * live longer than the front.
 */
#include "proxy/flow/side.h"
#include "proxy/flow/stream.h"

/* Why a front ended a wait. */
enum front_wait { FRONT_WAIT_HEAD, FRONT_WAIT_IDLE, FRONT_WAIT_STALL };

struct front_hooks {
	/*
	 * A request begins: s is new; the owner makes a turn and sets s->events and
	 * s->ctx.  ST_OK, or why not (no memory): then the front resets that request.
	 * Comes before the first byte of the head is looked at (h1) or with the whole
	 * head (h2); head or bad follow.
	 */
	enum status (*begin)(void *ctx, struct side *s);
	/*
	 * h1, at the first bytes of a request: may they be none of ours (CONNECT on a
	 * proxy listener)?  ST_END: the owner took the connection over, front and all;
	 * ST_OK: ours.  NULL: always ours.
	 */
	enum status (*divert)(void *ctx, struct str in);
	/* The connection is at its end; is_reset: close with RST.  The front is dead,
	 * the stream is still open for the owner to close. */
	void (*over)(void *ctx, bool is_reset);
	/* h2, a stream that is a tunnel by itself (CONNECT, RFC 9113 section 8.5), as
	 * begin; NULL: a request like any other, whose method the turn refuses. */
	enum status (*connect)(void *ctx, struct side *s);
	/* A wait has been too long; what comes of it, comes behind this: what is counted
	 * here is there before the client sees an end.  NULL: nobody counts. */
	void (*waited)(void *ctx, enum front_wait why);
};

/* Numbers of the policy in force; read through the pointer each time. */
struct front_limits {
	uint64_t head_ms, keepalive_ms, stalled_ms; /* time-outs */
	uint64_t linger_bytes;     /* what a refused client may still send */
	uint32_t requests;         /* per connection */
	uint32_t streams;          /* h2: at once */
	size_t window, connection; /* h2: of a stream, of all */
	size_t heads; /* h2: memory for the heads of all requests that live */
};

struct front;

struct front_class {
	/* Once, behind new: what was read before (copied), then the stream. */
	void (*go)(struct front *f, struct str seen);
	/* About once a second.  A head that is too late: bad(ST_TIMEOUT). */
	void (*tick)(struct front *f);
	void (*drain)(
		struct front *f); /* no new requests; over when the last is done */
	/* h2: nothing of the client is read meanwhile; NULL of others. */
	void (*pause)(struct front *f, bool is_paused);
	/* The owner lets go: turns have ended or are ended by their own abort();
	 * nothing is called any more.  Memory by loop_defer. */
	void (*free)(struct front *f);
};

struct front {
	const struct front_class *class;
	struct flow *flow;
	struct stream *stream;
	struct loop_io *io;
	const struct front_hooks *hooks;
	const struct front_limits *limits;
	void *ctx;
	bool is_https;
	bool is_draining;
};

static inline void
front_go(struct front *f, struct str seen)
{
	f->class->go(f, seen);
}

static inline void
front_tick(struct front *f)
{
	f->class->tick(f);
}

static inline void
front_drain(struct front *f)
{
	f->class->drain(f);
}

static inline void
front_pause(struct front *f, bool is_paused)
{
	f->class->pause(f, is_paused);
}

/* For fronts: tells their owner. */
static inline void
front_waited(const struct front *f, enum front_wait why)
{
	if (f->hooks->waited != NULL)
		f->hooks->waited(f->ctx, why);
}

static inline void
front_free(struct front *f)
{
	if (f != NULL)
		f->class->free(f);
}

/* What a new front is made of; copied. */
struct front_start {
	struct flow *flow;
	struct stream *stream;
	struct loop_io *io;
	const struct front_hooks *hooks;
	const struct front_limits *limits;
	void *ctx;
	bool is_https;
};

/* NULL: no memory.  Nothing happens before front_go(). */
struct front *front_h1_new(const struct front_start *start);
struct front *front_h2_new(const struct front_start *start);

#endif

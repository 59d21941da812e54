#ifndef PROXY_FLOW_OUT_H
#define PROXY_FLOW_OUT_H
/*
 * out: bytes on their way into one stream.  Parts of one callback are gathered and leave
 * in one write; what the stream does not take is copied into a ring, and whoever
 * produces stops until the ring is empty.
 *
 *	gather  one callback long, shared by all outs of a process (flow.h)
 *	held    as long as the peer is slow
 *
 * A gather has parts of one out at a time: another one's turn sends what is there.
 */
#include <sys/uio.h>

#include "proxy/base/ring.h"
#include "proxy/flow/stream.h"

enum { OUT_HELD_MAX = 320 * 1024, OUT_PARTS = 48, OUT_TEXT = 4096 };

struct out {
	struct stream *to;
	struct ring held;
	uint64_t blocked_ms; /* since when the peer takes nothing; 0: it does */
	enum status st;      /* the first failure: nothing is written any more */
	bool wipes;          /* as its gather */
};

struct gather { /* zeroed: empty */
	struct out *to;
	struct iovec parts[OUT_PARTS];
	size_t parts_n;
	char text[OUT_TEXT]; /* copies of small parts */
	size_t text_n;
	bool wipes; /* what was copied is wiped: of roles that hold credentials */
};

void out_init(struct out *o, struct stream *to);
/* g: where parts of it may still be. */
void out_done(struct out *o, struct gather *g);
bool out_is_blocked(const struct out *o); /* produce nothing now */

/* What follows is o's. */
void gather_begin(struct gather *g, struct out *o);
/* s must stay where it is until gather_end() or until the next call. */
void gather_view(struct gather *g, struct str s);
void gather_copy(struct gather *g, struct str s);
/* ST_OK; ST_AGAIN: something is held, wait for LOOP_WRITE; else the peer is gone
 * (ST_END), or memory is. */
enum status gather_end(struct gather *g, struct out *o, uint64_t now_ms) MUSTCHECK;

/* The socket is writable: write what is held.  As gather_end(). */
enum status out_resume(struct out *o, uint64_t now_ms) MUSTCHECK;

#endif

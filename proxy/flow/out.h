#ifndef PROXY_FLOW_OUT_H
#define PROXY_FLOW_OUT_H
/*
 * out: bytes on their way to one socket.  Parts of one callback are gathered and leave
 * in one writev(); what the socket does not take is copied into a ring, and whoever
 * produces stops until the ring is empty.
 *
 *	gather  one callback long, on the stack
 *	held    as long as the peer is slow
 */
#include <sys/uio.h>

#include "proxy/base/ring.h"
#include "proxy/io/loop.h"

enum { OUT_HELD_MAX = 320 * 1024, OUT_PARTS = 48, OUT_TEXT = 4096 };

struct out {
	int fd;
	struct ring held;
	uint64_t blocked_ms; /* since when the peer takes nothing; 0: it does */
};

struct gather {
	struct out *to;
	struct iovec parts[OUT_PARTS];
	size_t parts_n;
	char text[OUT_TEXT]; /* copies of small parts */
	size_t text_n;
	enum status st; /* the first failure */
};

void out_init(struct out *o, int fd);
void out_done(struct out *o);
bool out_is_blocked(const struct out *o); /* produce nothing now */

void gather_begin(struct gather *g, struct out *o);
/* s must stay where it is until gather_end() or until the next call. */
void gather_view(struct gather *g, struct str s);
void gather_copy(struct gather *g, struct str s);
/* ST_OK; ST_AGAIN: something is held, wait for LOOP_WRITE; ST_END: the peer is gone. */
enum status gather_end(struct gather *g, uint64_t now_ms) MUSTCHECK;

/* The socket is writable: write what is held.  As gather_end(). */
enum status out_resume(struct out *o, uint64_t now_ms) MUSTCHECK;

#endif

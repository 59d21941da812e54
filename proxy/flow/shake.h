#ifndef PROXY_FLOW_SHAKE_H
#define PROXY_FLOW_SHAKE_H
/*
 * shake: drives the TLS handshake of one stream on the loop, for a time at most, and
 * says how it ended.  Meanwhile the loop_io is its own; afterwards nothing is armed and
 * the owner sets fn and ctx anew.
 */
#include "proxy/flow/stream.h"

/* ST_OK; ST_TIMEOUT; or how stream_handshake() failed.  May free the owner's things by
 * loop_defer() only. */
typedef void (*shake_fn)(void *ctx, enum status st);

struct shake {
	struct stream *stream;
	struct loop_io *io;
	struct loop_timer timer;
	shake_fn fn; /* NULL: not running */
	void *ctx;
	enum status at_time; /* what the timer says */
};

/* The stream is set up, io is in the loop.  fn never runs before this returns. */
void shake_begin(struct shake *k, struct stream *s, struct loop_io *io, uint64_t ms,
		 shake_fn fn, void *ctx);
/* What suspended it is there.  May call fn. */
void shake_resume(struct shake *k);
void shake_cancel(struct shake *k); /* fn won't come; safe on a zeroed one */
bool shake_is_running(const struct shake *k);

#endif

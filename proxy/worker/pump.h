#ifndef PROXY_WORKER_PUMP_H
#define PROXY_WORKER_PUMP_H
/*
 * pump: carries bytes between two descriptors, unread.  Reads into the worker's shared
 * space and writes at once; only what the other side doesn't take is held, and then
 * reading stops until it is gone.  So an idle pump owns no buffer, and a blocked one at
 * most one read's worth for each side.
 *
 *	held     bytes for this side that it hasn't taken: while not empty, the
 *	         other side isn't read
 *	is_eof   nothing more is wanted from this side: it ended, it failed, or the
 *	         other one takes nothing any more
 *	is_shut  nothing more goes to this side: it was told the end, or it failed
 *
 * A FIN travels only after all that came before it.  Over when both sides are shut.
 * When one side takes no more, what comes from it is still delivered to the other.  The
 * pump closes no descriptor.
 */
#include "proxy/base/ring.h"
#include "proxy/io/loop.h"

struct pump;

struct pump_side {
	struct loop_io *io;
	struct ring held;
	bool is_eof, is_shut;
	bool is_slow;        /* didn't take all of the last write: read less for it */
	uint64_t stalled_ms; /* since when it takes nothing of what is held; 0: it does
			      */
};

enum pump_check { PUMP_ANY, PUMP_TLS }; /* the host must answer with a TLS record */

struct pump_hooks {
	/* Both sides are finished (ST_END), or: ST_TIMEOUT idle or stalled,
	 * ST_UPSTREAM_BAD not TLS, ST_CLIENT_GONE, ST_UPSTREAM_CLOSED a reset, or what
	 * count() said.  Once, maybe from inside pump_start(). */
	void (*end)(void *ctx, enum status why);
	/* Bytes read from one side; ST_OK to go on. */
	enum status (*count)(void *ctx, uint64_t up, uint64_t down);
};

struct pump {
	struct pump_side client, host;
	struct loop *loop;
	char *space; /* shared by all pumps of the worker */
	size_t space_n;
	const struct pump_hooks *hooks;
	void *ctx;
	uint64_t moved_ms; /* last time that any byte moved */
	enum status why;   /* a side's failure; ST_END: none */
	uint8_t check;     /* enum pump_check; PUMP_ANY once it was seen */
	bool is_over;
};

/* loop, space, hooks, ctx, check are set by the caller, all else zero.  The
 * descriptors' loop_io are initialised; the pump sets their fn and ctx.  for_host and
 * for_client go first; copied as far as they are not taken at once. */
void pump_start(struct pump *p, struct loop_io *client, struct loop_io *host,
		struct str for_host, struct str for_client);
/* End what idles or stalls. */
void pump_tick(struct pump *p, uint64_t idle_ms, uint64_t stalled_ms);
void pump_done(struct pump *p); /* memory only */

#endif

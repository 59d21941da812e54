#ifndef PROXY_WORKER_PUMP_H
#define PROXY_WORKER_PUMP_H
/*
 * pump: carries bytes between two descriptors, unread.  Reads into the worker's shared
 * space and writes at once; only what the other side doesn't take is held, in a ring of
 * bounded size, and then reading stops until it is gone.  So an idle pump owns no
 *buffer.
 *
 *	side.held   bytes for this side that it hasn't taken: while not empty, the other
 *	            side isn't read
 *	is_eof      read() of this side has given 0
 *	is_shut     shutdown(SHUT_WR) was done on this side: the other is at its end and
 *	            everything held was written
 *
 * Ends when both sides are shut, or with a failure.  A FIN travels only after what came
 * before it.  The pump closes no descriptor.
 */
#include "proxy/base/ring.h"
#include "proxy/io/loop.h"

struct pump;

struct pump_side {
	struct loop_io *io;
	struct ring held;
	bool is_eof, is_shut;
};

enum pump_check { PUMP_ANY, PUMP_TLS }; /* upstream must answer with a TLS record */

/* why: ST_END both sides finished; ST_TIMEOUT idle or stalled; ST_UPSTREAM_BAD not TLS;
 * ST_CLIENT_GONE, ST_UPSTREAM_CLOSED a reset; what count() said.  Called once, maybe
 * from inside pump_start(). */
typedef void (*pump_end_fn)(void *ctx, enum status why);
/* Bytes read from one side; ST_OK to go on. */
typedef enum status (*pump_count_fn)(void *ctx, uint64_t up, uint64_t down);

struct pump {
	struct pump_side client, host;
	char *space; /* shared by all pumps of the worker */
	size_t space_n;
	struct loop *loop;
	pump_end_fn end;
	pump_count_fn count;
	void *ctx;
	uint64_t moved_ms;   /* last time that any byte moved */
	uint64_t stalled_ms; /* since when a side takes nothing that we hold; 0: it does
			      */
	uint8_t check;       /* enum pump_check; PUMP_ANY once it was seen */
	bool is_over;
};

enum { PUMP_HELD_MAX = 256 * 1024 };

/*
 * The descriptors' loop_io are initialised; the pump sets their fn and ctx.  for_host
 * and for_client are written first (copied as far as they are not taken at once).
 */
void pump_start(struct pump *p, struct loop_io *client, struct loop_io *host,
		struct str for_host, struct str for_client);
/* Close what idles or stalls: idle_ms, stalled_ms from the configuration. */
void pump_tick(struct pump *p, uint64_t idle_ms, uint64_t stalled_ms);
void pump_done(struct pump *p); /* memory only */

#endif

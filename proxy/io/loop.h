#ifndef PROXY_IO_LOOP_H
#define PROXY_IO_LOOP_H
/*
 * loop: libevent, wrapped once.  Descriptors, timers, signals, and work put off to the
 * end of the turn.  A callback never frees the object it was called for: it defers.
 *
 * loop_io and loop_timer are embedded in their owner, which clears them before it dies.
 */
#include <event2/event_struct.h>

#include "proxy/base/base.h"

struct loop;

typedef void (*loop_io_fn)(void *ctx, unsigned events); /* LOOP_READ | LOOP_WRITE */
typedef void (*loop_fn)(void *ctx);

enum { LOOP_READ = 1, LOOP_WRITE = 2 };

struct loop_io {
	struct event read, write;
	struct loop *loop; /* NULL: not in a loop */
	loop_io_fn fn;
	void *ctx;
	int fd;
	unsigned armed; /* which of LOOP_READ, LOOP_WRITE */
	bool is_poked;
};

struct loop_timer {
	struct event ev;
	struct loop *loop;
	loop_fn fn;
	void *ctx;
};

enum status loop_new(struct loop **ret_loop) MUSTCHECK;
void loop_free(struct loop *l); /* runs what was deferred first */
void loop_run(struct loop *l);  /* until loop_stop() */
void loop_stop(struct loop *l);
uint64_t loop_now_ms(const struct loop *l); /* monotonic, cached for this turn */

void loop_io_init(struct loop_io *io, struct loop *l, int fd, loop_io_fn fn, void *ctx);
void loop_io_want(struct loop_io *io, unsigned events); /* exactly these from now on */
void loop_io_clear(struct loop_io *io);                 /* the descriptor stays open */
/* Called back before others that are ready at the same time, which wait until it no longer
 * is.  Said before anything is wanted of it. */
void loop_io_first(struct loop_io *io);
/* Also call back for LOOP_READ in the loop's next turn, whatever the kernel says: bytes
 * lie ready elsewhere.  Only while LOOP_READ is wanted; forgotten when it no longer is.
 */
void loop_io_poke(struct loop_io *io);

void loop_timer_init(struct loop_timer *t, struct loop *l, loop_fn fn, void *ctx);
/* Once, from now; moves an armed one. */
void loop_timer_set(struct loop_timer *t, uint64_t ms);
void loop_timer_clear(struct loop_timer *t);
bool loop_timer_is_set(const struct loop_timer *t);

/* Run fn(ctx) after the callbacks of this turn; this is where objects die. */
void loop_defer(struct loop *l, loop_fn fn, void *ctx);

#endif

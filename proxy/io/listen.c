#include "proxy/io/listen.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "proxy/io/sock.h"

enum {
	BATCH = 64, /* connections per turn: those that are open already get theirs */
	PAUSE_MIN_MS = 10,
	PAUSE_MAX_MS = 1000,
};

struct listen {
	struct loop *loop;
	struct loop_io io;
	struct loop_timer timer; /* set: paused */
	struct stats *stats;
	listen_accepted_fn fn;
	void *ctx;
	uint64_t pause_ms; /* the next one */
	int fd;            /* -1: freed */
	int reserve;       /* -1: there was none to be had */
};

static void on_io(void *ctx, unsigned events);
static void on_timer(void *ctx);

/* A duplicate needs no permission to open anything, so it works inside the jail. */
static void
take_reserve(struct listen *ls)
{
	if (ls->reserve < 0)
		ls->reserve = fcntl(ls->fd, F_DUPFD_CLOEXEC, 0);
}

enum status
listen_new(struct loop *l, int fd, struct stats *stats, listen_accepted_fn fn,
	   void *ctx, struct listen **ret_listen)
{
	if (sock_set_nonblock(fd) != ST_OK)
		return ST_SYSTEM;
	struct listen *ls = malloc(sizeof *ls);
	if (ls == NULL)
		return ST_NOMEM;
	*ls = (struct listen){ .loop = l,
			       .stats = stats,
			       .fn = fn,
			       .ctx = ctx,
			       .fd = fd,
			       .reserve = -1,
			       .pause_ms = PAUSE_MIN_MS };
	take_reserve(ls);
	loop_io_init(&ls->io, l, fd, on_io, ls);
	loop_timer_init(&ls->timer, l, on_timer, ls);
	loop_io_want(&ls->io, LOOP_READ);
	*ret_listen = ls;
	return ST_OK;
}

void
listen_free(struct listen *ls)
{
	if (ls == NULL || ls->fd < 0)
		return;
	loop_io_clear(&ls->io);
	loop_timer_clear(&ls->timer);
	(void)close(ls->fd);
	if (ls->reserve >= 0)
		(void)close(ls->reserve);
	ls->fd = ls->reserve = -1;
	loop_defer(ls->loop, free, ls);
}

static void
update(struct listen *ls)
{
	loop_io_want(&ls->io, loop_timer_is_set(&ls->timer) ? 0 : LOOP_READ);
}

/* The client that waited longest learns at once that there is no room. */
static void
shed_one(struct listen *ls)
{
	struct sockaddr_storage peer;
	int fd;

	if (ls->reserve < 0)
		return;
	(void)close(ls->reserve);
	ls->reserve = -1;
	if (sock_accept(ls->fd, &peer, &fd) == ST_OK)
		(void)close(fd);
	take_reserve(ls);
}

static void
pause_accepting(struct listen *ls)
{
	stats_add(ls->stats, STAT_ACCEPT_PAUSED, 1);
	loop_timer_set(&ls->timer, ls->pause_ms);
	ls->pause_ms =
		ls->pause_ms * 2 > PAUSE_MAX_MS ? PAUSE_MAX_MS : ls->pause_ms * 2;
	update(ls);
}

static void
on_timer(void *ctx)
{
	struct listen *ls = ctx;

	take_reserve(ls);
	update(ls);
}

static void
on_io(void *ctx, unsigned events)
{
	struct listen *ls = ctx;
	struct sockaddr_storage peer;
	int fd;

	(void)events;
	for (int i = 0; i < BATCH && ls->fd >= 0; i++) {
		enum status st = sock_accept(ls->fd, &peer, &fd);
		if (st == ST_AGAIN)
			return;
		if (st == ST_CLIENT_GONE)
			continue;
		if (st != ST_OK) { /* a broken listener too: it must not spin */
			if (st == ST_NO_FILES)
				shed_one(ls);
			pause_accepting(ls);
			return;
		}
		ls->pause_ms = PAUSE_MIN_MS;
		stats_add(ls->stats, STAT_ACCEPTED, 1);
		ls->fn(ls->ctx, fd, &peer);
	}
}

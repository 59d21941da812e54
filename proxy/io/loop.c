#include "proxy/io/loop.h"

#include <stdlib.h>

#include <event2/event.h>

#include "proxy/base/clock.h"

/* libevent gives an event half of PRIORITIES if nothing else is said. */
enum { PRIORITY_FIRST = 0, PRIORITIES = 2 };

struct work {
	loop_fn fn;
	void *ctx;
};

/* Work put off: `due` is being run while `next` is added to. */
struct pile {
	struct work *p;
	size_t n, cap;
};

struct loop {
	struct event_base *base;
	struct pile next, due;
	uint64_t
		*now_ms; /* 0: not asked in this turn; apart, so that asking is const */
	bool is_stopped;
};

enum status
loop_new(struct loop **ret_loop)
{
	struct loop *l = calloc(1, sizeof *l);
	struct event_config *conf = event_config_new();

	/* No change list: descriptors that other processes hold too may stay in epoll
	 * after close(), which the change list doesn't see (event_config_set_flag(3)).
	 */
	if (conf != NULL && event_config_set_flag(conf, EVENT_BASE_FLAG_NOLOCK) == 0 &&
	    l)
		l->base = event_base_new_with_config(conf);
	if (conf != NULL)
		event_config_free(conf);
	if (l != NULL)
		l->now_ms = calloc(1, sizeof *l->now_ms);
	if (l == NULL || l->base == NULL || l->now_ms == NULL ||
	    event_base_priority_init(l->base, PRIORITIES) != 0) {
		loop_free(l);
		return ST_NOMEM;
	}
	*ret_loop = l;
	return ST_OK;
}

static void
run_deferred(struct loop *l)
{
	struct pile now = l->next;

	l->next = l->due;
	l->due = now;
	for (size_t i = 0; i < now.n; i++)
		now.p[i].fn(now.p[i].ctx);
	l->due.n = 0;
}

void
loop_free(struct loop *l)
{
	if (l == NULL)
		return;
	while (l->next.n > 0)
		run_deferred(l);
	if (l->base != NULL)
		event_base_free(l->base);
	free(l->next.p);
	free(l->due.p);
	free(l->now_ms);
	free(l);
}

void
loop_run(struct loop *l)
{
	l->is_stopped = false;
	while (!l->is_stopped) {
		*l->now_ms = 0;
		int flags = EVLOOP_ONCE | (l->next.n > 0 ? EVLOOP_NONBLOCK : 0);
		int rc = event_base_loop(l->base, flags);
		if (rc != 0 && l->next.n == 0)
			break; /* nothing is registered: nothing can ever happen */
		run_deferred(l);
	}
}

void
loop_stop(struct loop *l)
{
	l->is_stopped = true;
	/* What comes first and is still ready would else come again before the others. */
	(void)event_base_loopbreak(l->base);
}

uint64_t
loop_now_ms(const struct loop *l)
{
	if (*l->now_ms == 0)
		*l->now_ms = clock_mono_ms();
	return *l->now_ms;
}

/* The event persists, and so would its time-out. */
static void
unpoke(struct loop_io *io)
{
	if (io->is_poked)
		(void)event_remove_timer(&io->read);
	io->is_poked = false;
}

static void
on_event(evutil_socket_t fd, short what, void *arg)
{
	struct loop_io *io = arg;
	unsigned events = (what & EV_WRITE) != 0 ? LOOP_WRITE : 0u;

	(void)fd;
	/* A time-out takes the event out, and one of no length doesn't bring it back. */
	if ((what & EV_TIMEOUT) != 0 && event_add(&io->read, NULL) != 0)
		io->armed &= ~(unsigned)LOOP_READ;
	if ((what & (EV_READ | EV_TIMEOUT)) != 0) {
		events |= LOOP_READ;
		unpoke(io);
	}
	io->fn(io->ctx, events);
}

void
loop_io_init(struct loop_io *io, struct loop *l, int fd, loop_io_fn fn, void *ctx)
{
	*io = (struct loop_io){ .loop = l, .fn = fn, .ctx = ctx, .fd = fd };
	need(event_assign(&io->read, l->base, fd, EV_READ | EV_PERSIST, on_event, io) ==
	     0);
	need(event_assign(&io->write, l->base, fd, EV_WRITE | EV_PERSIST, on_event,
			  io) == 0);
}

void
loop_io_first(struct loop_io *io)
{
	need(io->armed == 0 && event_priority_set(&io->read, PRIORITY_FIRST) == 0);
}

/* Each change is a system call, so only what differs is told.  An event that the kernel
 * refuses (no watches left) stays unarmed: the owner's time-out ends that flow. */
static void
arm(struct loop_io *io, struct event *ev, unsigned bit, unsigned events)
{
	if ((io->armed & bit) == (events & bit))
		return;
	if ((events & bit) == 0)
		(void)event_del(ev);
	else if (event_add(ev, NULL) != 0)
		return;
	io->armed ^= bit;
}

void
loop_io_want(struct loop_io *io, unsigned events)
{
	need(io->loop != NULL);
	if ((events & LOOP_READ) == 0)
		unpoke(io);
	arm(io, &io->read, LOOP_READ, events);
	arm(io, &io->write, LOOP_WRITE, events);
}

void
loop_io_clear(struct loop_io *io)
{
	if (io->loop == NULL)
		return;
	/* Deleting also takes back an event that is active but not yet delivered. */
	(void)event_del(&io->read);
	(void)event_del(&io->write);
	io->armed = 0;
	io->is_poked = false;
	io->loop = NULL;
}

void
loop_io_poke(struct loop_io *io)
{
	static const struct timeval now = { 0, 0 };

	/* One that could not be armed has no event to carry the time-out. */
	if ((io->armed & LOOP_READ) != 0 && event_add(&io->read, &now) == 0)
		io->is_poked = true;
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct loop_timer *t = arg;

	(void)fd;
	(void)what;
	t->fn(t->ctx);
}

void
loop_timer_init(struct loop_timer *t, struct loop *l, loop_fn fn, void *ctx)
{
	*t = (struct loop_timer){ .loop = l, .fn = fn, .ctx = ctx };
	need(evtimer_assign(&t->ev, l->base, on_timer, t) == 0);
}

void
loop_timer_set(struct loop_timer *t, uint64_t ms)
{
	struct timeval tv = { .tv_sec = (time_t)(ms / 1000),
			      .tv_usec = (suseconds_t)(ms % 1000 * 1000) };

	need(t->loop != NULL);
	/* Only memory can be missing here, and a lost time-out would hold a flow open
	 * for ever: the process ends and is started again. */
	need(evtimer_add(&t->ev, &tv) == 0);
}

void
loop_timer_clear(struct loop_timer *t)
{
	if (t->loop != NULL)
		(void)evtimer_del(&t->ev);
}

bool
loop_timer_is_set(const struct loop_timer *t)
{
	return t->loop != NULL && evtimer_pending(&t->ev, NULL);
}

void
loop_defer(struct loop *l, loop_fn fn, void *ctx)
{
	struct pile *pile = &l->next;

	if (pile->n == pile->cap) {
		size_t cap = pile->cap ? pile->cap * 2 : 64;
		struct work *p = realloc(pile->p, cap * sizeof *p);
		/* Running fn now would free what the caller still uses. */
		need(p != NULL);
		pile->p = p;
		pile->cap = cap;
	}
	pile->p[pile->n++] = (struct work){ fn, ctx };
}

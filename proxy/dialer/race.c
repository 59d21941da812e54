#include "proxy/dialer/race.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/dialer/mark.h"
#include "proxy/dialer/place.h"

struct attempt {
	struct race *race;
	struct list link;
	struct loop_io io;
	struct addr addr;
};

static void on_step(void *ctx);

/* Put off to the end of the turn.  Cleared in between, the race lives at least that
 * long: who frees it puts that off too, and behind this. */
static void
on_soon(void *ctx)
{
	struct race *r = ctx;

	if (r->is_stepping)
		on_step(r);
}

static void
step_soon(struct race *r)
{
	if (r->is_stepping)
		return;
	r->is_stepping = true;
	loop_defer(r->loop, on_soon, r);
}

void
race_init(struct race *r, struct loop *l, const struct race_hooks *hooks, void *ctx)
{
	*r = (struct race){ .loop = l, .hooks = hooks, .ctx = ctx };
	list_init(&r->attempts);
	loop_timer_init(&r->timer, l, on_step, r);
}

void
race_set(struct race *r, uint16_t port, uint64_t delay_ms)
{
	r->port = port;
	r->delay_ms = delay_ms;
}

void
race_mark(struct race *r, uint32_t mark)
{
	r->mark = mark;
}

/* Out of the race at once; its memory goes at the end of the turn, for the loop may be
 * in its callback. */
static int
attempt_take(struct attempt *a)
{
	int fd = a->io.fd;

	loop_io_clear(&a->io);
	list_remove(&a->link);
	loop_defer(a->race->loop, free, a);
	return fd;
}

void
race_clear(struct race *r)
{
	loop_timer_clear(&r->timer);
	r->is_stepping = false;
	list_each_safe (it, &r->attempts) {
		int fd = attempt_take(LIST_OF(it, struct attempt, link));
		(void)close(fd);
	}
	r->is_running = false;
}

void
race_add(struct race *r, const struct addr *addrs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct race_queue *q = addrs[i].family == 4 ? &r->v4 : &r->v6;
		if (q->n < RACE_ADDRS_MAX)
			q->addrs[q->n++] = addrs[i];
	}
}

void
race_complete(struct race *r)
{
	r->is_complete = true;
}

bool
race_is_running(const struct race *r)
{
	return r->is_running;
}

void
race_run(struct race *r)
{
	bool waits = loop_timer_is_set(&r->timer);

	r->is_running = true;
	/* The pause before the next address goes on; nothing to wait for, go at once.
	 */
	if (!waits || list_is_empty(&r->attempts))
		step_soon(r);
}

static bool
next_addr(struct race *r, struct addr *ret_a)
{
	bool has_v6 = r->v6.next < r->v6.n, has_v4 = r->v4.next < r->v4.n;
	bool is_v6 = has_v6 && (r->last_family != 6 || !has_v4);
	struct race_queue *q = is_v6 ? &r->v6 : &r->v4;

	if ((!has_v6 && !has_v4) || r->attempts_n >= RACE_ATTEMPTS_MAX)
		return false;
	*ret_a = q->addrs[q->next++];
	r->last_family = is_v6 ? 6 : 4;
	return true;
}

static enum status
status_of_errno(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return ST_CONNECT_REFUSED;
	case ETIMEDOUT:
		return ST_CONNECT_TIMEOUT;
	case EMFILE:
	case ENFILE:
		return ST_NO_FILES;
	case ENOMEM:
	case ENOBUFS:
		return ST_NOMEM;
	default:
		return ST_CONNECT_FAILED;
	}
}

/* A refusal by the host tells more than a route that isn't there (no IPv6 here). */
static void
note_failure(struct race *r, int error)
{
	enum status st = status_of_errno(error);

	if (r->failed == ST_OK || r->failed == ST_CONNECT_FAILED)
		r->failed = st;
}

static void
finish(struct race *r, const struct race_result *result)
{
	race_clear(r);
	r->hooks->done(r->ctx, result);
}

static void
fail(struct race *r)
{
	struct race_result result = { .st = ST_END,
				      .fd = -1,
				      .attempts = r->attempts_n };

	if (r->failed != ST_OK)
		result.st = r->failed;
	else if (r->refused != ST_OK)
		result.st = r->refused;
	finish(r, &result);
}

static void
on_connected(void *ctx, unsigned events)
{
	struct attempt *a = ctx;
	struct race *r = a->race;
	struct race_result result = { .st = ST_OK, .addr = a->addr };
	int error = 0;
	socklen_t n = sizeof(error);

	(void)events;
	int fd = attempt_take(a);
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) == -1)
		error = errno;
	if (error == 0) {
		enum status st = r->hooks->may(r->ctx, &result.addr);
		if (st == ST_OK) {
			result.fd = fd;
			result.attempts = r->attempts_n;
			finish(r, &result);
			return;
		}
		r->refused = place_worse(r->refused, st);
	} else {
		note_failure(r, error);
	}
	(void)close(fd);
	step_soon(r);
}

static int
begin_connect(const struct race *r, const struct addr *a)
{
	struct sockaddr_storage ss;
	socklen_t n = addr_to_sockaddr(a, r->port, &ss);
	int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd == -1)
		return -1;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (mark_set(fd, r->mark) == ST_OK &&
	    (connect(fd, (const struct sockaddr *)&ss, n) == 0 || errno == EINPROGRESS))
		return fd;
	int error = errno;
	(void)close(fd);
	errno = error;
	return -1;
}

/* True: a connect is on its way. */
static bool
try_addr(struct race *r, const struct addr *addr)
{
	enum status st = r->hooks->may(r->ctx, addr);

	if (st != ST_OK) {
		r->refused = place_worse(r->refused, st);
		return false;
	}
	struct attempt *a = calloc(1, sizeof(*a));
	if (a == NULL) {
		note_failure(r, ENOMEM);
		return false;
	}
	r->attempts_n++;
	int fd = begin_connect(r, addr);
	if (fd == -1) {
		note_failure(r, errno);
		free(a);
		return false;
	}
	a->race = r;
	a->addr = *addr;
	list_append(&r->attempts, &a->link);
	loop_io_init(&a->io, r->loop, fd, on_connected, a);
	loop_io_want(&a->io, LOOP_WRITE);
	return true;
}

static void
on_step(void *ctx)
{
	struct race *r = ctx;
	struct addr a;

	loop_timer_clear(&r->timer);
	r->is_stepping = false;
	while (next_addr(r, &a)) {
		if (try_addr(r, &a)) {
			loop_timer_set(&r->timer, r->delay_ms);
			return;
		}
	}
	if (list_is_empty(&r->attempts) && r->is_complete)
		fail(r);
}

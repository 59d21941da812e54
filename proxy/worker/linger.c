#include "proxy/worker/linger.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "proxy/base/ring.h"

enum { LINGER_MS = 5000, LINGER_WORDS_MAX = 65536 };

struct linger_state {
	struct ring words;
	struct loop_timer timer;
	uint64_t dropped;
	bool is_shut;
};

static void
linger_free(void *ctx)
{
	struct linger_state *s = ctx;

	ring_done(&s->words);
	free(s);
}

static void
linger_done(struct conn *c)
{
	struct linger_state *s = c->state;

	loop_timer_clear(&s->timer);
	loop_defer(c->w->loop, linger_free, s);
}

static void
linger_nothing(struct conn *c)
{
	(void)c; /* it is as good as closed, and its deadline is near */
}

static const struct conn_owner linger_owner = {
	.name = "linger",
	.judge = linger_nothing,
	.drain = linger_nothing,
	.done = linger_done,
};

/* False: the peer is gone. */
static bool
linger_write(struct conn *c, struct linger_state *s)
{
	while (!ring_is_empty(&s->words)) {
		struct str part = ring_peek(&s->words);
		ssize_t n = send(c->io.fd, part.p, part.n, MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		ring_consume(&s->words, (size_t)n);
	}
	if (!s->is_shut) {
		s->is_shut = true;
		(void)shutdown(c->io.fd, SHUT_WR);
	}
	return true;
}

/* False: the peer has closed, or sends more than we care to read. */
static bool
linger_read(struct conn *c, struct linger_state *s)
{
	ssize_t n = recv(c->io.fd, c->w->space, WORKER_SPACE, 0);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	s->dropped += (uint64_t)n;
	return n > 0 && s->dropped <= worker_option(c->w, OPT_LIMIT_DENIED_DRAIN);
}

static void
on_event(void *ctx, unsigned events)
{
	struct conn *c = ctx;
	struct linger_state *s = c->state;
	bool goes_on = true;

	if ((events & LOOP_WRITE) != 0)
		goes_on = linger_write(c, s);
	if (goes_on && (events & LOOP_READ) != 0)
		goes_on = linger_read(c, s);
	if (!goes_on) {
		conn_close(c);
		return;
	}
	loop_io_want(&c->io, LOOP_READ | (ring_is_empty(&s->words) ? 0 : LOOP_WRITE));
}

static void
on_timer(void *ctx)
{
	conn_close(ctx);
}

void
linger_start(struct conn *c, struct str words)
{
	struct linger_state *s = calloc(1, sizeof(*s));

	need(words.n <= LINGER_WORDS_MAX);
	if (s == NULL) {
		conn_close(c);
		return;
	}
	ring_init(&s->words, LINGER_WORDS_MAX);
	loop_timer_init(&s->timer, c->w->loop, on_timer, c);
	conn_take(c, &linger_owner, s, on_event);
	if (ring_write(&s->words, words) < words.n) {
		conn_close(c);
		return;
	}
	loop_timer_set(&s->timer, LINGER_MS);
	on_event(c, LOOP_WRITE);
}

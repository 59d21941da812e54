#include "proxy/worker/pump.h"

#include <errno.h>
#include <sys/socket.h>

#include "proxy/base/num.h"

enum {
	PUMP_READS = 2, /* full reads of one side in one turn: others wait too */
	PUMP_SLOW_READ = 16384, /* how much is read for a side that lags */
};

static void
pump_end(struct pump *p, enum status why)
{
	if (p->is_over)
		return;
	p->is_over = true;
	loop_io_want(p->client.io, 0);
	loop_io_want(p->host.io, 0);
	p->hooks->end(p->ctx, why);
}

static struct pump_side *
pump_other(struct pump *p, const struct pump_side *s)
{
	return s == &p->client ? &p->host : &p->client;
}

/* Nothing goes to s any more, and so nothing needs to be read for it. */
static void
pump_deaf(struct pump *p, struct pump_side *s)
{
	s->is_shut = true;
	ring_done(&s->held);
	s->stalled_ms = 0;
	pump_other(p, s)->is_eof = true;
}

/* s failed in both directions; what it sent before is still delivered. */
static void
pump_dead(struct pump *p, struct pump_side *s)
{
	pump_deaf(p, s);
	s->is_eof = true;
	if (p->why == ST_END)
		p->why = s == &p->client ? ST_CLIENT_GONE : ST_UPSTREAM_CLOSED;
}

static bool
is_transient(int error)
{
	return error == EAGAIN || error == EINTR || error == ENOBUFS || error == ENOMEM;
}

/* Send what s takes of bytes; returns how much.  A failure makes it deaf. */
static size_t
pump_send(struct pump *p, struct pump_side *s, struct str bytes)
{
	ssize_t n = send(s->io->fd, bytes.p, bytes.n, MSG_NOSIGNAL);

	if (n >= 0)
		return (size_t)n;
	if (!is_transient(errno))
		pump_deaf(p, s);
	return 0;
}

/* Give bytes to s: write at once, hold the rest. */
static void
pump_give(struct pump *p, struct pump_side *s, struct str bytes)
{
	size_t sent;

	if (bytes.n == 0 || s->is_shut)
		return;
	need(ring_is_empty(&s->held));
	sent = pump_send(p, s, bytes);
	if (s->is_shut)
		return;
	s->is_slow = sent < bytes.n;
	if (!s->is_slow)
		return;
	bytes = str_skip(bytes, sent);
	ring_init(&s->held, bytes.n);
	s->stalled_ms = loop_now_ms(p->loop);
	if (ring_write(&s->held, bytes) < bytes.n)
		pump_end(p, ST_NOMEM);
}

static void
pump_flush(struct pump *p, struct pump_side *s)
{
	while (!ring_is_empty(&s->held)) {
		struct str part = ring_peek(&s->held);
		size_t sent = pump_send(p, s, part);

		if (s->is_shut)
			return;
		if (sent > 0)
			s->stalled_ms = loop_now_ms(p->loop);
		ring_consume(&s->held, sent);
		if (sent < part.n)
			return;
	}
	s->stalled_ms = 0;
	ring_done(&s->held);
}

/* The first byte of an answer must be a TLS handshake or alert record: a tunnel that
 * was allowed for TLS carries nothing else. */
static bool
pump_is_answer(const struct pump *p, const struct pump_side *from, const char *bytes)
{
	return p->check != PUMP_TLS || from != &p->host || bytes[0] == 0x16 ||
	       bytes[0] == 0x15;
}

/* One read of `from`.  True when there may be more right away. */
static bool
pump_read_once(struct pump *p, struct pump_side *from)
{
	bool is_client = from == &p->client;
	struct pump_side *to = pump_other(p, from);
	size_t want = to->is_slow ? num_min(PUMP_SLOW_READ, p->space_n) : p->space_n;
	ssize_t n = recv(from->io->fd, p->space, want, 0);
	enum status st;

	if (n == 0)
		from->is_eof = true;
	if (n < 0 && !is_transient(errno))
		pump_dead(p, from);
	if (n <= 0)
		return false;
	if (!pump_is_answer(p, from, p->space)) {
		pump_end(p, ST_UPSTREAM_BAD);
		return false;
	}
	if (!is_client)
		p->check = PUMP_ANY;
	st = p->hooks->count(p->ctx, is_client ? (uint64_t)n : 0,
			     is_client ? 0 : (uint64_t)n);
	pump_give(p, to, str_of(p->space, (size_t)n));
	if (st != ST_OK)
		pump_end(p, st);
	/* A short read has emptied the socket: no second call to hear EAGAIN. */
	return (size_t)n == want && !from->is_eof && ring_is_empty(&to->held);
}

static void
pump_read(struct pump *p, struct pump_side *from)
{
	for (int i = 0; i < PUMP_READS && !p->is_over; i++)
		if (!pump_read_once(p, from))
			return;
}

/* Tell s the end once the other has ended and all of it was written. */
static void
pump_shut(struct pump *p, struct pump_side *s)
{
	if (s->is_shut || !pump_other(p, s)->is_eof || !ring_is_empty(&s->held))
		return;
	s->is_shut = true;
	(void)shutdown(s->io->fd, SHUT_WR);
}

static void
pump_want(struct pump *p, struct pump_side *s)
{
	unsigned events = 0;

	if (!s->is_eof && ring_is_empty(&pump_other(p, s)->held))
		events |= LOOP_READ;
	if (!ring_is_empty(&s->held))
		events |= LOOP_WRITE;
	loop_io_want(s->io, events);
}

static void
pump_settle(struct pump *p)
{
	if (p->is_over)
		return;
	pump_shut(p, &p->client);
	pump_shut(p, &p->host);
	if (p->client.is_shut && p->host.is_shut) {
		pump_end(p, p->why);
		return;
	}
	pump_want(p, &p->client);
	pump_want(p, &p->host);
}

static void
pump_event(struct pump *p, struct pump_side *s, unsigned events)
{
	if (p->is_over)
		return;
	p->moved_ms = loop_now_ms(p->loop);
	if ((events & LOOP_WRITE) != 0)
		pump_flush(p, s);
	if ((events & LOOP_READ) != 0 && !s->is_eof &&
	    ring_is_empty(&pump_other(p, s)->held))
		pump_read(p, s);
	pump_settle(p);
}

static void
on_client(void *ctx, unsigned events)
{
	struct pump *p = ctx;

	pump_event(p, &p->client, events);
}

static void
on_host(void *ctx, unsigned events)
{
	struct pump *p = ctx;

	pump_event(p, &p->host, events);
}

void
pump_start(struct pump *p, struct loop_io *client, struct loop_io *host,
	   struct str for_host, struct str for_client)
{
	p->client.io = client;
	p->host.io = host;
	client->fn = on_client;
	host->fn = on_host;
	client->ctx = host->ctx = p;
	p->why = ST_END;
	p->moved_ms = loop_now_ms(p->loop);
	pump_give(p, &p->host, for_host);
	pump_give(p, &p->client, for_client);
	pump_settle(p);
}

static bool
is_stalled(const struct pump_side *s, uint64_t now, uint64_t stalled_ms)
{
	return s->stalled_ms != 0 && now - s->stalled_ms >= stalled_ms;
}

void
pump_tick(struct pump *p, uint64_t idle_ms, uint64_t stalled_ms)
{
	uint64_t now = loop_now_ms(p->loop);

	if (is_stalled(&p->client, now, stalled_ms) ||
	    is_stalled(&p->host, now, stalled_ms) || now - p->moved_ms >= idle_ms)
		pump_end(p, ST_TIMEOUT);
}

void
pump_done(struct pump *p)
{
	ring_done(&p->client.held);
	ring_done(&p->host.held);
}

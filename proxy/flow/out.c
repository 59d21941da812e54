#include "proxy/flow/out.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "proxy/base/num.h"

void
out_init(struct out *o, int fd)
{
	*o = (struct out){ .fd = fd };
	ring_init(&o->held, OUT_HELD_MAX);
}

void
out_done(struct out *o)
{
	ring_done(&o->held);
}

bool
out_is_blocked(const struct out *o)
{
	return !ring_is_empty(&o->held);
}

/* Bytes that the socket took; 0 when it takes none now. */
static enum status
push(int fd, const struct iovec *v, size_t n, size_t *ret_taken)
{
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)v, .msg_iovlen = n };
	ssize_t k;

	do
		k = sendmsg(fd, &m, MSG_NOSIGNAL);
	while (k < 0 && errno == EINTR);
	if (k < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
		return ST_END;
	*ret_taken = k < 0 ? 0 : (size_t)k;
	return ST_OK;
}

void
gather_begin(struct gather *g, struct out *o)
{
	g->to = o;
	g->parts_n = 0;
	g->text_n = 0;
	g->st = ST_OK;
}

/* Copy what is left of the parts behind the first `skip` bytes into the ring. */
static void
hold(struct gather *g, size_t skip)
{
	for (size_t i = 0; i < g->parts_n && g->st == ST_OK; i++) {
		struct str s = str_of(g->parts[i].iov_base, g->parts[i].iov_len);
		size_t k = num_min(skip, s.n);
		skip -= k;
		s = str_skip(s, k);
		/* Producers stop at the first held byte, so one pass always fits. */
		if (ring_write(&g->to->held, s) != s.n)
			g->st = ST_NOMEM;
	}
}

static void
flush(struct gather *g)
{
	size_t taken = 0;

	if (g->st == ST_OK && g->parts_n > 0 && !out_is_blocked(g->to))
		g->st = push(g->to->fd, g->parts, g->parts_n, &taken);
	hold(g, taken);
	g->parts_n = 0;
	g->text_n = 0;
}

void
gather_view(struct gather *g, struct str s)
{
	if (s.n == 0)
		return;
	if (g->parts_n == OUT_PARTS)
		flush(g);
	g->parts[g->parts_n++] = (struct iovec){ (void *)(uintptr_t)s.p, s.n };
}

void
gather_copy(struct gather *g, struct str s)
{
	while (s.n > 0) {
		if (g->text_n == OUT_TEXT || g->parts_n == OUT_PARTS)
			flush(g);
		struct str k = str_head(s, OUT_TEXT - g->text_n);
		memcpy(g->text + g->text_n, k.p, k.n);
		gather_view(g, str_of(g->text + g->text_n, k.n));
		g->text_n += k.n;
		s = str_skip(s, k.n);
	}
}

static enum status
outcome(struct out *o, enum status st, uint64_t now_ms)
{
	if (st != ST_OK)
		return st == ST_AGAIN ? ST_AGAIN : ST_END;
	if (!out_is_blocked(o)) {
		o->blocked_ms = 0;
		ring_trim(&o->held);
		return ST_OK;
	}
	if (o->blocked_ms == 0)
		o->blocked_ms = now_ms;
	return ST_AGAIN;
}

enum status
gather_end(struct gather *g, uint64_t now_ms)
{
	flush(g);
	return outcome(g->to, g->st, now_ms);
}

enum status
out_resume(struct out *o, uint64_t now_ms)
{
	enum status st = ST_OK;
	size_t taken = 1;

	while (st == ST_OK && taken > 0 && out_is_blocked(o)) {
		struct str s = ring_peek(&o->held);
		struct iovec v = { (void *)(uintptr_t)s.p, s.n };
		st = push(o->fd, &v, 1, &taken);
		if (st == ST_OK && taken > 0) {
			ring_consume(&o->held, taken);
			o->blocked_ms = now_ms; /* progress, measured in bytes */
		}
	}
	return outcome(o, st, now_ms);
}

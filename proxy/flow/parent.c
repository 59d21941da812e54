#include "proxy/flow/parent.h"

#include <errno.h>
#include <sys/socket.h>

enum { PARENT_ARENA_MAX = 256 * 1024 };

void
parent_cancel(struct parent *p)
{
	if (!p->is_running)
		return;
	p->is_running = false;
	loop_io_clear(&p->io);
	loop_timer_clear(&p->timer);
	h1_read_done(&p->reader);
	arena_done(&p->arena);
}

static void
end(struct parent *p, enum status st)
{
	parent_cancel(p);
	p->fn(p->ctx, st);
}

static void
on_answer(void *ctx, unsigned events)
{
	struct parent *p = ctx;
	struct flow *f = p->flow;
	struct head head;
	size_t used = 0;
	ssize_t n = recv(p->fd, f->space, f->space_n, MSG_PEEK);
	enum status st;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		end(p, ST_PARENT_PROXY);
		return;
	}
	st = h1_read_feed(&p->reader, str_of(f->space, (size_t)n), &used, &head);
	if (st != ST_OK && st != ST_AGAIN) {
		end(p, ST_PARENT_PROXY);
		return;
	}
	if (recv(p->fd, f->space, used, 0) != (ssize_t)used)
		end(p, ST_PARENT_PROXY);
	else if (st == ST_OK)
		end(p,
		    head.status >= 200 && head.status < 300 ? ST_OK : ST_PARENT_PROXY);
}

static void
on_timeout(void *ctx)
{
	end(ctx, ST_CONNECT_TIMEOUT);
}

static enum status
ask(int fd, const struct dest *d)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 2048);
	buf_put(&b, STR("CONNECT "));
	dest_put(&b, d);
	buf_put(&b, STR(" HTTP/1.1\r\nHost: "));
	dest_put(&b, d);
	buf_put(&b, STR("\r\n\r\n"));
	if (b.st != ST_OK)
		return b.st;
	/* A new connection takes so few bytes whole. */
	return send(fd, b.p, b.len, MSG_NOSIGNAL) == (ssize_t)b.len ? ST_OK
								    : ST_PARENT_PROXY;
}

enum status
parent_begin(struct parent *p, struct flow *f, const struct parent_wish *w,
	     parent_fn fn, void *ctx)
{
	enum status st = ask(w->fd, w->dest);

	if (st != ST_OK)
		return st;
	*p = (struct parent){ .flow = f, .fd = w->fd, .fn = fn, .ctx = ctx };
	p->is_running = true;
	arena_init(&p->arena, PARENT_ARENA_MAX);
	h1_read_response(&p->reader, &p->arena, &f->limits, METHOD_CONNECT, false);
	loop_io_init(&p->io, f->loop, w->fd, on_answer, p);
	loop_io_want(&p->io, LOOP_READ);
	loop_timer_init(&p->timer, f->loop, on_timeout, p);
	loop_timer_set(&p->timer, w->ms);
	return ST_OK;
}

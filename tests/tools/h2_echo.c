/*
 * An HTTP/2 server (prior knowledge) whose every request is answered with what it sent:
 * what a conformance test, a load generator or a fuzzer talks to.
 *
 *	h2_echo PORT [MS]     on 127.0.0.1; 0: any, said on standard output
 *
 * A request without a body is answered with a line, after that many milliseconds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/base/list.h"
#include "proxy/base/num.h"
#include "proxy/flow/front.h"

enum { SPACE = 65536, TICK_MS = 500 };

struct server {
	struct loop *loop;
	struct flow flow;
	struct loop_io io;
	struct loop_timer timer;
	struct list conns;
	uint64_t delay_ms;
};

struct conn {
	struct list link;
	struct server *of;
	struct stream stream;
	struct loop_io io;
	struct front *front;
	int fd;
};

struct echo {
	struct server *of;
	struct side *s;
	struct arena arena;
	struct head head;
	struct loop_timer timer; /* until the answer to a request without a body */
	bool is_ended;
};

static const struct front_limits limits = {
	.head_ms = 10000,
	.keepalive_ms = 60000,
	.stalled_ms = 30000,
	.linger_bytes = 65536,
	.requests = 1000000000,
	.streams = 100,
	.window = 65536,
	.connection = 100 * 65536,
	.heads = 224 * 1024,
};

static void
end(struct echo *e)
{
	loop_timer_clear(&e->timer);
	arena_done(&e->arena);
	side_done(e->s);
	free(e);
}

static void
answer(struct echo *e, uint16_t status)
{
	struct side_msg m = { .head = &e->head };

	head_init(&e->head, &e->arena);
	e->head.status = status;
	e->head.body = BODY_CHUNKED;
	if (head_add(&e->head, STR("server"), STR("h2_echo")) == ST_OK)
		side_put_head(e->s, &m);
}

static void
on_timer(void *ctx)
{
	struct echo *e = ctx;

	answer(e, 200);
	side_put_body(e->s, STR("hello, client\n"));
	side_put_end(e->s, &e->head, NULL);
	(void)!side_flush(e->s);
	end(e);
}

static void
on_head(void *ctx, struct side_msg *m)
{
	struct echo *e = ctx;

	if (m->is_whole)
		loop_timer_set(&e->timer, e->of->delay_ms);
	else
		answer(e, 200);
}

static void
on_body(void *ctx, struct str view)
{
	side_put_body(((struct echo *)ctx)->s, view);
}

static void
on_end(void *ctx, const struct head *trailers)
{
	struct echo *e = ctx;

	e->is_ended = true;
	side_put_end(e->s, &e->head, trailers);
}

static void
on_room(void *ctx)
{
	(void)ctx; /* batch does it */
}

static void
on_batch(void *ctx)
{
	struct echo *e = ctx;
	enum status st;

	do {
		st = side_flush(e->s);
		side_want(e->s, st == ST_OK);
	} while (st == ST_OK && side_deliver(e->s));
	if (e->is_ended)
		end(e);
}

static void
on_bad(void *ctx, enum status why)
{
	struct echo *e = ctx;

	answer(e, status_words(why)->http);
	side_put_end(e->s, &e->head, NULL);
	e->is_ended = true;
}

static void
on_gone(void *ctx, enum status why)
{
	(void)why;
	end(ctx);
}

static enum status
begin(void *ctx, struct side *s)
{
	static const struct side_events events = { on_head,  on_body, on_end, on_room,
						   on_batch, on_bad,  on_gone };
	struct echo *e = calloc(1, sizeof *e);
	struct conn *c = ctx;

	if (e == NULL)
		return ST_NOMEM;
	e->of = c->of;
	e->s = s;
	arena_init(&e->arena, 65536);
	loop_timer_init(&e->timer, c->of->loop, on_timer, e);
	s->events = &events;
	s->ctx = e;
	return ST_OK;
}

static void
over(void *ctx, bool is_reset)
{
	struct conn *c = ctx;

	(void)is_reset;
	front_free(c->front);
	loop_io_clear(&c->io);
	stream_done(&c->stream);
	(void)close(c->fd);
	list_remove(&c->link);
	loop_defer(c->of->loop, free, c);
}

static void
serve(struct server *s, int fd)
{
	static const struct front_hooks hooks = { .begin = begin, .over = over };
	struct conn *c = calloc(1, sizeof *c);
	int one = 1;

	need(c != NULL);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	c->of = s;
	c->fd = fd;
	stream_plain(&c->stream, fd);
	loop_io_init(&c->io, s->loop, fd, NULL, NULL);
	c->front = front_h2_new(&(struct front_start){ .flow = &s->flow,
						       .stream = &c->stream,
						       .io = &c->io,
						       .hooks = &hooks,
						       .limits = &limits,
						       .ctx = c });
	need(c->front != NULL);
	list_append(&s->conns, &c->link);
	front_go(c->front, str_of("", 0));
}

static void
on_accept(void *ctx, unsigned events)
{
	struct server *s = ctx;
	int fd;

	(void)events;
	while ((fd = accept4(s->io.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		serve(s, fd);
}

static void
on_tick(void *ctx)
{
	struct server *s = ctx;

	list_each_safe (it, &s->conns)
		front_tick(LIST_OF(it, struct conn, link)->front);
	loop_timer_set(&s->timer, TICK_MS);
}

static int
listen_on(uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof a;
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	need(fd >= 0);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, (struct sockaddr *)&a, n) != 0 || listen(fd, 512) != 0) {
		perror("h2_echo");
		exit(1);
	}
	need(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
	(void)printf("%d\n", ntohs(a.sin_port));
	(void)fflush(stdout);
	return fd;
}

int
main(int argc, char **argv)
{
	struct server s = { 0 };
	uint64_t port = 0;

	if (argc < 2 || argc > 3 ||
	    !num_parse_u64(str_from(argv[1]), UINT16_MAX, &port) ||
	    (argc == 3 && !num_parse_u64(str_from(argv[2]), 10000, &s.delay_ms))) {
		(void)fprintf(stderr, "usage: h2_echo PORT [MS]\n");
		return 2;
	}
	need(loop_new(&s.loop) == ST_OK);
	list_init(&s.conns);
	s.flow = (struct flow){ .loop = s.loop,
				.space = malloc(SPACE),
				.space_n = SPACE,
				.limits = { 100, 16384, 65536 } };
	need(s.flow.space != NULL);
	loop_io_init(&s.io, s.loop, listen_on((uint16_t)port), on_accept, &s);
	loop_io_want(&s.io, LOOP_READ);
	loop_timer_init(&s.timer, s.loop, on_tick, &s);
	loop_timer_set(&s.timer, TICK_MS);
	loop_run(s.loop);
	return 0;
}

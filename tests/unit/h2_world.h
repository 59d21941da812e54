#ifndef TESTS_UNIT_H2_WORLD_H
#define TESTS_UNIT_H2_WORLD_H
/*
 * A leg and a front joined by a pair of sockets.  At the front each request is answered
 * by what its path says:
 *
 *	/echo   the body comes back, then trailers
 *	/hold   nothing is read and nothing said
 *	/big    a million octets
 *	/early  403 before the body is read
 *	/reset  aborted at once
 *	/whole  204, and a body that nobody may see
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/flow/front.h"
#include "proxy/flow/leg.h"

enum { WORLD_SIDES = 110, WORLD_SPACE = 65536, WORLD_BIG = 1000000 };

struct world;

/* Either end of one request. */
struct end {
	struct world *w;
	struct side *s;
	struct buf log;
	struct arena arena;
	struct head out;
	char path[16];
	size_t body, left; /* octets that came; that are still to be put */
	enum status gone;
	enum status flushed;
	bool is_echo, is_ended, is_gone, holds;
	unsigned rooms;
};

struct world {
	struct loop *loop;
	struct flow flow;
	struct loop_timer timer;
	uint64_t deadline_ms;
	struct stream front_stream;
	struct loop_io front_io;
	struct front *front;
	struct leg *leg;
	struct front_limits front_limits;
	struct leg_limits leg_limits;
	struct end served[WORLD_SIDES], asked[WORLD_SIDES];
	size_t served_n, asked_n;
	bool (*until)(struct world *w);
	bool is_over, is_reset;
	unsigned settled;
	int fds[2];
};

static char world_zeros[WORLD_BIG];

static inline void
end_open(struct end *e, struct world *w)
{
	*e = (struct end){ .w = w, .gone = ST_OK, .flushed = ST_OK };
	buf_init(&e->log, 1 << 16);
	arena_init(&e->arena, 1 << 20);
}

static inline void
end_close(struct end *e)
{
	buf_done(&e->log);
	arena_done(&e->arena);
}

static inline void
end_flush(struct end *e)
{
	while (e->left > 0 && e->flushed == ST_OK) {
		size_t n = e->left < 60000 ? e->left : 60000;
		side_put_body(e->s, str_of(world_zeros, n));
		e->left -= n;
		if (e->left == 0)
			side_put_end(e->s, &e->out, NULL);
		e->flushed = side_flush(e->s);
	}
}

static inline void
end_put_head(struct end *e, uint16_t status, enum body_kind body, bool is_whole)
{
	struct side_msg m = { .head = &e->out, .is_whole = is_whole };

	head_init(&e->out, &e->arena);
	e->out.status = status;
	e->out.body = body;
	side_put_head(e->s, &m);
}

static inline void
on_any_body(void *ctx, struct str view)
{
	struct end *e = ctx;

	e->body += view.n;
	if (view.n < 100)
		buf_putf(&e->log, "body %.*s\n", STR_ARG(view));
	if (e->is_echo)
		side_put_body(e->s, view);
}

static inline void
on_any_end(void *ctx, const struct head *trailers)
{
	struct end *e = ctx;

	e->is_ended = true;
	buf_put(&e->log, STR("end"));
	for (size_t i = 0; trailers != NULL && i < trailers->fields_len; i++)
		buf_putf(&e->log, " %.*s=%.*s", STR_ARG(trailers->fields[i].name),
			 STR_ARG(trailers->fields[i].value));
	buf_putc(&e->log, '\n');
	if (e->is_echo)
		side_put_end(e->s, &e->out, trailers);
}

static inline void
on_any_room(void *ctx)
{
	struct end *e = ctx;

	e->rooms++;
	e->flushed = ST_OK;
}

static inline void
on_any_gone(void *ctx, enum status why)
{
	struct end *e = ctx;

	e->is_gone = true;
	e->gone = why;
	side_done(e->s);
	e->s = NULL;
}

static inline void
on_any_bad(void *ctx, enum status why)
{
	struct end *e = ctx;

	buf_putf(&e->log, "bad %s\n", status_code(why));
	end_put_head(e, status_words(why)->http, BODY_NONE, true);
	e->flushed = side_flush(e->s);
	side_done(e->s);
	e->s = NULL;
}

static inline void
on_any_batch(void *ctx)
{
	struct end *e = ctx;

	if (e->s == NULL)
		return;
	if (e->flushed == ST_OK)
		e->flushed = side_flush(e->s);
	end_flush(e);
	side_want(e->s, !e->holds && (!e->is_echo || e->flushed == ST_OK));
	if (side_deliver(e->s)) {
		e->flushed = side_flush(e->s);
		side_want(e->s, !e->holds && (!e->is_echo || e->flushed == ST_OK));
	}
	if (e->is_ended && e->left == 0 && e->flushed != ST_AGAIN && !e->holds) {
		side_done(e->s);
		e->s = NULL;
	}
}

static inline void
on_request(void *ctx, struct side_msg *m)
{
	struct end *e = ctx;

	memcpy(e->path, m->head->target.p,
	       m->head->target.n < 15 ? m->head->target.n : 15);
	e->is_ended = m->is_whole;
	buf_putf(&e->log, "%.*s %s\n", STR_ARG(m->head->method), e->path);
	if (strcmp(e->path, "/echo") == 0) {
		e->is_echo = true;
		end_put_head(e, 200, BODY_CHUNKED, false);
	} else if (strcmp(e->path, "/hold") == 0) {
		e->holds = true;
	} else if (strcmp(e->path, "/big") == 0) {
		end_put_head(e, 200, BODY_CHUNKED, false);
		e->left = WORLD_BIG;
	} else if (strcmp(e->path, "/early") == 0) {
		end_put_head(e, 403, BODY_NONE, true);
		side_done(e->s);
		e->s = NULL;
	} else if (strcmp(e->path, "/whole") == 0) {
		end_put_head(e, 204, BODY_NONE, true);
		side_put_body(e->s, STR("no"));
		side_put_end(e->s, &e->out, NULL);
	} else if (strcmp(e->path, "/reset") == 0) {
		side_abort(e->s, ST_INTERNAL);
		e->s = NULL;
	}
}

static inline void
on_response(void *ctx, struct side_msg *m)
{
	struct end *e = ctx;

	buf_putf(&e->log, "%d\n", m->head->status);
	e->is_ended = m->is_whole;
}

static inline enum status
world_begin(void *ctx, struct side *s)
{
	static const struct side_events events = {
		on_request,   on_any_body, on_any_end,  on_any_room,
		on_any_batch, on_any_bad,  on_any_gone,
	};
	struct world *w = ctx;

	if (w->served_n == WORLD_SIDES)
		return ST_NOMEM;
	struct end *e = &w->served[w->served_n++];
	end_open(e, w);
	e->s = s;
	s->events = &events;
	s->ctx = e;
	return ST_OK;
}

static inline void
world_over(void *ctx, bool is_reset)
{
	struct world *w = ctx;

	w->is_over = true;
	w->is_reset = is_reset;
	loop_io_clear(&w->front_io);
	stream_done(&w->front_stream);
	(void)close(w->fds[0]);
	front_free(w->front);
	w->front = NULL;
}

static inline void
world_settled(void *ctx, struct leg *g)
{
	struct world *w = ctx;

	(void)g;
	w->settled++;
}

static inline void
world_tick(void *ctx)
{
	struct world *w = ctx;

	if (w->until != NULL && w->until(w)) {
		loop_stop(w->loop);
		return;
	}
	if (loop_now_ms(w->loop) > w->deadline_ms) {
		w->until = NULL;
		loop_stop(w->loop);
		return;
	}
	loop_timer_set(&w->timer, 2);
}

/* False: it didn't come true in time. */
static inline bool
world_run(struct world *w, bool (*until)(struct world *w), uint64_t ms)
{
	w->until = until;
	w->deadline_ms = loop_now_ms(w->loop) + ms;
	loop_timer_set(&w->timer, 0);
	loop_run(w->loop);
	return w->until != NULL;
}

/* The client's window for each response. */
static inline void
world_open_window(struct world *w, size_t window)
{
	static const struct front_hooks front_hooks = { .begin = world_begin,
							.over = world_over };
	static const struct leg_hooks leg_hooks = { .settled = world_settled };
	struct stream leg_stream = { 0 };

	*w = (struct world){
		.front_limits = { 10000, 60000, 60000, 65536, 1000, 100, 65536,
				  100 * 65536, 224 * 1024 },
		.leg_limits = { window, 100 * 65536, 100 },
	};
	need(loop_new(&w->loop) == ST_OK);
	loop_timer_init(&w->timer, w->loop, world_tick, w);
	w->flow.loop = w->loop;
	w->flow.space = malloc(WORLD_SPACE);
	w->flow.space_n = WORLD_SPACE;
	w->flow.limits = (struct h1_limits){ 100, 16384, 65536 };
	need(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, w->fds) == 0);
	stream_plain(&w->front_stream, w->fds[0]);
	stream_plain(&leg_stream, w->fds[1]);
	loop_io_init(&w->front_io, w->loop, w->fds[0], NULL, NULL);
	w->front = front_h2_new(&(struct front_start){ .flow = &w->flow,
						       .stream = &w->front_stream,
						       .io = &w->front_io,
						       .hooks = &front_hooks,
						       .limits = &w->front_limits,
						       .ctx = w });
	w->leg = leg_h2_new(&(struct leg_start){ .flow = &w->flow,
						 .stream = &leg_stream,
						 .hooks = &leg_hooks,
						 .limits = &w->leg_limits,
						 .ctx = w });
	need(w->front != NULL && w->leg != NULL);
	front_go(w->front, str_of("", 0));
}

static inline void
world_open(struct world *w)
{
	world_open_window(w, 65536);
}

static inline void
world_close(struct world *w)
{
	for (size_t i = 0; i < w->served_n; i++)
		end_close(&w->served[i]);
	for (size_t i = 0; i < w->asked_n; i++)
		end_close(&w->asked[i]);
	if (!w->is_over)
		world_over(w, false);
	leg_free(w->leg);
	loop_timer_clear(&w->timer);
	loop_free(w->loop);
	free(w->flow.space);
}

/* A request with its head put and flushed. */
static inline struct end *
world_ask(struct world *w, const char *method, const char *path, bool is_whole)
{
	static const struct side_events events = {
		on_response,  on_any_body, on_any_end,  on_any_room,
		on_any_batch, on_any_bad,  on_any_gone,
	};
	struct end *e = &w->asked[w->asked_n++];
	struct uri u = { 0 };
	char text[64] = "http://ok.test";

	need(w->asked_n <= WORLD_SIDES);
	end_open(e, w);
	need(leg_ask(w->leg, &e->s) == ST_OK);
	e->s->events = &events;
	e->s->ctx = e;
	memcpy(text + strlen(text), path, strlen(path) + 1);
	need(uri_parse(method_of(str_from(method)), str_from(text), &u) == ST_OK);
	head_init(&e->out, &e->arena);
	e->out.method = str_from(method);
	e->out.method_id = method_of(e->out.method);
	e->out.body = is_whole ? BODY_NONE : BODY_CHUNKED;
	struct side_msg m = { .head = &e->out, .uri = &u, .is_whole = is_whole };
	side_put_head(e->s, &m);
	e->flushed = side_flush(e->s);
	side_want(e->s, true);
	return e;
}

static inline const char *
end_log(struct end *e)
{
	return buf_cstr(&e->log);
}

#endif

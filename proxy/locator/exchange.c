#include "proxy/locator/exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "proxy/http/h1_body.h"
#include "proxy/http/h1_read.h"
#include "proxy/io/sock.h"

enum { QUESTION_MAX = 1024, HEAD_ARENA = 256 * 1024, READ = 16384 };

static const struct h1_limits limits = { .fields = 64, .line = 8192, .head = 32768 };

/* Of the whole exchange.  Nobody waits longer for MEASURE's answer (asks.def). */
static const uint64_t deadline_ms[] = {
	[EXCHANGE_PLACE] = 8000, [EXCHANGE_MEMORY] = 2000
};

enum step { ASK_LIST, ASK_CONTAINER, ASK_NETWORK, ASK_STATS, STEPS };

/* What comes behind the first question and each other one; STEPS: nothing. */
static const enum step after[][STEPS] = {
	[EXCHANGE_PLACE] = { [ASK_LIST] = ASK_CONTAINER,
			     [ASK_CONTAINER] = ASK_NETWORK,
			     [ASK_NETWORK] = STEPS },
	[EXCHANGE_MEMORY] = { [ASK_LIST] = ASK_STATS, [ASK_STATS] = STEPS },
};

struct exchange {
	struct loop *loop;
	struct loop_io io;
	struct loop_timer deadline;
	int fd;
	exchange_fn fn;
	void *ctx;
	enum exchange_kind kind;
	enum step step;
	struct buf out, body;
	size_t sent;
	struct arena arena;
	struct h1_read reader;
	struct h1_body body_reader;
	struct head head;
	bool has_head;
	char sandbox[LOCATOR_ID_MAX + 1], network[LOCATOR_ID_MAX + 1];
	struct exchange_found found;
};

static void
answer_done(struct exchange *x)
{
	h1_read_done(&x->reader);
	if (x->has_head)
		h1_body_done(&x->body_reader);
	x->has_head = false;
	arena_done(&x->arena);
}

static void
exchange_drop(void *ctx)
{
	struct exchange *x = ctx;

	answer_done(x);
	buf_done(&x->out);
	buf_done(&x->body);
	free(x);
}

void
exchange_free(struct exchange *x)
{
	if (x == NULL || x->fd < 0)
		return;
	loop_io_clear(&x->io);
	loop_timer_clear(&x->deadline);
	sock_close_passed(x->fd);
	x->fd = -1;
	loop_defer(x->loop, exchange_drop, x);
}

static void
finish(struct exchange *x, enum status st)
{
	loop_io_want(&x->io, 0);
	loop_timer_clear(&x->deadline);
	x->fn(x->ctx, st, &x->found);
}

/* Asking. */

static void
put_question(struct exchange *x)
{
	struct buf *b = &x->out;

	buf_clear(b);
	x->sent = 0;
	buf_put(b, STR("GET "));
	if (x->step == ASK_LIST)
		/* {"label":["opensandbox.io/id=..."]} */
		buf_putf(b,
			 "/containers/"
			 "json?all=true&filters=%%7B%%22label%%22%%3A%%5B%%22"
			 "opensandbox.io%%2Fid%%3D%s%%22%%5D%%7D",
			 x->sandbox);
	else if (x->step == ASK_CONTAINER)
		buf_putf(b, "/containers/%s/json", x->found.ids.container);
	else if (x->step == ASK_NETWORK)
		buf_putf(b, "/networks/%s", x->found.ids.network);
	else
		/* one-shot: doesn't wait for a second look at the processor's clocks. */
		buf_putf(b, "/containers/%s/stats?stream=false&one-shot=true",
			 x->found.ids.container);
	buf_put(b,
		STR(" HTTP/1.1\r\nHost: docker\r\nAccept: application/json\r\n\r\n"));
	arena_init(&x->arena, HEAD_ARENA);
	h1_read_response(&x->reader, &x->arena, &limits, METHOD_GET, false);
	buf_clear(&x->body);
	loop_io_want(&x->io, LOOP_WRITE);
}

static void
send_question(struct exchange *x)
{
	struct str all;

	if (buf_finish(&x->out, &all) != ST_OK) {
		finish(x, ST_NOMEM);
		return;
	}
	ssize_t n = write(x->fd, all.p + x->sent, all.n - x->sent);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		finish(x, ST_UPSTREAM_CLOSED);
		return;
	}
	x->sent += n > 0 ? (size_t)n : 0;
	if (x->sent == all.n)
		loop_io_want(&x->io, LOOP_READ);
}

/* Answers. */

static enum status
take_answer(struct exchange *x)
{
	struct exchange_found *f = &x->found;
	struct str json;
	enum status st = buf_finish(&x->body, &json);

	if (st != ST_OK)
		return st;
	if (x->head.status == 404)
		return ST_NOT_FOUND;
	if (x->head.status != 200)
		return ST_UPSTREAM_BAD;
	if (x->step == ASK_LIST)
		return docker_list(json, f->ids.container);
	if (x->step == ASK_CONTAINER)
		return docker_container(json, str_from(x->sandbox),
					str_from(x->network), &f->ids, &f->place);
	if (x->step == ASK_NETWORK)
		return docker_network(json, f->ids.network, f->bridge);
	return docker_memory(json, f->ids.container, &f->octets);
}

static void
answered(struct exchange *x)
{
	enum status st = take_answer(x);
	bool is_open = x->head.is_persistent;

	answer_done(x);
	x->step = after[x->kind][x->step];
	if (st == ST_OK && x->step != STEPS && !is_open)
		st = ST_UPSTREAM_CLOSED;
	if (st != ST_OK || x->step == STEPS)
		finish(x, st);
	else
		put_question(x);
}

/* ST_END: the answer is complete. */
static enum status
feed(struct exchange *x, struct str in)
{
	size_t used = 0;
	struct str view = STR("");
	enum status st;

	if (!x->has_head) {
		st = h1_read_feed(&x->reader, in, &used, &x->head);
		if (st != ST_OK)
			return st;
		x->has_head = true;
		in = str_skip(in, used);
		h1_body_init(&x->body_reader, &x->head, &limits);
	}
	while ((st = h1_body_feed(&x->body_reader, in, &used, &view)) == ST_OK) {
		buf_put(&x->body, view);
		in = str_skip(in, used);
	}
	/* Nobody has asked for what may follow. */
	if (st == ST_END && used < in.n)
		return ST_UPSTREAM_BAD;
	return x->body.st == ST_OK ? st : x->body.st;
}

static void
on_io(void *ctx, unsigned events)
{
	struct exchange *x = ctx;
	char space[READ];

	if (events & LOOP_WRITE) {
		send_question(x);
		return;
	}
	ssize_t n = read(x->fd, space, sizeof space);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		finish(x, ST_UPSTREAM_CLOSED);
		return;
	}
	enum status st = feed(x, str_of(space, (size_t)n));

	if (st == ST_END)
		answered(x);
	else if (st != ST_AGAIN)
		finish(x, st);
}

static void
on_deadline(void *ctx)
{
	finish(ctx, ST_UPSTREAM_TIMEOUT);
}

enum status
exchange_begin(struct loop *loop, const struct exchange_wish *w, exchange_fn fn,
	       void *ctx, struct exchange **ret_x)
{
	struct exchange *x;

	if (!docker_is_word(w->sandbox) ||
	    (w->kind == EXCHANGE_PLACE && !docker_is_word(w->network)))
		return ST_BAD_PARAMETER;
	x = calloc(1, sizeof *x);
	if (x == NULL || sock_set_nonblock(w->fd) != ST_OK) {
		free(x);
		return ST_NOMEM;
	}
	x->loop = loop;
	x->fd = w->fd;
	x->kind = w->kind;
	x->fn = fn;
	x->ctx = ctx;
	memcpy(x->sandbox, w->sandbox.p, w->sandbox.n);
	if (w->kind == EXCHANGE_PLACE)
		memcpy(x->network, w->network.p, w->network.n);
	buf_init(&x->out, QUESTION_MAX);
	buf_init(&x->body, DOCKER_BODY_MAX);
	loop_io_init(&x->io, loop, x->fd, on_io, x);
	loop_timer_init(&x->deadline, loop, on_deadline, x);
	loop_timer_set(&x->deadline, deadline_ms[x->kind]);
	put_question(x);
	*ret_x = x;
	return ST_OK;
}

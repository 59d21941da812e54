#include "proxy/io/ask.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/base/list.h"
#include "proxy/io/sock.h"

enum {
	BUCKETS = 256, /* power of two: the table of open calls by sequence */
	BATCH = 64,    /* packets per turn, so that one line can't hold up the loop */
	QUEUE_MAX = 1024,
	QUEUE_BYTES = 1024 * 1024,
	SLACK = 2, /* see ask_rate_take() */
};

struct call { /* an ask of ours that waits for its answer */
	struct list by_seq, by_ask;
	uint64_t due_ms;
	uint32_t seq;
	enum ask ask;
	ask_answer_fn fn;
	void *ctx;
};

struct out { /* what ask_send() takes */
	enum ask ask;
	bool is_answer;
	uint32_t seq;
	struct str body;
	const int *fds;
	size_t fds_n;
};

struct packet { /* waits until the peer reads; owns its descriptors */
	struct list link;
	struct out out;
	int fds[ASK_FDS_MAX];
	char body[];
};

struct ask_line {
	struct loop *loop;
	struct ask_end end; /* fd -1: dead */
	struct loop_io io;
	struct loop_timer timer; /* for the earliest deadline, or a little before */
	uint64_t timer_ms;       /* when it fires; UINT64_MAX: not set */
	ask_heard_fn heard;
	ask_lost_fn lost;
	void *ctx;
	char *space; /* for ask_recv() */
	uint32_t next_seq;
	bool is_freed;
	struct list by_seq[BUCKETS];
	/* The deadline of an ask is a constant, so each list is in order of time. */
	struct list by_ask[ASK_COUNT];
	struct list queue;
	size_t queue_n, queue_bytes;
	struct ask_rate asked[ASK_COUNT], heard_rate[ASK_COUNT];
};

static void on_io(void *ctx, unsigned events);
static void on_timer(void *ctx);

enum status
ask_line_new(struct loop *l, const struct ask_end *e, ask_heard_fn heard,
	     ask_lost_fn lost, void *ctx, struct ask_line **ret_line)
{
	if (sock_set_nonblock(e->fd) != ST_OK)
		return ST_SYSTEM;
	struct ask_line *line = calloc(1, sizeof *line);
	char *space = malloc(ASK_BODY_MAX + 8);
	if (line == NULL || space == NULL) {
		free(line);
		free(space);
		return ST_NOMEM;
	}
	*line = (struct ask_line){ .loop = l,
				   .end = *e,
				   .heard = heard,
				   .lost = lost,
				   .ctx = ctx,
				   .space = space,
				   .next_seq = 1,
				   .timer_ms = UINT64_MAX };
	for (size_t i = 0; i < BUCKETS; i++)
		list_init(&line->by_seq[i]);
	for (size_t i = 0; i < ASK_COUNT; i++)
		list_init(&line->by_ask[i]);
	list_init(&line->queue);
	loop_io_init(&line->io, l, e->fd, on_io, line);
	loop_timer_init(&line->timer, l, on_timer, line);
	loop_io_want(&line->io, LOOP_READ);
	*ret_line = line;
	return ST_OK;
}

/* Queue of what the peer hasn't read yet. */

static void
packet_free(struct ask_line *line, struct packet *p)
{
	list_remove(&p->link);
	line->queue_n--;
	line->queue_bytes -= p->out.body.n;
	for (size_t i = 0; i < p->out.fds_n; i++)
		if (p->fds[i] >= 0)
			(void)close(p->fds[i]);
	free(p);
}

static enum status
send_out(struct ask_line *line, const struct out *o)
{
	return ask_send(&line->end, o->ask, o->is_answer, o->seq, o->body, o->fds,
			o->fds_n);
}

/* The caller keeps its descriptors and may close them at once: duplicate. */
static bool
copy_fds(struct packet *p, const struct out *o)
{
	bool is_whole = true;

	for (size_t i = 0; i < o->fds_n; i++) {
		p->fds[i] = fcntl(o->fds[i], F_DUPFD_CLOEXEC, 0);
		is_whole = is_whole && p->fds[i] >= 0;
	}
	return is_whole;
}

static enum status
enqueue(struct ask_line *line, const struct out *o)
{
	if (o->body.n > ask_rule(o->ask)->size)
		return ST_TOO_BIG;
	if (line->queue_n >= QUEUE_MAX || o->body.n > QUEUE_BYTES - line->queue_bytes)
		return ST_AGAIN;
	struct packet *p = malloc(sizeof *p + o->body.n);
	if (p == NULL)
		return ST_NOMEM;
	p->out = *o;
	p->out.fds = p->fds;
	p->out.body = str_of(p->body, o->body.n);
	if (o->body.n > 0)
		memcpy(p->body, o->body.p, o->body.n);
	bool is_whole = copy_fds(p, o);
	list_append(&line->queue, &p->link);
	line->queue_n++;
	line->queue_bytes += o->body.n;
	if (!is_whole) {
		packet_free(line, p);
		return ST_NO_FILES;
	}
	loop_io_want(&line->io, LOOP_READ | LOOP_WRITE);
	return ST_OK;
}

static enum status
post(struct ask_line *line, const struct out *o)
{
	if (line->end.fd < 0)
		return ST_END;
	if (list_is_empty(&line->queue)) {
		enum status st = send_out(line, o);
		if (st != ST_AGAIN)
			return st;
	}
	return enqueue(line, o);
}

/* A packet that can't be sent for another reason than a full socket is dropped: a call
 * ends by its deadline, and a dead peer is noticed by reading. */
static void
flush(struct ask_line *line)
{
	for (int i = 0; i < BATCH && !list_is_empty(&line->queue); i++) {
		struct packet *p = LIST_OF(line->queue.next, struct packet, link);
		if (send_out(line, &p->out) == ST_AGAIN)
			return;
		packet_free(line, p);
	}
	if (list_is_empty(&line->queue))
		loop_io_want(&line->io, LOOP_READ);
}

/* Calls. */

static struct call *
call_find(struct ask_line *line, uint32_t seq)
{
	struct list *bucket = &line->by_seq[seq & (BUCKETS - 1)];

	list_each (it, bucket) {
		struct call *c = LIST_OF(it, struct call, by_seq);
		if (c->seq == seq)
			return c;
	}
	return NULL;
}

static void
call_free(struct call *c)
{
	list_remove(&c->by_seq);
	list_remove(&c->by_ask);
	free(c);
}

static void
call_end(struct call *c, enum status st, struct ask_msg *m)
{
	ask_answer_fn fn = c->fn;
	void *ctx = c->ctx;

	call_free(c);
	fn(ctx, st, m);
}

static void
call_start(struct ask_line *line, struct call *c)
{
	uint64_t now = loop_now_ms(line->loop);

	c->due_ms = now + ask_rule(c->ask)->deadline_ms;
	list_append(&line->by_seq[c->seq & (BUCKETS - 1)], &c->by_seq);
	list_append(&line->by_ask[c->ask], &c->by_ask);
	if (c->due_ms < line->timer_ms) {
		line->timer_ms = c->due_ms;
		loop_timer_set(&line->timer, c->due_ms - now);
	}
}

enum status
ask_call(struct ask_line *line, enum ask a, struct str body, const int *fds,
	 size_t fds_n, ask_answer_fn fn, void *ctx, uint32_t *ret_seq)
{
	need(ask_rule(a)->deadline_ms > 0);
	if (!ask_rate_take(&line->asked[a], a, 1, loop_now_ms(line->loop)))
		return ST_LIMIT_RATE;
	struct call *c = malloc(sizeof *c);
	if (c == NULL)
		return ST_NOMEM;
	*c = (struct call){ .seq = line->next_seq, .ask = a, .fn = fn, .ctx = ctx };
	struct out o = { a, false, c->seq, body, fds, fds_n };
	enum status st = post(line, &o);
	if (st != ST_OK) {
		free(c);
		return st;
	}
	line->next_seq++;
	call_start(line, c);
	if (ret_seq != NULL)
		*ret_seq = c->seq;
	return ST_OK;
}

enum status
ask_tell(struct ask_line *line, enum ask a, struct str body, const int *fds,
	 size_t fds_n)
{
	need(ask_rule(a)->deadline_ms == 0);
	if (!ask_rate_take(&line->asked[a], a, 1, loop_now_ms(line->loop)))
		return ST_LIMIT_RATE;
	struct out o = { a, false, 0, body, fds, fds_n };
	return post(line, &o);
}

enum status
ask_answer(struct ask_line *line, enum ask a, uint32_t seq, struct str body,
	   const int *fds, size_t fds_n)
{
	struct out o = { a, true, seq, body, fds, fds_n };

	return post(line, &o);
}

void
ask_cancel(struct ask_line *line, uint32_t seq)
{
	struct call *c = call_find(line, seq);

	if (c != NULL)
		call_free(c);
}

/* When the earliest open call is due; UINT64_MAX when none is open. */
static uint64_t
earliest(const struct ask_line *line)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < ASK_COUNT; i++) {
		if (list_is_empty(&line->by_ask[i]))
			continue;
		uint64_t due =
			LIST_OF(line->by_ask[i].next, struct call, by_ask)->due_ms;
		first = due < first ? due : first;
	}
	return first;
}

static void
expire(struct ask_line *line, struct list *calls, uint64_t now)
{
	while (!list_is_empty(calls)) {
		struct call *c = LIST_OF(calls->next, struct call, by_ask);
		if (c->due_ms > now)
			return;
		call_end(c, ST_TIMEOUT, NULL);
	}
	(void)line;
}

static void
on_timer(void *ctx)
{
	struct ask_line *line = ctx;
	uint64_t now = loop_now_ms(line->loop);

	for (size_t i = 0; i < ASK_COUNT; i++)
		expire(line, &line->by_ask[i], now);
	if (line->end.fd < 0)
		return; /* an answer callback gave the line up */
	line->timer_ms = earliest(line);
	if (line->timer_ms != UINT64_MAX)
		loop_timer_set(&line->timer,
			       line->timer_ms > now ? line->timer_ms - now : 1);
}

/* The end of the line. */

static void
shut(struct ask_line *line)
{
	if (line->end.fd < 0)
		return;
	loop_io_clear(&line->io);
	loop_timer_clear(&line->timer);
	(void)close(line->end.fd);
	line->end.fd = -1;
	while (!list_is_empty(&line->queue))
		packet_free(line, LIST_OF(line->queue.next, struct packet, link));
}

static void
lose(struct ask_line *line, enum status why)
{
	shut(line);
	for (size_t i = 0; i < ASK_COUNT; i++)
		while (!list_is_empty(&line->by_ask[i]))
			call_end(LIST_OF(line->by_ask[i].next, struct call, by_ask),
				 ST_END, NULL);
	if (!line->is_freed)
		line->lost(line->ctx, line, why);
}

static void
release(void *ctx)
{
	struct ask_line *line = ctx;

	free(line->space);
	free(line);
}

void
ask_line_free(struct ask_line *line)
{
	if (line == NULL || line->is_freed)
		return;
	line->is_freed = true;
	shut(line);
	for (size_t i = 0; i < ASK_COUNT; i++)
		while (!list_is_empty(&line->by_ask[i]))
			call_free(LIST_OF(line->by_ask[i].next, struct call, by_ask));
	loop_defer(line->loop, release, line);
}

/* What arrives. */

/* An answer to a call that ended before is late, one to a call never made is a lie. */
static enum status
hear_answer(struct ask_line *line, struct ask_msg *m)
{
	struct call *c = call_find(line, m->seq);

	if (c != NULL && c->ask != m->ask)
		return ST_BAD_MESSAGE;
	if (c != NULL)
		call_end(c, ST_OK, m);
	else if (m->seq - line->next_seq < UINT32_MAX / 2)
		return ST_BAD_MESSAGE;
	return ST_OK;
}

static enum status
hear(struct ask_line *line, struct ask_msg *m)
{
	enum status st = ST_OK;

	if (m->is_answer)
		st = hear_answer(line, m);
	else if (!ask_rate_take(&line->heard_rate[m->ask], m->ask, SLACK,
				loop_now_ms(line->loop)))
		st = ST_LIMIT_RATE;
	else
		line->heard(line->ctx, line, m);
	ask_msg_done(m);
	return st;
}

static void
read_batch(struct ask_line *line)
{
	for (int i = 0; i < BATCH && line->end.fd >= 0; i++) {
		struct ask_msg m;
		enum status st = ask_recv(&line->end, line->space, &m);
		if (st == ST_AGAIN)
			return;
		if (st == ST_OK)
			st = hear(line, &m);
		if (st != ST_OK && line->end.fd >= 0)
			lose(line, st);
	}
}

static void
on_io(void *ctx, unsigned events)
{
	struct ask_line *line = ctx;

	if (events & LOOP_WRITE)
		flush(line);
	if (events & LOOP_READ)
		read_batch(line);
}

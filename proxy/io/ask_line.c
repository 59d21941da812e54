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
	struct ask_load load;
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
	size_t queue_n, queue_bytes, queue_max, queue_bytes_max;
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
				   .queue_max = QUEUE_MAX,
				   .queue_bytes_max = QUEUE_BYTES,
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
packet_free(struct packet *p)
{
	for (size_t i = 0; i < p->out.load.fds_n; i++)
		if (p->fds[i] >= 0)
			sock_close_passed(p->fds[i]);
	free(p);
}

static struct packet *
queue_first(struct ask_line *line)
{
	return LIST_OF(line->queue.next, struct packet, link);
}

static void
queue_drop_first(struct ask_line *line)
{
	struct packet *p = LIST_OF(list_pop(&line->queue), struct packet, link);

	line->queue_n--;
	line->queue_bytes -= p->out.load.body.n;
	packet_free(p);
}

static enum status
send_out(struct ask_line *line, const struct out *o)
{
	return ask_send(&line->end, o->ask, o->is_answer, o->seq, o->load);
}

/* The caller keeps its descriptors and may close them at once: duplicate. */
static bool
copy_fds(struct packet *p, const struct ask_load *load)
{
	bool is_whole = true;

	for (size_t i = 0; i < load->fds_n; i++) {
		p->fds[i] = fcntl(load->fds[i], F_DUPFD_CLOEXEC, 0);
		is_whole = is_whole && p->fds[i] >= 0;
	}
	return is_whole;
}

static enum status
packet_new(const struct out *o, struct packet **ret_p)
{
	struct str body = o->load.body;
	struct packet *p = malloc(sizeof *p + body.n);

	if (p == NULL)
		return ST_NOMEM;
	p->out = *o;
	p->out.load.fds = p->fds;
	p->out.load.body = str_of(p->body, body.n);
	if (body.n > 0)
		memcpy(p->body, body.p, body.n);
	if (!copy_fds(p, &o->load)) {
		packet_free(p);
		return ST_NO_FILES;
	}
	*ret_p = p;
	return ST_OK;
}

void
ask_line_widen(struct ask_line *line, size_t packets, size_t bytes)
{
	need(packets >= line->queue_max && bytes >= line->queue_bytes_max);
	line->queue_max = packets;
	line->queue_bytes_max = bytes;
}

static enum status
enqueue(struct ask_line *line, const struct out *o)
{
	size_t n = o->load.body.n;
	struct packet *p;

	if (n > ask_rule(o->ask)->size)
		return ST_TOO_BIG;
	if (line->queue_n >= line->queue_max ||
	    n > line->queue_bytes_max - line->queue_bytes)
		return ST_AGAIN;
	enum status st = packet_new(o, &p);
	if (st != ST_OK)
		return st;
	list_append(&line->queue, &p->link);
	line->queue_n++;
	line->queue_bytes += n;
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
		if (send_out(line, &queue_first(line)->out) == ST_AGAIN)
			return;
		queue_drop_first(line);
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
ask_call(struct ask_line *line, enum ask a, struct ask_load load, ask_answer_fn fn,
	 void *ctx, uint32_t *ret_seq)
{
	need(ask_rule(a)->deadline_ms > 0);
	if (!ask_rate_take(&line->asked[a], a, 1, loop_now_ms(line->loop)))
		return ST_LIMIT_RATE;
	struct call *c = malloc(sizeof *c);
	if (c == NULL)
		return ST_NOMEM;
	*c = (struct call){ .seq = line->next_seq, .ask = a, .fn = fn, .ctx = ctx };
	struct out o = { a, false, c->seq, load };
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
	struct out o = { a, false, 0, ASK_LOAD(body, fds, fds_n) };
	return post(line, &o);
}

enum status
ask_answer(struct ask_line *line, enum ask a, uint32_t seq, struct str body,
	   const int *fds, size_t fds_n)
{
	struct out o = { a, true, seq, ASK_LOAD(body, fds, fds_n) };

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

static bool
is_due(const struct list *calls, uint64_t now)
{
	return !list_is_empty(calls) &&
	       LIST_OF(calls->next, struct call, by_ask)->due_ms <= now;
}

static void
expire(struct list *calls, uint64_t now)
{
	while (is_due(calls, now))
		call_end(LIST_OF(list_pop(calls), struct call, by_ask), ST_TIMEOUT,
			 NULL);
}

static void
on_timer(void *ctx)
{
	struct ask_line *line = ctx;
	uint64_t now = loop_now_ms(line->loop);

	for (size_t i = 0; i < ASK_COUNT; i++)
		expire(&line->by_ask[i], now);
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
		queue_drop_first(line);
}

static void
end_all(struct list *calls)
{
	struct list *link;

	while ((link = list_pop(calls)) != NULL)
		call_end(LIST_OF(link, struct call, by_ask), ST_END, NULL);
}

static void
lose(struct ask_line *line, enum status why)
{
	shut(line);
	for (size_t i = 0; i < ASK_COUNT; i++)
		end_all(&line->by_ask[i]);
	if (!line->is_freed)
		line->lost(line->ctx, line, why);
}

static void
drop_all(struct list *calls)
{
	struct list *link;

	while ((link = list_pop(calls)) != NULL)
		call_free(LIST_OF(link, struct call, by_ask));
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
		drop_all(&line->by_ask[i]);
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

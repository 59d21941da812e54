#include "proxy/worker/lane.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/io/ask.h"

enum {
	/* A new policy reaches one process a little before the other; one that has died is
	 * started again at once. */
	AGAIN_MS = 20,
	AGAIN_MOST = 100,
	REJOIN_BODY = 128,
};

struct line {
	struct list link; /* worker->lane_lines */
	struct worker *w;
	struct ask_line *line;
	size_t group_n;
	char group[];
};

struct lane_call {
	struct conn *c;
	struct loop_timer again;
	struct ask_line *line; /* while it is asked */
	uint32_t seq;
	unsigned tries;
	int fd; /* our end */
	lane_fn fn;
	void *ctx;
	size_t name_n;
	char name[]; /* of the connector: the index may be another's by the next try */
};

static void
line_free(struct line *l)
{
	list_remove(&l->link);
	ask_line_free(l->line);
	free(l);
}

/* Every open call has had its answer.  A process that starts again brings a new line; of one
 * that lives on, the next call asks for one. */
static void
on_lost(void *ctx, struct ask_line *line, enum status why)
{
	(void)line;
	(void)why;
	line_free(ctx);
}

enum status
lane_line(struct worker *w, struct str group, int fd)
{
	struct ask_end end = { .fd = fd, .self = ROLE_WORKER, .peer = ROLE_CONNECTOR };
	struct line *l = calloc(1, sizeof *l + group.n);
	enum status st = fd < 0 ? ST_BAD_MESSAGE : ST_NOMEM;

	if (fd >= 0 && l != NULL) {
		l->w = w;
		l->group_n = group.n;
		memcpy(l->group, group.p, group.n);
		st = ask_line_new(w->loop, &end, NULL, on_lost, l, &l->line);
	}
	if (st != ST_OK) {
		if (fd >= 0)
			(void)close(fd);
		free(l);
		return st;
	}
	/* Newest last: an older line of that group ends by itself. */
	list_append(&w->lane_lines, &l->link);
	return ST_OK;
}

void
lane_lines_free(struct worker *w)
{
	list_each_safe (it, &w->lane_lines)
		line_free(LIST_OF(it, struct line, link));
}

static struct ask_line *
line_of(struct worker *w, struct str group)
{
	for (struct list *it = w->lane_lines.prev; it != &w->lane_lines;
	     it = it->prev) {
		struct line *l = LIST_OF(it, struct line, link);
		if (str_eq(str_of(l->group, l->group_n), group))
			return l->line;
	}
	return NULL;
}

static void
call_free(struct lane_call *l)
{
	loop_timer_clear(&l->again);
	if (l->fd >= 0)
		(void)close(l->fd);
	l->fd = -1;
	loop_defer(l->c->w->loop, free, l);
}

static void
call_end(struct lane_call *l, enum status st)
{
	int fd = st == ST_OK ? l->fd : -1;

	if (fd >= 0)
		l->fd = -1;
	call_free(l);
	l->fn(l->ctx, st, fd);
}

static enum status ask(struct lane_call *l);

/* ST_OK: it is asked again in a moment. */
static enum status
ask_later(struct lane_call *l)
{
	if (l->fd >= 0)
		(void)close(l->fd);
	l->fd = -1;
	if (l->tries++ >= AGAIN_MOST)
		return ST_NEEDS_CONNECTOR;
	loop_timer_set(&l->again, AGAIN_MS);
	return ST_OK;
}

static void
on_again(void *ctx)
{
	struct lane_call *l = ctx;
	enum status st = ask(l);

	if (st != ST_OK)
		call_end(l, st);
}

static void
on_answer(void *ctx, enum status st, struct ask_msg *m)
{
	struct lane_call *l = ctx;
	bool is_lost = st == ST_END; /* with its line */

	l->line = NULL;
	if (st == ST_OK) {
		struct wire in = wire_from(m->body);
		uint16_t told = wire_u16(&in);
		bool is_good = wire_end(&in) == ST_OK && told < ST_COUNT;
		st = is_good ? (enum status)told : ST_BAD_MESSAGE;
	} else {
		st = ST_NEEDS_CONNECTOR;
	}
	if ((is_lost || st == ST_RELOADED) && ask_later(l) == ST_OK)
		return;
	call_end(l, st);
}

/* It may have closed the line because of what was said on it, by whoever had this worker
 * under control, or because it had no room; so no more often than the table allows. */
static void
rejoin(struct worker *w, struct str group)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str body;

	if (!ask_rate_take(&w->rejoin, ASK_REJOIN, 0, loop_now_ms(w->loop)))
		return;
	buf_init(&b, REJOIN_BODY);
	wire_put_str(&b, group);
	enum status st = buf_finish(&b, &body);
	if (st == ST_OK)
		st = ask_send(&w->role.super, ASK_REJOIN, false, 0,
			      ASK_LOAD(body, NULL, 0));
	if (st != ST_OK)
		log_error(&w->role.log, "REJOIN: %s", status_code(st));
}

static enum status
send_ask(struct lane_call *l, struct ask_line *line, int theirs)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	int fds[] = { theirs, l->c->who_fd };
	struct str body;

	l->c->is_lent = true;
	buf_init(&b, 512);
	wire_put_str(&b, str_of(l->name, l->name_n));
	buf_put_u64(&b, l->c->w->role.generation);
	enum status st = buf_finish(&b, &body);
	if (st == ST_OK)
		st = ask_call(line, ASK_LANE, ASK_LOAD(body, fds, 2), on_answer, l,
			      &l->seq);
	if (st == ST_OK)
		l->line = line;
	if (st == ST_END)
		return ask_later(l);
	return st == ST_AGAIN ? ST_NEEDS_CONNECTOR : st;
}

static enum status
ask(struct lane_call *l)
{
	struct worker *w = l->c->w;
	const struct image *im = w->role.image;
	uint32_t at = image_connector_by_name(im, str_of(l->name, l->name_n));
	size_t n = 0;
	const struct image_connector *all = image_connectors(im, &n);
	int pair[2];

	if (at >= n)
		return ST_DENIED; /* a new policy has none of that name */
	struct str group = image_str(im, all[at].group);
	struct ask_line *line = line_of(w, group);
	if (line == NULL) {
		rejoin(w, group);
		return ask_later(l);
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) <
	    0)
		return ST_NO_FILES;
	l->fd = pair[0];
	enum status st = send_ask(l, line, pair[1]);
	(void)close(pair[1]);
	return st;
}

enum status
lane_open(struct conn *c, uint32_t connector, lane_fn fn, void *ctx,
	  struct lane_call **ret_call)
{
	const struct image *im = c->w->role.image;
	size_t n = 0;
	const struct image_connector *all = image_connectors(im, &n);
	struct lane_call *l;

	/* The row comes with the request; without a ledger there is none. */
	if (!role_has_ledger(&c->w->role))
		return ST_NO_LEDGER;
	if (connector >= n)
		return ST_DENIED;
	struct str name = image_str(im, all[connector].name);
	l = calloc(1, sizeof *l + name.n);
	if (l == NULL)
		return ST_NOMEM;
	l->c = c;
	l->fn = fn;
	l->ctx = ctx;
	l->fd = -1;
	l->name_n = name.n;
	memcpy(l->name, name.p, name.n);
	loop_timer_init(&l->again, c->w->loop, on_again, l);
	enum status st = ask(l);
	if (st != ST_OK) {
		call_free(l);
		return st;
	}
	*ret_call = l;
	return ST_OK;
}

void
lane_cancel(struct lane_call *l)
{
	if (l == NULL)
		return;
	/* A line that was lost has told us; so it lives. */
	if (l->line != NULL)
		ask_cancel(l->line, l->seq);
	l->line = NULL;
	call_free(l);
}

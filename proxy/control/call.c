#include "proxy/control/call.h"

#include <stdlib.h>

#include "conf/policy.h"
#include "proxy/io/memfd.h"

/* What the other end's own deadline gets to be heard. */
enum { CALL_GRACE_MS = 1000 };

struct call {
	struct control *control;
	struct ask_line *line;
	uint32_t seq;
	struct loop_timer timer;
	call_fn fn;
	void *ctx;
};

static void
call_free(struct call *call)
{
	loop_timer_clear(&call->timer);
	loop_defer(call->control->loop, free, call);
}

static void
finish(struct call *call, const struct call_got *got)
{
	call_free(call);
	call->fn(call->ctx, got);
}

static void
fail(struct call *call, enum status why)
{
	const struct call_got got = { .st = why };

	finish(call, &got);
}

/* The line ended, or nothing came: as call.h names it. */
static enum status
own_words(enum status st)
{
	if (st == ST_END)
		return ST_NEEDS_CONNECTOR;
	return st == ST_TIMEOUT ? ST_UPSTREAM_TIMEOUT : st;
}

static void
on_answer(void *ctx, enum status st, struct ask_msg *m)
{
	struct call *call = ctx;
	struct call_answer a;
	struct str body = STR("");

	if (st == ST_OK)
		st = m->lost_fds ? ST_NO_FILES : call_answer_get(m->body, &a);
	else
		st = own_words(st);
	if (st == ST_OK)
		st = a.st;
	if (st == ST_OK && a.body_n > 0)
		st = m->fds_n == 1 ? memfd_map(m->fds[0], a.body_n, &body)
				   : ST_BAD_MESSAGE;
	if (st != ST_OK) {
		fail(call, st);
		return;
	}
	const struct call_got got = { ST_OK, a.http, a.type, body };
	finish(call, &got);
	memfd_unmap(&body);
}

static void
on_late(void *ctx)
{
	struct call *call = ctx;

	ask_cancel(call->line, call->seq);
	fail(call, ST_UPSTREAM_TIMEOUT);
}

void
call_cancel(struct call *call)
{
	if (call == NULL)
		return;
	ask_cancel(call->line, call->seq);
	call_free(call);
}

static enum status
ask(struct call *call, const struct call_wish *wish)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str body;

	buf_init(&b, ask_rule(ASK_CALL)->size);
	call_wish_put(&b, wish);
	enum status st = buf_finish(&b, &body);
	if (st == ST_OK)
		st = ask_call(call->line, ASK_CALL, ASK_LOAD(body, NULL, 0), on_answer,
			      call, &call->seq);
	if (st == ST_AGAIN)
		return ST_LIMIT_RATE;
	return own_words(st);
}

static enum status
find_line(const struct control *c, struct str connector, struct ask_line **ret_line)
{
	const struct image *im = c->role.image;
	uint32_t index = image_connector_by_name(im, connector);

	if (index == CONNECTOR_NONE || !policy_may_call(im, index))
		return ST_NOT_FOUND;
	struct ask_line *line = connector_line(c, index);
	if (line == NULL)
		return ST_NEEDS_CONNECTOR;
	*ret_line = line;
	return ST_OK;
}

static bool
is_sound(const struct call_wish *w)
{
	return w->deadline_ms > 0 && w->deadline_ms <= CALL_DEADLINE_MAX_MS &&
	       w->answer_max <= CALL_ANSWER_MAX;
}

enum status
call_begin(struct control *c, const struct call_wish *wish, call_fn fn, void *ctx,
	   struct call **ret_call)
{
	struct ask_line *line = NULL;
	enum status st =
		is_sound(wish) ? find_line(c, wish->connector, &line) : ST_BAD_REQUEST;

	if (st == ST_OK && wish->body.n > CALL_BODY_MAX)
		st = ST_TOO_BIG;
	if (st != ST_OK)
		return st;
	struct call *call = calloc(1, sizeof *call);
	if (call == NULL)
		return ST_NOMEM;
	*call = (struct call){ .control = c, .line = line, .fn = fn, .ctx = ctx };
	st = ask(call, wish);
	if (st != ST_OK) {
		free(call);
		return st;
	}
	loop_timer_init(&call->timer, c->loop, on_late, call);
	loop_timer_set(&call->timer, (uint64_t)wish->deadline_ms + CALL_GRACE_MS);
	*ret_call = call;
	return ST_OK;
}

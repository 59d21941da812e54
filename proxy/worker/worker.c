#include "proxy/worker/worker.h"

#include <stdlib.h>
#include <unistd.h>

#include "proxy/io/ask.h"
#include "proxy/io/synth.h"
#include "proxy/worker/conn.h"
#include "proxy/worker/deny.h"
#include "proxy/worker/door.h"
#include "proxy/worker/exec.h"
#include "proxy/worker/lane.h"
#include "proxy/worker/mint.h"
#include "proxy/worker/pool.h"
#include "proxy/worker/start.h"

enum {
	TICK_MS = 1000,
	QUIET_TICKS =
		64, /* without connections before ticking stops: the pool empties */
};

uint64_t
worker_option(const struct worker *w, enum option opt)
{
	return image_number(w->role.image, opt);
}

bool
worker_is_draining(const struct worker *w)
{
	return w->is_draining;
}

void
worker_check_drained(struct worker *w)
{
	if (!w->is_draining || w->is_drained || !list_is_empty(&w->conns))
		return;
	w->is_drained = true;
	loop_timer_clear(&w->drain);
	role_drained(&w->role, w->drain_seq);
}

static void
on_tick(void *ctx)
{
	struct worker *w = ctx;

	w->quiet = list_is_empty(&w->conns) ? w->quiet + 1 : 0;
	list_each_safe (it, &w->conns) {
		struct conn *c = LIST_OF(it, struct conn, link);

		if (c->owner != NULL && c->owner->tick != NULL)
			c->owner->tick(c);
	}
	pool_tick(w->pool, loop_now_ms(w->loop));
	exec_pay(w);
	if (w->quiet < QUIET_TICKS)
		loop_timer_set(&w->tick, TICK_MS);
}

void
worker_wake(struct worker *w)
{
	w->quiet = 0;
	if (!loop_timer_is_set(&w->tick))
		loop_timer_set(&w->tick, TICK_MS);
}

/* The other end of a line is gone: every open call has had its answer by now. */
static void
on_lost(void *ctx, struct ask_line *line, enum status why)
{
	struct worker *w = ctx;

	(void)why; /* super has the death recorded and sends a new line */
	if (w->dialer == line)
		w->dialer = NULL;
	if (w->control == line)
		w->control = NULL;
	if (w->ledger == line)
		w->ledger = NULL;
	if (w->keeper == line)
		w->keeper = NULL;
	ask_line_free(line);
	loop_timer_set(&w->alone, ROLE_ALONE_MS);
}

/* No death, so no new line will come: the other end closed this one, because of what we
 * said on it.  Whoever made us say it ends with us. */
static void
on_alone(void *ctx)
{
	struct worker *w = ctx;

	if (w->dialer != NULL && w->control != NULL && w->ledger != NULL &&
	    w->keeper != NULL)
		return;
	log_error(&w->role.log, "ends: a neighbour closed its line and lives on");
	_exit(1);
}

static enum status
given_line(struct worker *w, uint32_t index, struct str text, struct ask_msg *m)
{
	struct ask_end end = { .self = ROLE_WORKER, .peer = (enum role)index };
	struct ask_line **slot;

	switch (index) {
	case ROLE_DIALER:
		slot = &w->dialer;
		break;
	case ROLE_CONTROL:
		slot = &w->control;
		break;
	case ROLE_LEDGER:
		slot = &w->ledger;
		break;
	case ROLE_KEEPER:
		slot = &w->keeper;
		break;
	case ROLE_CONNECTOR:
		return lane_line(w, text, ask_msg_take(m, 0));
	default:
		return ST_OK; /* of a role that this worker never asks */
	}
	end.fd = ask_msg_take(m, 0);
	if (end.fd < 0)
		return ST_BAD_MESSAGE;
	/* An older line ends by itself, with the process at its other end: on_lost().
	 */
	enum status st = ask_line_new(w->loop, &end, NULL, on_lost, w, slot);
	if (st == ST_OK && index == ROLE_CONTROL)
		exec_keep(w);
	return st;
}

static enum status
given_synth(struct worker *w, struct ask_msg *m)
{
	int fd = ask_msg_take(m, 0);
	struct synth *s;
	enum status st = synth_open(fd, false, &s);

	if (fd >= 0)
		(void)close(fd);
	if (st != ST_OK)
		return st;
	synth_close(w->synth);
	w->synth = s;
	return ST_OK;
}

static enum status
given_door(struct worker *w, enum give kind, uint32_t index, struct str text,
	   struct ask_msg *m)
{
	int fd = ask_msg_take(m, 0);
	enum status st;

	if (fd < 0)
		return ST_BAD_MESSAGE;
	if (kind == GIVE_LISTENER)
		st = door_add(w, fd, index);
	else
		st = door_add_attached(w, fd, index, str_eq(text, STR("proxy")));
	if (st == ST_OK && w->is_serving)
		doors_open(w);
	return st;
}

static enum status
on_given(void *ctx, enum give kind, uint32_t index, struct str text, struct ask_msg *m)
{
	struct worker *w = ctx;

	if (kind == GIVE_LINE)
		return given_line(w, index, text, m);
	if (kind == GIVE_SYNTH)
		return given_synth(w, m);
	if (kind == GIVE_LISTENER || kind == GIVE_ATTACHED)
		return given_door(w, kind, index, text, m);
	if (kind == GIVE_FORGET)
		mint_forget(w->mint);
	if (kind == GIVE_UNLISTEN)
		doors_close_listeners(w);
	if (kind == GIVE_REVOKED)
		doors_close_attached(w, index);
	return ST_OK;
}

static void
judge_one(struct conn *c)
{
	if (c->owner != NULL)
		c->owner->judge(c);
	if (c->is_closed || conn_is_same_sandbox(c))
		return;
	c->form = FORM_CLOSE;
	deny_because(c, ST_RELOADED);
}

/* Everything that runs is judged again, by the policy and the sandboxes there are now.
 */
static void
judge_all(struct worker *w)
{
	list_each_safe (it, &w->conns)
		judge_one(LIST_OF(it, struct conn, link));
}

/* What the engines of HTTP go by. */
static void
renew_numbers(struct worker *w)
{
	w->flow.limits = (struct h1_limits){
		.fields = (size_t)worker_option(w, OPT_LIMIT_FIELDS),
		.line = (size_t)worker_option(w, OPT_LIMIT_LINE),
		.head = (size_t)worker_option(w, OPT_LIMIT_HEAD),
	};
	w->front_limits = (struct front_limits){
		.head_ms = worker_option(w, OPT_REQUEST_HEAD_TIMEOUT),
		.keepalive_ms = worker_option(w, OPT_KEEPALIVE_TIMEOUT),
		.stalled_ms = worker_option(w, OPT_STALLED_TIMEOUT),
		.linger_bytes = worker_option(w, OPT_LIMIT_DENIED_DRAIN),
		.requests = (uint32_t)worker_option(w, OPT_LIMIT_KEEPALIVE),
		.streams = WORKER_STREAMS,
		.window = WORKER_WINDOW,
		.connection = (size_t)WORKER_STREAMS * WORKER_WINDOW,
		.heads = WORKER_HEADS,
	};
	w->leg_limits = (struct leg_limits){
		.streams = WORKER_STREAMS,
		.window = WORKER_WINDOW,
		.connection = (size_t)WORKER_STREAMS * WORKER_WINDOW,
	};
}

static enum status
on_prepare(void *ctx, const struct image *im, struct ask_msg *m)
{
	struct worker *w = ctx;
	enum status st = tls_roots_prepare(&w->roots, im, m);

	if (st != ST_OK)
		log_error(&w->role.log, "the authorities for hosts do not parse: %s",
			  status_code(st));
	return st;
}

/* Super hears that the policy is in force after this has returned. */
static void
on_commit(void *ctx, const struct image *old)
{
	struct worker *w = ctx;

	renew_numbers(w);
	(void)tls_roots_commit(&w->roots); /* legs go with their policy */
	limits_renew(&w->limits, w->role.image, w->role.who);
	pool_flush(w->pool, w->role.generation);
	mint_forget_listeners(w->mint);
	if (old == NULL)
		return;
	stats_add(w->role.stats, STAT_RELOADS, 1);
	judge_all(w);
	if (w->is_serving)
		doors_open(w);
}

/* Nobody forbade what a detached sandbox still had open: it ends, and no more. */
static void
close_all_of(struct worker *w, uint32_t handle)
{
	list_each_safe (it, &w->conns) {
		struct conn *c = LIST_OF(it, struct conn, link);

		if (c->limit != NULL && c->limit->handle == handle)
			conn_close(c);
	}
}

/* It is another one than a moment ago, and may have less. */
static void
judge_all_of(struct worker *w, uint32_t handle)
{
	list_each_safe (it, &w->conns) {
		struct conn *c = LIST_OF(it, struct conn, link);

		if (c->limit != NULL && c->limit->handle == handle)
			judge_one(c);
	}
}

static void
on_sandbox(void *ctx, const struct who *who, bool present)
{
	struct worker *w = ctx;

	if (present) {
		judge_all_of(w, who->handle);
		return;
	}
	doors_close_attached(w, who->handle);
	close_all_of(w, who->handle);
	limits_forget(&w->limits, who->handle);
}

static void
on_drain_over(void *ctx)
{
	struct worker *w = ctx;

	list_each_safe (it, &w->conns) {
		struct conn *c = LIST_OF(it, struct conn, link);

		c->form = FORM_CLOSE;
		deny_because(c, ST_DRAINING);
	}
	worker_check_drained(w);
}

static void
on_drain(void *ctx, uint32_t deadline_ms, uint32_t seq)
{
	struct worker *w = ctx;

	w->is_draining = true;
	w->is_drained = false;
	w->drain_seq = seq;
	doors_close(w);
	loop_timer_set(&w->drain, deadline_ms);
	list_each_safe (it, &w->conns) {
		struct conn *c = LIST_OF(it, struct conn, link);

		if (c->owner != NULL)
			c->owner->drain(c);
	}
	worker_check_drained(w);
}

static void
on_super(void *ctx, unsigned events)
{
	struct worker *w = ctx;

	(void)events;
	if (role_heard(&w->role) == ST_END)
		loop_stop(
			w->loop); /* without super nobody gives us anything any more */
}

const struct role_hooks worker_hooks = {
	.given = on_given,
	.prepare = on_prepare,
	.commit = on_commit,
	.drain = on_drain,
	.sandbox = on_sandbox,
};

enum status
worker_init(struct worker *w, struct role_hooks *hooks)
{
	enum status st;

	*w = (struct worker){ 0 };
	*hooks = worker_hooks;
	hooks->ctx = w;
	list_init(&w->doors);
	list_init(&w->conns);
	list_init(&w->lane_lines);
	list_init(&w->routed);
	buf_init(&w->owed, WORKER_OWED);
	limits_init(&w->limits);
	w->space = malloc(WORKER_SPACE);
	st = w->space == NULL ? ST_NOMEM : loop_new(&w->loop);
	w->flow.loop = w->loop;
	w->flow.space = w->space;
	w->flow.space_n = WORKER_SPACE;
	if (st == ST_OK)
		st = pool_new(&w->flow, &w->pool);
	if (st == ST_OK)
		st = stream_room_new(&w->room);
	if (st == ST_OK)
		st = mint_new(w->loop, &w->keeper, &w->mint);
	if (st != ST_OK)
		return st;
	loop_timer_init(&w->tick, w->loop, on_tick, w);
	loop_timer_init(&w->drain, w->loop, on_drain_over, w);
	loop_timer_init(&w->alone, w->loop, on_alone, w);
	return ST_OK;
}

void
worker_serve(struct worker *w)
{
	loop_io_init(&w->super, w->loop, w->role.super.fd, on_super, w);
	loop_io_first(&w->super);
	loop_io_want(&w->super, LOOP_READ);
	w->is_serving = true;
	doors_open(w);
	loop_run(w->loop);
}

void
worker_done(struct worker *w)
{
	list_each_safe (it, &w->conns)
		conn_close(LIST_OF(it, struct conn, link));
	doors_close(w);
	loop_timer_clear(&w->alone);
	loop_timer_clear(&w->tick);
	loop_timer_clear(&w->drain);
	loop_io_clear(&w->super);
	ask_line_free(w->dialer);
	ask_line_free(w->control);
	ask_line_free(w->ledger);
	ask_line_free(w->keeper);
	lane_lines_free(w);
	buf_done(&w->owed);
	pool_free(w->pool);
	mint_free(w->mint);
	tls_roots_done(&w->roots);
	loop_free(w->loop);
	stream_room_free(w->room);
	limits_done(&w->limits);
	synth_close(w->synth);
	free(w->space);
}

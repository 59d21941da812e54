/* A job's life: one thing that is done to one sandbox, and who waits for its end. */
#include <stdlib.h>
#include <string.h>

#include "proxy/control/brain_job_in.h"
#include "proxy/control/pin.h"

/* Life. */

static void
job_free(void *ctx)
{
	struct brain_job *j = ctx;

	arena_done(&j->arena);
	free(j);
}

static void
job_drop(struct brain_job *j)
{
	(void)map_take(&j->brain->jobs, str_from(j->id));
	call_cancel(j->call);
	j->call = NULL;
	pin_cancel(j->pin);
	j->pin = NULL;
	loop_timer_clear(&j->timer);
	loop_defer(j->brain->control->loop, job_free, j);
}

void
job_end(struct brain_job *j, enum status st, const struct call_got *got)
{
	struct list told;
	struct list *link;

	list_init(&told);
	while ((link = list_pop(&j->waits)) != NULL)
		list_append(&told, link);
	job_drop(j);
	while ((link = list_pop(&told)) != NULL) {
		struct brain_wait *w = LIST_OF(link, struct brain_wait, link);

		w->fn(w->ctx, st, got);
	}
}

static enum status
job_new(struct brain *b, struct str id, struct brain_job **ret_j)
{
	struct brain_job *j;
	enum status st;

	if (id.n != BRAIN_ID)
		return ST_NOT_FOUND;
	if (map_get(&b->jobs, id) != NULL)
		return ST_AGAIN;
	j = calloc(1, sizeof *j);
	st = j == NULL ? ST_NOMEM : map_put(&b->jobs, id, j);
	if (st != ST_OK) {
		free(j);
		return st;
	}
	j->brain = b;
	memcpy(j->id, id.p, id.n);
	arena_init(&j->arena, JOB_ARENA);
	list_init(&j->waits);
	j->since_ms = loop_now_ms(b->control->loop);
	*ret_j = j;
	return ST_OK;
}

enum status
brain_making_begin(struct brain *b, struct str id)
{
	struct brain_job *j = NULL;
	enum status st = job_new(b, id, &j);

	if (st == ST_OK)
		j->is_making = true;
	return st;
}

void
brain_making_end(struct brain *b, struct str id)
{
	struct brain_job *j = map_get(&b->jobs, id);

	if (j != NULL && j->is_making)
		job_end(j, ST_OK, NULL);
}

bool
brain_job_runs(const struct brain *b, struct str id)
{
	return map_get(&b->jobs, id) != NULL;
}

bool
brain_job_wait(struct brain *b, struct str id, struct brain_wait *wait)
{
	struct brain_job *j = map_get(&b->jobs, id);

	if (j == NULL)
		return false;
	list_append(&j->waits, &wait->link);
	return true;
}

void
brain_unwait(struct brain_wait *w)
{
	if (w->link.next != NULL)
		list_remove(&w->link);
}

void
brain_jobs_close(struct brain *b)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(&b->jobs, &at, &key, &value);) {
		struct brain_job *j = value;

		while (list_pop(&j->waits) != NULL)
			;
		call_cancel(j->call);
		pin_cancel(j->pin);
		loop_timer_clear(&j->timer);
		job_free(j);
	}
}

/* Calls. */

static void
job_got(void *ctx, const struct call_got *got)
{
	struct brain_job *j = ctx;

	j->call = NULL;
	brain_server_told(j->brain, j->box.server, got);
	j->got(j, got);
}

enum status
job_call(struct brain_job *j, const struct brain_call *w, job_got_fn got)
{
	struct call_wish wish = {
		.connector = j->box.server,
		.method = str_from(w->method),
		.target = w->target,
		.type = w->body.n > 0 ? STR("application/json") : STR(""),
		.body = w->body,
		.deadline_ms = w->deadline_ms == 0 ? BRAIN_CALL_MS : w->deadline_ms,
		.answer_max = CALL_ANSWER_MAX,
	};

	j->got = got;
	if (w->target.p == NULL)
		return ST_NOMEM;
	return call_begin(j->brain->control, &wish, job_got, j, &j->call);
}

void
job_next(struct brain_job *j, const struct brain_call *w, job_got_fn got)
{
	enum status st = job_call(j, w, got);

	if (st != ST_OK)
		job_end(j, st, NULL);
}

enum status
job_ask(struct brain_job *j, const char *method, const char *rest, job_got_fn got)
{
	struct brain_call w = { .method = method,
				.target = brain_target(&j->arena, j->box.upstream,
						       rest) };

	return job_call(j, &w, got);
}

/* Memory. */

static enum status
measured(struct brain_job *j, struct brain_memory held)
{
	j->before = j->held;
	j->held = held;
	j->since_ms = loop_now_ms(j->brain->control->loop);
	return j->measured(j);
}

static void
job_measured(void *ctx, enum status st, const struct pin_found *found)
{
	struct brain_job *j = ctx;
	struct brain_memory held = { .is_known = st == ST_OK, .octets = found->octets };

	j->pin = NULL;
	st = measured(j, held);
	if (st != ST_OK)
		job_end(j, st, NULL);
}

enum status
job_measure(struct brain_job *j, enum status (*then)(struct brain_job *j))
{
	struct pin_wish w = { .id = str_from(j->id),
			      .upstream = j->box.upstream,
			      .fn = job_measured,
			      .ctx = j };

	j->measured = then;
	return pin_measure(j->brain->control, &w, &j->pin) == ST_OK
		       ? ST_OK
		       : measured(j, (struct brain_memory){ 0 });
}

/* Begin. */

static void
nothing_left(void *ctx)
{
	struct brain_job *j = ctx;

	act_gone(j);
	job_end(j, ST_OK, NULL);
}

enum status
brain_job(struct brain *b, struct str id, enum brain_act act, struct brain_wait *wait)
{
	struct brain_job *j = NULL;
	enum status st = job_new(b, id, &j);

	if (st != ST_OK)
		return st;
	j->act = act;
	st = brain_store_find_any(b->store, id, &j->arena, &j->box);
	if (st == ST_OK && j->box.state == BRAIN_GONE)
		st = ST_NOT_FOUND;
	if (st == ST_OK)
		st = act_begin(j);
	if (st == ST_END) {
		/* Told as all ends are: not from inside. */
		loop_timer_init(&j->timer, b->control->loop, nothing_left, j);
		loop_timer_set(&j->timer, 0);
		st = ST_OK;
	}
	if (st != ST_OK) {
		job_drop(j);
		return st;
	}
	if (wait != NULL)
		list_append(&j->waits, &wait->link);
	return ST_OK;
}

/* Turns that wait. */

static void
turn_told(void *ctx, enum status st, const struct call_got *got)
{
	struct brain_turn *t = ctx;
	brain_turn_fn again = t->again;

	(void)st;
	(void)got;
	t->again = NULL;
	again(t);
}

bool
brain_turn_wait(struct brain_turn *t, brain_turn_fn again)
{
	if (++t->looks > BRAIN_LOOKS) {
		brain_refuse(t, ST_CONFLICT,
			     STR("others change this sandbox all the time"));
		return true;
	}
	t->wait.fn = turn_told;
	t->wait.ctx = t;
	t->again = again;
	return brain_job_wait(t->brain, t->box.id, &t->wait);
}

static void
turn_did(void *ctx, enum status st, const struct call_got *got)
{
	struct brain_turn *t = ctx;
	brain_turn_fn again = t->again;

	t->again = NULL;
	brain_turn_asked(t);
	if (got != NULL && (got->st != ST_OK || got->http / 100 != 2))
		brain_answer_got(t, got);
	else if (st != ST_OK)
		brain_refuse(t, st, STR(""));
	else
		again(t);
}

void
brain_turn_job(struct brain_turn *t, enum brain_act act, brain_turn_fn again)
{
	enum status st;

	if (++t->looks > BRAIN_LOOKS) {
		brain_refuse(t, ST_CONFLICT,
			     STR("others change this sandbox all the time"));
		return;
	}
	t->wait.fn = turn_did;
	t->wait.ctx = t;
	t->again = again;
	st = brain_turn_asks(t);
	if (st == ST_OK)
		st = brain_job(t->brain, t->box.id, act, &t->wait);
	if (st != ST_OK)
		brain_refuse(t, st, STR(""));
}

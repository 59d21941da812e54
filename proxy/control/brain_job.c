/* One thing that is done to one sandbox. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"

enum {
	JOB_ARENA = 4 << 20,
	POLL_MS = 500, /* a snapshot that is being made */
	POLLS = 600,
};

struct brain_job {
	struct brain *brain;
	char id[BRAIN_ID + 1];
	enum brain_act act;
	bool is_making; /* a turn makes it: no act of ours */
	struct arena arena;
	struct brain_sandbox box;
	struct call *call;
	void (*got)(struct brain_job *j, const struct call_got *got);
	struct loop_timer timer;
	unsigned polls;
	struct str snapshot;
	struct list waits;
	uint64_t since_ms;
};

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
	loop_timer_clear(&j->timer);
	loop_defer(j->brain->control->loop, job_free, j);
}

/* All who wait look again. */
static void
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

typedef void (*job_got_fn)(struct brain_job *j, const struct call_got *got);

static enum status
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

/* The next call of a job that has begun: it ends if that can't be made. */
static void
job_next(struct brain_job *j, const struct brain_call *w, job_got_fn got)
{
	enum status st = job_call(j, w, got);

	if (st != ST_OK)
		job_end(j, st, NULL);
}

static enum status
job_ask(struct brain_job *j, const char *method, const char *rest, job_got_fn got)
{
	struct brain_call w = { .method = method,
				.target = brain_target(&j->arena, j->box.upstream,
						       rest) };

	return job_call(j, &w, got);
}

static struct str
snapshot_target(struct brain_job *j, struct str snapshot)
{
	char text[256];
	int n = snprintf(text, sizeof text, "/v1/snapshots/%.*s", STR_ARG(snapshot));

	if (n < 0 || (size_t)n >= sizeof text)
		return (struct str){ NULL, 0 };
	return arena_copy(&j->arena, str_of(text, (size_t)n));
}

static bool
is_done(const struct call_got *got)
{
	return got->st == ST_OK && got->http / 100 == 2;
}

static bool
is_missing(const struct call_got *got)
{
	return got->st == ST_OK && got->http == 404;
}

static uint64_t
took(const struct brain_job *j)
{
	return loop_now_ms(j->brain->control->loop) - j->since_ms;
}

static void
set_cost(struct brain_job *j)
{
	if (brain_store_cost(j->brain->store, j->box.id, &j->box.cost) != ST_OK)
		log_error(&j->brain->control->role.log, "exec.db: costs not kept");
}

/* The store takes what the server has done. */
static enum status
set_state(struct brain_job *j, enum brain_state to)
{
	enum status st =
		brain_store_state(j->brain->store, j->box.id, to, brain_now_s());

	brain_endpoints_forget(j->brain, j->box.id);
	if (st != ST_OK)
		log_error(&j->brain->control->role.log, "exec.db: %s", status_code(st));
	return st;
}

static void
set_gone(struct brain_job *j)
{
	enum status st = brain_store_gone(j->brain->store, j->box.id, brain_now_s());

	brain_endpoints_forget(j->brain, j->box.id);
	if (st != ST_OK)
		log_error(&j->brain->control->role.log, "exec.db: %s", status_code(st));
}

/* Pause. */

static void
paused(struct brain_job *j, const struct call_got *got)
{
	enum status st = got->st;

	if (is_done(got)) {
		st = set_state(j, BRAIN_PAUSED);
		j->box.cost.pause_ms = took(j);
		set_cost(j);
	} else if (is_missing(got)) {
		set_gone(j);
	}
	job_end(j, st, got);
}

/* Resume. */

static void
looked(struct brain_job *j, const struct call_got *got)
{
	json_t *said = NULL;
	enum status st = got->st;

	if (brain_got_object(got, &said))
		(void)brain_view_take(j->brain, &j->box, said);
	json_decref(said);
	if (st == ST_OK && j->box.state != BRAIN_RUNNING)
		st = ST_CONFLICT;
	job_end(j, st, got);
}

static void
resumed(struct brain_job *j, const struct call_got *got)
{
	if (is_done(got)) {
		enum status st = set_state(j, BRAIN_RUNNING);

		j->box.cost.resume_ms = took(j);
		set_cost(j);
		job_end(j, st, got);
	} else if (is_missing(got)) {
		set_gone(j);
		job_end(j, ST_OK, got);
	} else if (got->st == ST_OK && got->http == 409) {
		/* It may run already: somebody else did it. */
		if (job_ask(j, "GET", "", looked) != ST_OK)
			job_end(j, ST_UPSTREAM_UNAVAILABLE, NULL);
	} else {
		job_end(j, got->st, got);
	}
}

static void
dropped(struct brain_job *j, const struct call_got *got)
{
	(void)got; /* what is left of it costs only room there */
	job_end(j, ST_OK, NULL);
}

static void
thawed(struct brain_job *j, const struct call_got *got)
{
	json_t *said = NULL;
	struct str upstream;
	enum status st = got->st;

	if (!brain_got_object(got, &said)) {
		job_end(j, st == ST_OK && got->http / 100 == 2 ? ST_UPSTREAM_BAD : st,
			got);
		return;
	}
	upstream = arena_copy(&j->arena, brain_json_text(said, "id"));
	json_decref(said);
	st = brain_json_is_id(upstream) ? brain_store_made(j->brain->store, j->box.id,
							   j->box.server, upstream, 0)
					: ST_UPSTREAM_BAD;
	brain_endpoints_forget(j->brain, j->box.id);
	if (st != ST_OK) {
		job_end(j, st, NULL);
		return;
	}
	j->box.cost.resume_ms = took(j);
	set_cost(j);
	struct brain_call w = { .method = "DELETE",
				.target = snapshot_target(j, j->box.snapshot) };
	job_next(j, &w, dropped);
}

/* What it was made of, but from its snapshot, and for what is left of its time. */
static struct str
thaw_body(struct brain_job *j)
{
	json_t *body = brain_dress(j->brain, &j->box);
	uint64_t now = brain_now_s(), left = REQUEST_TIMEOUT_MIN_S;
	struct str text = { NULL, 0 };

	if (j->box.expires_s > now + left)
		left = j->box.expires_s - now;
	(void)json_object_del(body, "image");
	if (json_object_set_new(body, "snapshotId",
				json_stringn(j->box.snapshot.p, j->box.snapshot.n)) ==
		    0 &&
	    json_object_set_new(body, "timeout", json_integer((json_int_t)left)) == 0)
		text = brain_dump(&j->arena, body);
	json_decref(body);
	return text;
}

static enum status
resume_begin(struct brain_job *j)
{
	struct brain_call w = { .method = "POST",
				.target = STR("/v1/sandboxes"),
				.deadline_ms = BRAIN_CREATE_MS };

	if (j->box.state == BRAIN_PAUSED)
		return job_ask(j, "POST", "/resume", resumed);
	if (j->box.state != BRAIN_SNAPSHOT)
		return ST_CONFLICT;
	w.body = thaw_body(j);
	return w.body.p == NULL ? ST_NOMEM : job_call(j, &w, thawed);
}

/* Freeze. */

static void
frozen_gone(struct brain_job *j, const struct call_got *got)
{
	if (!is_done(got) && !is_missing(got))
		log_error(&j->brain->control->role.log,
			  "a sandbox is left on %.*s beside its snapshot",
			  STR_ARG(j->box.server));
	job_end(j, ST_OK, NULL);
}

static uint64_t
memory_of(const struct brain_sandbox *box)
{
	json_t *request = brain_json_object(box->request);
	const json_t *limits =
		json_object_get(json_object_get(request, "body"), "resourceLimits");
	uint64_t bytes = 0;

	if (!request_quantity(brain_json_text(limits, "memory"), false, &bytes))
		bytes = 0;
	json_decref(request);
	return bytes;
}

static void
frozen(struct brain_job *j)
{
	enum status st = brain_store_frozen(j->brain->store, j->box.id, j->snapshot,
					    brain_now_s());

	brain_endpoints_forget(j->brain, j->box.id);
	if (st == ST_OK) {
		j->box.cost.pause_ms = took(j);
		j->box.cost.freed = memory_of(&j->box);
		set_cost(j);
		st = job_ask(j, "DELETE", "", frozen_gone);
	}
	if (st != ST_OK)
		job_end(j, st, NULL);
}

static void snapshot_made(struct brain_job *j, const struct call_got *got);

static void
poll_snapshot(void *ctx)
{
	struct brain_job *j = ctx;
	struct brain_call w = { .method = "GET",
				.target = snapshot_target(j, j->snapshot) };

	job_next(j, &w, snapshot_made);
}

static void
snapshot_made(struct brain_job *j, const struct call_got *got)
{
	json_t *said = NULL;
	struct str id, state;

	if (!brain_got_object(got, &said)) {
		job_end(j, got->st, got);
		return;
	}
	id = brain_json_text(said, "id");
	if (j->snapshot.n == 0 && brain_json_is_id(id))
		j->snapshot = arena_copy(&j->arena, id);
	state = brain_json_text(json_object_get(said, "status"), "state");
	bool is_ready = str_eq(state, STR("Ready"));
	bool is_coming = str_eq(state, STR("Creating"));
	json_decref(said);
	if (j->snapshot.n == 0)
		job_end(j, ST_UPSTREAM_BAD, NULL);
	else if (is_ready)
		frozen(j);
	else if (is_coming && ++j->polls < POLLS)
		loop_timer_set(&j->timer, POLL_MS);
	else
		job_end(j, ST_UPSTREAM_TIMEOUT, NULL);
}

static enum status
freeze_begin(struct brain_job *j)
{
	struct brain_call w = {
		.method = "POST",
		.target = brain_target(&j->arena, j->box.upstream, "/snapshots"),
		.body = STR("{}"),
		.deadline_ms = BRAIN_CREATE_MS,
	};

	loop_timer_init(&j->timer, j->brain->control->loop, poll_snapshot, j);
	return j->box.state == BRAIN_RUNNING ? job_call(j, &w, snapshot_made)
					     : ST_CONFLICT;
}

/* Kill. */

static void
all_killed(struct brain_job *j, const struct call_got *got)
{
	(void)got; /* a snapshot that is left costs only room there */
	set_gone(j);
	job_end(j, ST_OK, NULL);
}

static void
killed(struct brain_job *j, const struct call_got *got)
{
	struct brain_call w = { .method = "DELETE" };

	if (!is_done(got) && !is_missing(got)) {
		job_end(j, got->st, got);
		return;
	}
	w.target = snapshot_target(j, j->box.snapshot);
	if (j->box.snapshot.n == 0 || job_call(j, &w, all_killed) != ST_OK)
		all_killed(j, NULL);
}

/* What is left of it on its server: itself, and perhaps a snapshot. */
static enum status
kill_begin(struct brain_job *j)
{
	enum status st =
		j->box.state == BRAIN_KILLING ? ST_OK : set_state(j, BRAIN_KILLING);

	if (st != ST_OK)
		return st;
	brain_held_drop(j->brain, j->box.id);
	return j->box.upstream.n == 0 ? ST_END : job_ask(j, "DELETE", "", killed);
}

/* Begin. */

static enum status
begin(struct brain_job *j)
{
	switch (j->act) {
	case BRAIN_PAUSE:
		return j->box.state == BRAIN_RUNNING
			       ? job_ask(j, "POST", "/pause", paused)
			       : ST_CONFLICT;
	case BRAIN_RESUME:
		return resume_begin(j);
	case BRAIN_FREEZE:
		return freeze_begin(j);
	case BRAIN_KILL:
		return kill_begin(j);
	case BRAIN_ACTS:
		break;
	}
	return ST_INTERNAL;
}

static void
nothing_left(void *ctx)
{
	struct brain_job *j = ctx;

	set_gone(j);
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
		st = begin(j);
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
	st = brain_job(t->brain, t->box.id, act, &t->wait);
	if (st != ST_OK)
		brain_refuse(t, st, STR(""));
}

/* What can be done to a sandbox: paused, woken, frozen into a snapshot, ended. */
#include <stdio.h>
#include <string.h>

#include "proxy/control/brain_job_in.h"
#include "proxy/control/brain_json.h"

enum {
	POLL_MS = 500, /* a snapshot that is being made */
	POLLS = 600,
};

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

/* Both are in j->box.cost already, if they belong there. */
static void
set_cost(struct brain_job *j, enum brain_spent what, uint64_t ms,
	 struct brain_memory freed)
{
	brain_spend(j->brain, what, ms, freed);
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

void
act_gone(struct brain_job *j)
{
	enum status st = brain_store_gone(j->brain->store, j->box.id, brain_now_s());

	brain_forget(j->brain, j->box.id);
	if (st != ST_OK)
		log_error(&j->brain->control->role.log, "exec.db: %s", status_code(st));
}

/* Pause. */

/* What is frozen keeps what it holds, unless the server or the kernel takes it away. */
static enum status
pause_measured(struct brain_job *j)
{
	struct brain_memory *freed = &j->box.cost.freed;

	freed->is_known = j->before.is_known && j->held.is_known;
	freed->octets = j->before.octets > j->held.octets
				? j->before.octets - j->held.octets
				: 0;
	set_cost(j, BRAIN_SPENT_PAUSE, j->box.cost.pause_ms, *freed);
	job_end(j, ST_OK, NULL);
	return ST_OK;
}

static void
paused(struct brain_job *j, const struct call_got *got)
{
	enum status st = got->st;

	if (is_done(got)) {
		st = set_state(j, BRAIN_PAUSED);
		j->box.cost.pause_ms = took(j);
		if (st == ST_OK)
			st = job_measure(j, pause_measured);
		if (st == ST_OK)
			return;
	} else if (is_missing(got)) {
		act_gone(j);
	}
	job_end(j, st, got);
}

static enum status
pause_begin(struct brain_job *j)
{
	return job_ask(j, "POST", "/pause", paused);
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
		set_cost(j, BRAIN_SPENT_RESUME, took(j), (struct brain_memory){ 0 });
		job_end(j, st, got);
	} else if (is_missing(got)) {
		act_gone(j);
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
	st = brain_bind(j->brain, j->box.id, NULL);
	if (st != ST_OK && st != ST_END)
		log_error(&j->brain->control->role.log, "%s has no way out yet: %s",
			  j->id, status_code(st));
	j->box.cost.resume_ms = took(j);
	set_cost(j, BRAIN_SPENT_RESUME, took(j), (struct brain_memory){ 0 });
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

static void
frozen(struct brain_job *j)
{
	enum status st = brain_store_frozen(j->brain->store, j->box.id, j->snapshot,
					    brain_now_s());

	brain_endpoints_forget(j->brain, j->box.id);
	brain_unbind(j->brain, j->box.id);
	if (st == ST_OK) {
		j->box.cost.snapshot_ms = took(j);
		j->box.cost.freed = j->held;
		set_cost(j, BRAIN_SPENT_SNAPSHOT, took(j), j->held);
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
	return job_call(j, &w, snapshot_made);
}

/* Kill. */

static void
all_killed(struct brain_job *j, const struct call_got *got)
{
	(void)got; /* a snapshot that is left costs only room there */
	act_gone(j);
	if (j->box.upstream.n > 0)
		brain_spend(j->brain, BRAIN_SPENT_KILL, took(j), j->held);
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

static enum status
kill_measured(struct brain_job *j)
{
	return job_ask(j, "DELETE", "", killed);
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
	return j->box.upstream.n == 0 ? ST_END : job_measure(j, kill_measured);
}

enum status
act_begin(struct brain_job *j)
{
	switch (j->act) {
	case BRAIN_PAUSE:
		return j->box.state == BRAIN_RUNNING ? job_measure(j, pause_begin)
						     : ST_CONFLICT;
	case BRAIN_RESUME:
		return resume_begin(j);
	case BRAIN_FREEZE:
		return j->box.state == BRAIN_RUNNING ? job_measure(j, freeze_begin)
						     : ST_CONFLICT;
	case BRAIN_KILL:
		return kill_begin(j);
	case BRAIN_ACTS:
		break;
	}
	return ST_INTERNAL;
}

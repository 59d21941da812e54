/* A sandbox is made, or found: CreateSandboxRequest. */
#include <stdio.h>

#include "proxy/control/brain_create_in.h"
#include "proxy/control/brain_json.h"
#include "proxy/control/brain_label.h"
#include "proxy/control/brain_policy.h"

enum { IDEMPOTENCY_S = 24 * 3600, CLAIMS = 3 };

static void
create_done(void *state)
{
	struct create *c = state;

	json_decref(c->policy);
	json_decref(c->said);
	c->policy = c->said = NULL;
}

/* Others look again. */
static void
making_over(struct brain_turn *t)
{
	struct create *c = t->state;

	if (c->is_making)
		brain_making_end(t->brain, t->box.id);
	c->is_making = false;
}

/* Answers. */

void
create_answer(struct brain_turn *t, const json_t *said)
{
	const struct create *c = t->state;
	json_t *view = brain_view(&t->box, said);
	char location[128];

	(void)snprintf(location, sizeof location, "%s/sandboxes/%.*s",
		       t->wish.is_v1 ? "/v1" : "", STR_ARG(t->box.id));
	making_over(t);
	if (view == NULL)
		brain_refuse(t, ST_NOMEM, STR(""));
	else
		brain_answer_made(t, view, str_from(location), str_from(c->start));
}

/* Its row says so to who was told its id or may come back for it; else nothing stays. */
void
create_set_failed(struct brain_turn *t)
{
	enum brain_state to =
		t->was_held || t->wish.idempotency.n > 0 ? BRAIN_FAILED : BRAIN_GONE;
	enum status st =
		brain_store_state(t->brain->store, t->box.id, to, brain_now_s());

	if (st != ST_OK && st != ST_CONFLICT)
		log_error(&t->brain->control->role.log, "exec.db: %s", status_code(st));
}

void
create_fail(struct brain_turn *t, enum status st, const char *why)
{
	create_set_failed(t);
	making_over(t);
	brain_refuse(t, st, str_from(why));
}

/* Its address is known to all roles before its caller knows of it. */

static void
bound(void *ctx, enum status st, const struct call_got *got)
{
	struct brain_turn *t = ctx;
	struct create *c = t->state;

	(void)st; /* it reaches nothing until it is: it is tried again */
	(void)got;
	create_answer(t, c->said);
}

static void
bind_made(struct brain_turn *t, json_t *said)
{
	struct create *c = t->state;
	enum status st;

	c->said = json_incref(said);
	t->wait.fn = bound;
	t->wait.ctx = t;
	st = brain_bind(t->brain, t->box.id, &t->wait);
	if (st == ST_OK)
		return;
	if (st != ST_END)
		log_error(&t->brain->control->role.log, "%.*s has no way out yet: %s",
			  STR_ARG(t->box.id), status_code(st));
	create_answer(t, c->said);
}

/* Made by a server. */

/* Nobody knows its name: it would run for nothing. */
static bool
is_forgotten(const struct brain_turn *t)
{
	const struct create *c = t->state;

	return t->line == NULL && c->reuse == BRAIN_REUSE_NONE &&
	       t->wish.idempotency.n == 0 && t->approval == NULL && !t->was_held;
}

/* A job of its own; if it can't begin, the comparison of lists will. */
static void
end_it(struct brain_turn *t)
{
	enum status st;

	making_over(t);
	st = brain_job(t->brain, t->box.id, BRAIN_KILL, NULL);
	if (st != ST_OK && st != ST_AGAIN && st != ST_NOT_FOUND)
		log_error(&t->brain->control->role.log, "a sandbox isn't ended: %s",
			  status_code(st));
}

/* Ended by its owner while it was made: the job finds what it is.  Else the server gave an id
 * that is another sandbox's already, which nothing may be done to. */
static void
not_made(struct brain_turn *t, enum status st)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	struct brain_sandbox row;
	bool is_there;

	arena_init(&a, BRAIN_ARENA);
	is_there = st == ST_CONFLICT &&
		   brain_store_find_any(t->brain->store, t->box.id, &a, &row) == ST_OK;
	if (is_there && row.state >= BRAIN_KILLING) {
		end_it(t);
		brain_refuse(t, ST_CONFLICT, STR("it was ended while it was made"));
	} else if (is_there) {
		create_fail(t, ST_UPSTREAM_BAD,
			    "the server gave an id that another sandbox has");
	} else {
		create_fail(t, st, "");
	}
}

static void
made(struct brain_turn *t, json_t *said)
{
	struct create *c = t->state;
	struct brain *b = t->brain;
	struct str upstream = arena_copy(&t->arena, brain_json_text(said, "id"));
	uint64_t expires_s = 0;
	enum status st = ST_UPSTREAM_BAD;

	if (!brain_time_read(brain_json_text(said, "expiresAt"), &expires_s))
		expires_s = 0;
	expires_s = brain_end_capped(b, expires_s);
	if (brain_json_is_id(upstream))
		st = brain_store_made(b->store, t->box.id, t->box.server, upstream,
				      expires_s);
	if (st != ST_OK) {
		not_made(t, st);
		return;
	}
	t->box.upstream = upstream;
	if (expires_s > 0)
		t->box.expires_s = expires_s;
	t->box.state = BRAIN_RUNNING;
	t->box.cost.create_ms = loop_now_ms(b->control->loop) - c->since_ms;
	brain_spend(b, BRAIN_SPENT_CREATE, t->box.cost.create_ms,
		    (struct brain_memory){ 0 });
	if (brain_store_cost(b->store, t->box.id, &t->box.cost) != ST_OK)
		log_error(&b->control->role.log, "exec.db: costs not kept");
	if (is_forgotten(t))
		end_it(t);
	bind_made(t, said);
}

static void
create_told(struct brain_turn *t, const struct call_got *got)
{
	struct create *c = t->state;
	json_t *said = NULL;

	brain_server_told(t->brain, t->box.server, got);
	if (brain_got_object(got, &said)) {
		made(t, said);
		json_decref(said);
	} else if (brain_is_unasked(got)) {
		c->at++;
		create_make(t);
	} else if (got->st == ST_LIMIT_USER) {
		create_fail(t, got->st, "");
	} else if (got->st != ST_OK || got->http < 400) {
		/* The server may have it: what carries our id and is no sandbox of ours is
		 * ended when servers' lists are compared. */
		create_fail(t,
			    got->st == ST_UPSTREAM_TIMEOUT ? got->st
							   : ST_UPSTREAM_UNAVAILABLE,
			    status_code(got->st));
	} else {
		create_set_failed(t);
		making_over(t);
		brain_answer_got(t, got);
	}
}

static struct str
body_for(struct brain_turn *t)
{
	json_t *body = brain_dress(t->brain, &t->box);
	json_t *image = json_object_get(t->request.body, "image");
	struct str text = { NULL, 0 };

	/* With the registry's credentials, which the kept request doesn't have. */
	if (body != NULL &&
	    (image == NULL || json_object_set(body, "image", image) == 0))
		text = brain_dump(&t->arena, body);
	json_decref(body);
	return text;
}

void
create_make(struct brain_turn *t)
{
	struct create *c = t->state;
	struct brain_call w = { .method = "POST",
				.target = STR("/v1/sandboxes"),
				.deadline_ms = BRAIN_CREATE_MS };

	if (c->at >= c->servers_n) {
		create_fail(t, ST_UPSTREAM_UNAVAILABLE,
			    "no server of the tier takes it; `sandgate servers` "
			    "tells the operator why");
		return;
	}
	t->box.server = c->servers[c->at];
	w.server = t->box.server;
	w.body = body_for(t);
	if (w.body.p == NULL)
		create_fail(t, ST_NOMEM, "");
	else
		brain_call(t, &w, create_told);
}

/* What a claim gave. */

/* Ready at once: its labels and its time are set behind the answer. */
static void
warm(struct brain_turn *t)
{
	struct create *c = t->state;
	enum status st = brain_store_state(t->brain->store, t->box.id, BRAIN_RUNNING,
					   brain_now_s());

	if (st != ST_OK) {
		create_fail(t, st, "");
		return;
	}
	t->box.state = BRAIN_RUNNING;
	t->box.cost.create_ms = loop_now_ms(t->brain->control->loop) - c->since_ms;
	brain_spend(t->brain, BRAIN_SPENT_WARM, t->box.cost.create_ms,
		    (struct brain_memory){ 0 });
	if (brain_store_cost(t->brain->store, t->box.id, &t->box.cost) != ST_OK)
		log_error(&t->brain->control->role.log, "exec.db: costs not kept");
	brain_warm_claimed(t->brain, &t->box, t->request.timeout_s);
	bind_made(t, NULL);
}

/* The claim. */

/* For the row: how it was come by, and which rule put it there. */
static void
set_words(struct brain_turn *t, enum brain_claimed how)
{
	static const char *const words[] = { [BRAIN_EXISTING] = "reused",
					     [BRAIN_WARM] = "warm",
					     [BRAIN_NEW] = "cold",
					     [BRAIN_REPEATED] = "repeated" };
	struct create *c = t->state;
	CLEANUP(buf_done) struct buf text = { 0 };

	c->start = words[how];
	buf_init(&text, 512);
	buf_putf(&text, "%s; ", c->start);
	exec_put_placing(&text, t->brain->control->role.image, &c->placing);
	if (text.st == ST_OK)
		t->words = arena_copy(&t->arena, str_of(text.p, text.len));
}

static void
claimed(struct brain_turn *t, enum brain_claimed how)
{
	struct create *c = t->state;
	enum status st;

	set_words(t, how);
	st = brain_row(t);
	if (st != ST_OK) {
		if (how == BRAIN_NEW || how == BRAIN_WARM)
			create_set_failed(t);
		brain_refuse(t, st, STR(""));
		return;
	}
	if (how == BRAIN_EXISTING || how == BRAIN_REPEATED) {
		st = how == BRAIN_REPEATED
			     ? ST_OK
			     : brain_rebind_given(t->brain, &t->box, c->kept_policy);
		if (st == ST_OK)
			create_existing(t);
		else
			brain_refuse(t, st, STR(""));
		return;
	}
	if (t->box.state == BRAIN_PENDING) {
		create_hold(t);
		return;
	}
	st = brain_making_begin(t->brain, t->box.id);
	c->is_making = st == ST_OK;
	if (st != ST_OK)
		create_fail(t, st, "");
	else if (how == BRAIN_WARM)
		warm(t);
	else
		create_make(t);
}

void
create_claim(struct brain_turn *t)
{
	struct create *c = t->state;
	struct brain_pair pairs[LABELS_MAX];
	uint64_t now = brain_now_s();
	bool is_held =
		c->judged.is_set && exec_needs_approval(t->brain->control->role.image,
							c->judged.answer.level);
	struct brain_claim w = {
		.owner = t->owner,
		.agent = str_from(t->who.agent),
		.session = str_from(t->who.session),
		.task = str_from(t->who.task),
		.on_behalf_of = str_from(t->who.on_behalf_of),
		.server = c->servers[0], /* told again when it is made */
		.tier = (uint8_t)c->tier,
		.reuse = c->reuse,
		.reuse_key = c->reuse_key,
		.shape = c->shape,
		.may_be_warm = !is_held && t->request.source == REQUEST_IMAGE,
		.is_held = is_held,
		.now_s = now,
		.expires_s = now + t->request.timeout_s,
		.request = c->kept,
		.metadata = c->metadata,
		.policy = c->kept_policy,
		.pairs = pairs,
		.pairs_n = brain_pairs(t->request.metadata, pairs, LABELS_MAX),
		.idempotency = t->wish.idempotency,
		.idempotency_expires_s = now + IDEMPOTENCY_S,
	};
	enum brain_claimed how = BRAIN_NEW;
	enum status st = create_hash(t->wish.body, w.request_hash);

	if (st == ST_OK && ++c->claims > CLAIMS)
		st = ST_CONFLICT;
	if (st == ST_OK)
		st = brain_store_claim(t->brain->store, &w, &t->arena, &t->box, &how);
	if (st != ST_OK)
		brain_refuse(t, st,
			     st == ST_CONFLICT ? STR("this Idempotency-Key came with "
						     "another request")
					       : STR(""));
	else
		claimed(t, how);
}

void
brain_create(struct brain_turn *t)
{
	CLEANUP(buf_done) struct buf why = { 0 };
	struct create *c = arena_alloc(&t->arena, sizeof *c);
	enum status st;

	if (c == NULL) {
		brain_refuse(t, ST_NOMEM, STR(""));
		return;
	}
	c->since_ms = loop_now_ms(t->brain->control->loop);
	c->start = "cold";
	c->reuse_key = c->only = c->snapshot = STR("");
	t->state = c;
	t->state_done = create_done;
	buf_init(&why, 512);
	st = create_wish(t, c, &why);
	if (st == ST_OK)
		create_claim(t);
	else
		brain_refuse(t, st, str_of(why.p, why.len));
}

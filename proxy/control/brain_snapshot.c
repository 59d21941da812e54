/* Snapshots that callers make. */
#include <stdio.h>
#include <string.h>

#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"

enum { PAGE_SIZE = 20 };

/* As callers see it: ids of ours. */
static json_t *
view(const struct brain_snapshot *sn)
{
	json_t *to = brain_json_object(sn->info);

	if (to == NULL)
		to = json_object();
	brain_json_rename(to, sn->upstream, sn->id);
	(void)json_object_set_new(to, "id", json_stringn(sn->id.p, sn->id.n));
	(void)json_object_set_new(to, "sandboxId",
				  json_stringn(sn->sandbox.p, sn->sandbox.n));
	return to;
}

static void
missing(struct brain_turn *t)
{
	char text[256];

	(void)snprintf(text, sizeof text, "Snapshot %.*s not found.",
		       STR_ARG(str_head(t->wish.id, 128)));
	brain_answer_error(t, 404, "SNAPSHOT::NOT_FOUND", text);
}

/* Make. */

static void
make_told(struct brain_turn *t, const struct call_got *got)
{
	struct brain_snapshot sn = { .server = t->box.server,
				     .sandbox = t->box.id,
				     .owner = t->owner,
				     .tier = t->box.tier,
				     .shape = t->box.shape,
				     .created_s = brain_now_s() };
	json_t *said = NULL;
	enum status st = ST_UPSTREAM_BAD;

	brain_server_told(t->brain, t->box.server, got);
	if (!brain_got_object(got, &said)) {
		brain_answer_unread(t, got);
		return;
	}
	sn.upstream = arena_copy(&t->arena, brain_json_text(said, "id"));
	sn.name =
		str_head(arena_copy(&t->arena, brain_json_text(t->body, "name")), 256);
	brain_json_rename(said, t->box.upstream, t->box.id);
	sn.info = brain_dump(&t->arena, said);
	json_decref(said);
	if (brain_json_is_id(sn.upstream) && sn.info.p != NULL)
		st = brain_store_snapshot_add(t->brain->store, &sn, &t->arena, &sn.id);
	if (st == ST_OK)
		brain_answer(t, got->http, view(&sn));
	else
		brain_refuse(t, st, STR(""));
}

static void
make_again(struct brain_turn *t)
{
	if (brain_look(t))
		brain_snapshot(t);
}

void
brain_snapshot(struct brain_turn *t)
{
	struct brain_call w = { .server = t->box.server,
				.method = "POST",
				.deadline_ms = BRAIN_CREATE_MS };

	if (brain_turn_wait(t, make_again))
		return;
	if (t->box.upstream.n == 0 || t->box.state == BRAIN_SNAPSHOT) {
		if (t->box.state == BRAIN_SNAPSHOT)
			brain_turn_job(t, BRAIN_RESUME, make_again);
		else
			brain_refuse(t, ST_SANDBOX_PENDING, STR(""));
		return;
	}
	w.target = brain_target(&t->arena, t->box.upstream, "/snapshots");
	w.body = t->body == NULL ? STR("{}") : brain_dump(&t->arena, t->body);
	brain_call(t, &w, make_told);
}

/* One. */

struct one { /* t->state */
	struct brain_snapshot sn;
};

/* t->state is there; false: the turn is over. */
static bool
find(struct brain_turn *t)
{
	struct one *o = arena_alloc(&t->arena, sizeof *o);
	enum status st =
		o == NULL ? ST_NOMEM
			  : brain_store_snapshot_find(t->brain->store, &t->owner,
						      t->wish.id, &t->arena, &o->sn);

	if (st == ST_OK) {
		t->state = o;
		return true;
	}
	if (st == ST_NOT_FOUND)
		missing(t);
	else
		brain_refuse(t, st, STR(""));
	return false;
}

static void
call_one(struct brain_turn *t, const char *method, brain_got_fn got)
{
	const struct one *o = t->state;
	char target[256];

	(void)snprintf(target, sizeof target, "/v1/snapshots/%.*s",
		       STR_ARG(o->sn.upstream));
	struct brain_call w = { .server = o->sn.server,
				.method = method,
				.target = arena_copy(&t->arena, str_from(target)) };
	brain_call(t, &w, got);
}

/* What it says of one is kept. */
static void
take(struct brain_turn *t, struct brain_snapshot *sn, const struct call_got *got)
{
	json_t *said = NULL;
	struct brain_sandbox box;
	struct str info;

	brain_server_told(t->brain, sn->server, got);
	if (!brain_got_object(got, &said))
		return;
	if (brain_store_find_any(t->brain->store, sn->sandbox, &t->arena, &box) ==
	    ST_OK)
		brain_json_rename(said, box.upstream, box.id);
	info = brain_dump(&t->arena, said);
	json_decref(said);
	if (info.p != NULL &&
	    brain_store_snapshot_info(t->brain->store, sn->id, info) == ST_OK)
		sn->info = info;
}

static void
get_told(struct brain_turn *t, const struct call_got *got)
{
	struct one *o = t->state;

	if (got->st == ST_OK && got->http == 404) {
		enum status st = brain_store_snapshot_gone(t->brain->store, o->sn.id);

		if (st == ST_OK)
			missing(t);
		else
			brain_refuse(t, st, STR(""));
		return;
	}
	take(t, &o->sn, got);
	brain_answer(t, 200, view(&o->sn));
}

void
brain_snapshot_get(struct brain_turn *t)
{
	if (find(t))
		call_one(t, "GET", get_told);
}

static void
delete_told(struct brain_turn *t, const struct call_got *got)
{
	struct one *o = t->state;
	enum status st;

	brain_server_told(t->brain, o->sn.server, got);
	if (got->st != ST_OK || (got->http / 100 != 2 && got->http != 404)) {
		t->box.id = o->sn.id;
		t->box.upstream = o->sn.upstream;
		brain_answer_got(t, got);
		return;
	}
	st = brain_store_snapshot_gone(t->brain->store, o->sn.id);
	if (st == ST_OK)
		brain_answer(t, 204, NULL);
	else
		brain_refuse(t, st, STR(""));
}

void
brain_snapshot_delete(struct brain_turn *t)
{
	if (find(t))
		call_one(t, "DELETE", delete_told);
}

/* All: the store's, and those that were being made are asked for. */

struct all { /* t->state; begins as struct one, for call_one() */
	struct one now;
	struct brain_snapshot_filter filter;
	struct brain_snapshots found;
	size_t at;
	struct str state;
};

static bool
has_state(const struct all *a, const struct brain_snapshot *sn)
{
	json_t *info;
	bool has;

	if (a->state.n == 0)
		return true;
	info = brain_json_object(sn->info);
	has = str_ieq(brain_json_text(json_object_get(info, "status"), "state"),
		      a->state);
	json_decref(info);
	return has;
}

static void
answer_all(struct brain_turn *t)
{
	struct all *a = t->state;
	uint64_t size = a->filter.page_size, total = a->found.total;
	uint64_t pages = (total + size - 1) / size;
	json_t *items = json_array(), *body;

	for (size_t i = 0; i < a->found.n; i++)
		if (has_state(a, &a->found.of[i]))
			(void)json_array_append_new(items, view(&a->found.of[i]));
	body = json_pack("{s:o, s:{s:I, s:I, s:I, s:I, s:b}}", "items", items,
			 "pagination", "page", (json_int_t)a->filter.page, "pageSize",
			 (json_int_t)size, "totalItems", (json_int_t)total,
			 "totalPages", (json_int_t)pages, "hasNextPage",
			 a->filter.page < pages);
	if (body == NULL)
		brain_refuse(t, ST_NOMEM, STR(""));
	else
		brain_answer(t, 200, body);
}

static bool
is_coming(const struct brain_snapshot *sn)
{
	json_t *info = brain_json_object(sn->info);
	struct str state = brain_json_text(json_object_get(info, "status"), "state");
	bool is_it = str_eq(state, STR("Creating"));

	json_decref(info);
	return is_it;
}

static void next_one(struct brain_turn *t);

static void
one_told(struct brain_turn *t, const struct call_got *got)
{
	struct all *a = t->state;

	take(t, &a->found.of[a->at], got);
	a->at++;
	next_one(t);
}

static void
next_one(struct brain_turn *t)
{
	struct all *a = t->state;

	while (a->at < a->found.n && !is_coming(&a->found.of[a->at]))
		a->at++;
	if (a->at == a->found.n) {
		answer_all(t);
		return;
	}
	a->now.sn = a->found.of[a->at];
	call_one(t, "GET", one_told);
}

static bool
read_param(void *ctx, struct str key, struct str value)
{
	struct brain_turn *t = ctx;
	struct all *a = t->state;
	uint64_t v = 0;
	struct str copy = arena_copy(&t->arena, value);

	if (copy.p == NULL)
		return false;
	if (str_eq(key, STR("sandboxId")))
		a->filter.sandbox = copy;
	else if (str_eq(key, STR("name")))
		a->filter.name = copy;
	else if (str_eq(key, STR("state")))
		a->state = copy;
	else if (str_eq(key, STR("page"))) {
		if (!num_parse_u64(value, 1000000, &v) || v == 0)
			return false;
		a->filter.page = (uint32_t)v;
	} else if (str_eq(key, STR("pageSize"))) {
		if (!num_parse_u64(value, BRAIN_LIST_MAX, &v) || v == 0)
			return false;
		a->filter.page_size = (uint32_t)v;
	}
	return true;
}

void
brain_snapshots(struct brain_turn *t)
{
	struct all *a = arena_alloc(&t->arena, sizeof *a);
	enum status st;

	if (a == NULL) {
		brain_refuse(t, ST_NOMEM, STR(""));
		return;
	}
	t->state = a;
	a->filter = (struct brain_snapshot_filter){ .owner = t->owner,
						    .page = 1,
						    .page_size = PAGE_SIZE,
						    .newest_first = true };
	if (!brain_query_each(t->wish.query, read_param, t)) {
		brain_answer_error(t, 400, "SNAPSHOT::INVALID_PARAMETER",
				   "page or pageSize can't be read.");
		return;
	}
	st = brain_store_snapshot_list(t->brain->store, &a->filter, &t->arena,
				       &a->found);
	if (st == ST_OK)
		next_one(t);
	else
		brain_refuse(t, st, STR(""));
}

/* Lists of sandboxes: from the store, which knows all of a caller's on every server, so that
 * totals are true; what servers say of them is asked before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"
#include "proxy/control/brain_label.h"

enum {
	PAGE_SIZE = 20,
	REFRESH_PAGES = 5, /* of one server */
	REFRESH_EACH = 200,
	LOOK_ARENA = 1 << 20,
};

struct list_state { /* t->state */
	struct brain_filter filter;
	struct brain_pair pairs[BRAIN_FILTER_PAIRS];
	bool has_states;
	char user[LABEL_MAX + 1]; /* the label by which servers know whose it is */
	struct str servers[BRAIN_SERVERS];
	size_t servers_n, at;
	unsigned page;
	struct map said; /* our id -> json_t * */
};

/* The query. */

static unsigned
states_of(struct str word)
{
	unsigned bits = 0;

	for (int st = 0; st < BRAIN_GONE; st++)
		if (str_ieq(word, str_from(brain_view_state((enum brain_state)st))))
			bits |= BRAIN_BIT(st);
	return bits;
}

/* Of "k=v&k=v", encoded once more. */
static bool
read_pair(void *ctx, struct str key, struct str value)
{
	struct brain_turn *t = ctx;
	struct list_state *l = t->state;
	struct brain_pair *p = &l->pairs[l->filter.pairs_n];

	if (l->filter.pairs_n == BRAIN_FILTER_PAIRS || label_is_reserved(key))
		return false;
	p->key = arena_copy(&t->arena, key);
	p->value = arena_copy(&t->arena, value);
	if (p->key.p == NULL || p->value.p == NULL)
		return false;
	l->filter.pairs_n++;
	return true;
}

static bool
read_number(struct str text, uint64_t max, uint32_t *ret_n)
{
	uint64_t v;

	if (!num_parse_u64(text, max, &v) || v == 0)
		return false;
	*ret_n = (uint32_t)v;
	return true;
}

static bool
read_param(void *ctx, struct str key, struct str value)
{
	struct brain_turn *t = ctx;
	struct list_state *l = t->state;

	if (str_eq(key, STR("state"))) {
		l->has_states = true;
		l->filter.states |= states_of(value);
		return true;
	}
	if (str_eq(key, STR("page")))
		return read_number(value, 1000000, &l->filter.page);
	if (str_eq(key, STR("pageSize")) || str_eq(key, STR("page_size")))
		return read_number(value, BRAIN_LIST_MAX, &l->filter.page_size);
	return !str_eq(key, STR("metadata")) || brain_query_each(value, read_pair, t);
}

/* The answer. */

static json_t *
pagination(const struct brain_filter *f, uint64_t total)
{
	uint64_t pages = (total + f->page_size - 1) / f->page_size;

	return json_pack("{s:I, s:I, s:I, s:I, s:b}", "page", (json_int_t)f->page,
			 "pageSize", (json_int_t)f->page_size, "totalItems",
			 (json_int_t)total, "totalPages", (json_int_t)pages,
			 "hasNextPage", f->page < pages);
}

static void
answer(struct brain_turn *t)
{
	struct list_state *l = t->state;
	struct brain_sandboxes found = { 0 };
	json_t *items = json_array(), *body;
	enum status st = ST_OK;

	/* States that we don't have: none is in them. */
	if (!l->has_states || l->filter.states != 0)
		st = brain_store_list(t->brain->store, &l->filter, &t->arena, &found);
	if (st != ST_OK) {
		json_decref(items);
		brain_refuse(t, st, STR(""));
		return;
	}
	for (size_t i = 0; i < found.n; i++)
		(void)json_array_append_new(
			items,
			brain_view(&found.of[i], map_get(&l->said, found.of[i].id)));
	body = json_pack("{s:o, s:o}", "items", items, "pagination",
			 pagination(&l->filter, found.total));
	if (body == NULL)
		brain_refuse(t, ST_NOMEM, STR(""));
	else
		brain_answer(t, 200, body);
}

/* What the servers say. */

static void ask_next(struct brain_turn *t);

static void
take_one(struct brain_turn *t, struct list_state *l, json_t *said)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	struct brain_sandbox box;
	struct str upstream = brain_json_text(said, "id");

	arena_init(&a, LOOK_ARENA);
	if (!brain_json_is_id(upstream) ||
	    brain_store_by_upstream(t->brain->store, l->servers[l->at], upstream, &a,
				    &box) != ST_OK ||
	    !str_eq(box.owner.user, t->owner.user) ||
	    !str_eq(box.owner.tenant, t->owner.tenant))
		return;
	(void)brain_view_hear(t->brain, &box, said, t->asked_s);
	if (map_get(&l->said, box.id) == NULL &&
	    map_put(&l->said, box.id, said) == ST_OK)
		(void)json_incref(said);
}

static void
told(struct brain_turn *t, const struct call_got *got)
{
	struct list_state *l = t->state;
	json_t *said = NULL, *one;
	bool has_more = false;
	size_t i;

	brain_server_told(t->brain, l->servers[l->at], got);
	if (brain_got_object(got, &said)) {
		/* A server may say what wasn't asked for, and one sandbox often. */
		json_array_foreach(json_object_get(said, "items"), i, one)
		{
			if (i < REFRESH_EACH)
				take_one(t, l, one);
		}
		has_more = json_is_true(json_object_get(
			json_object_get(said, "pagination"), "hasNextPage"));
		json_decref(said);
	}
	if (!has_more || ++l->page > REFRESH_PAGES) {
		l->at++;
		l->page = 1;
	}
	ask_next(t);
}

/* A server that doesn't answer hides nothing: its sandboxes are told as we know them. */
static void
ask_next(struct brain_turn *t)
{
	struct list_state *l = t->state;
	char target[256];
	struct brain_call w = { .method = "GET", .deadline_ms = 10000 };

	if (l->at == l->servers_n) {
		answer(t);
		return;
	}
	(void)snprintf(
		target, sizeof target,
		"/v1/sandboxes?metadata=sandgate%%252Fuser%%3D%s&page=%u&pageSize=%d",
		l->user, l->page, REFRESH_EACH);
	w.server = l->servers[l->at];
	w.target = arena_copy(&t->arena, str_from(target));
	brain_call(t, &w, told);
}

static void
list_done(void *state)
{
	struct list_state *l = state;
	struct str key;
	void *value;

	for (size_t at = 0; map_next(&l->said, &at, &key, &value);)
		json_decref(value);
	map_done(&l->said);
}

void
brain_list(struct brain_turn *t)
{
	CLEANUP(buf_done) struct buf user = { 0 };
	struct list_state *l = arena_alloc(&t->arena, sizeof *l);
	enum status st = l == NULL ? ST_NOMEM : ST_OK;

	if (st != ST_OK) {
		brain_refuse(t, st, STR(""));
		return;
	}
	map_init(&l->said, (size_t)BRAIN_LIST_MAX * REFRESH_PAGES);
	t->state = l;
	t->state_done = list_done;
	l->page = 1;
	l->filter = (struct brain_filter){ .owner = t->owner,
					   .pairs = l->pairs,
					   .page = 1,
					   .page_size = PAGE_SIZE,
					   .newest_first = true };
	buf_init(&user, LABEL_MAX);
	label_put_user(&user, t->owner.tenant, t->owner.user);
	memcpy(l->user, user.p, user.len);
	if (!brain_query_each(t->wish.query, read_param, t)) {
		brain_answer_error(t, 400, "SANDBOX::INVALID_PARAMETER",
				   "page, pageSize or metadata can't be read.");
		return;
	}
	st = brain_store_servers(t->brain->store, &t->owner, &t->arena, l->servers,
				 COUNT_OF(l->servers), &l->servers_n);
	if (st == ST_OK)
		ask_next(t);
	else
		brain_refuse(t, st, STR(""));
}

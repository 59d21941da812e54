#include "proxy/control/brain_show.h"

#include "conf/exec.h"

enum { PAGE_ARENA = 64 * 1024 * 1024 };

static const char *const reuse_words[BRAIN_REUSES] = {
	[BRAIN_REUSE_NONE] = "none",
	[BRAIN_REUSE_SESSION] = "session",
	[BRAIN_REUSE_TASK] = "task",
	[BRAIN_REUSE_AGENT] = "agent",
};

static void
set(json_t *one, const char *key, json_t *v)
{
	(void)json_object_set_new(one, key, v);
}

static void
set_text(json_t *one, const char *key, struct str s)
{
	set(one, key, json_stringn(s.n == 0 ? "" : s.p, s.n));
}

static void
set_number(json_t *one, const char *key, uint64_t v)
{
	set(one, key, json_integer((json_int_t)(v > INT64_MAX ? INT64_MAX : v)));
}

/* Seconds from one time to the other; null where one of them never was. */
static void
set_span(json_t *one, const char *key, uint64_t from, uint64_t to)
{
	if (from == 0 || to == 0)
		set(one, key, json_null());
	else
		set_number(one, key, to > from ? to - from : 0);
}

/* null: nobody could measure it. */
static void
set_memory(json_t *one, const char *key, bool is_known, uint64_t octets)
{
	if (is_known)
		set_number(one, key, octets);
	else
		set(one, key, json_null());
}

static json_t *
show_one(const struct brain *b, const struct brain_sandbox *x, uint64_t now_s)
{
	json_t *one = json_object();
	bool is_warm = x->owner.user.n == 0;

	set_text(one, "id", x->id);
	set_text(one, "server", x->server);
	set(one, "tier", json_string(exec_tier_word((enum exec_tier)x->tier)));
	set_text(one, "tenant", x->owner.tenant);
	set_text(one, "user", x->owner.user);
	set_text(one, "agent", x->agent);
	set_text(one, "on_behalf_of", x->on_behalf_of);
	set_text(one, "session", x->session);
	set_text(one, "task", x->task);
	set(one, "state", json_string(brain_state_word(x->state)));
	set(one, "warm", json_boolean(is_warm));
	set_number(one, "requests", brain_busy(b, x->id));
	set_span(one, "age_s", x->created_s, now_s);
	set_span(one, "idle_s", is_warm ? 0 : x->used_s, now_s);
	set_span(one, "ttl_s", now_s, x->expires_s);
	set(one, "reuse", json_string(reuse_words[x->reuse]));
	set_text(one, "reuse_key", x->reuse_key);
	set_number(one, "create_ms", x->cost.create_ms);
	set_number(one, "pause_ms", x->cost.pause_ms);
	set_number(one, "resume_ms", x->cost.resume_ms);
	set_number(one, "snapshot_ms", x->cost.snapshot_ms);
	set_memory(one, "freed", x->cost.freed.is_known, x->cost.freed.octets);
	return one;
}

json_t *
brain_show_costs(const struct brain *b)
{
	static const char *const words[BRAIN_SPENTS] = {
		[BRAIN_SPENT_CREATE] = "create", [BRAIN_SPENT_WARM] = "warm",
		[BRAIN_SPENT_PAUSE] = "pause",   [BRAIN_SPENT_SNAPSHOT] = "snapshot",
		[BRAIN_SPENT_RESUME] = "resume", [BRAIN_SPENT_KILL] = "kill",
	};
	json_t *all = json_object();

	for (size_t i = 0; i < BRAIN_SPENTS; i++) {
		const struct brain_total *t = &b->totals[i];
		json_t *one = t->n == 0 ? NULL : json_object();

		if (one == NULL)
			continue;
		set_number(one, "times", t->n);
		set_number(one, "mean_ms", t->ms / t->n);
		set_number(one, "most_ms", t->most_ms);
		set_number(one, "measured", t->measured);
		set_memory(one, "freed", t->measured > 0, t->freed);
		set(all, words[i], one);
	}
	return all;
}

/* The page behind this id; what comes out is the last one's, and empty at the end. */
static enum status
show_page(const struct brain *b, uint64_t now_s, json_t *all, struct buf *after,
	  bool *is_over)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	struct brain_sandboxes page = { 0 };

	arena_init(&a, PAGE_ARENA);
	enum status st = brain_store_walk(b->store, BRAIN_NOT_GONE,
					  str_of(after->p, after->len), &a, &page);
	*is_over = st != ST_OK || page.n == 0;
	if (*is_over)
		return st;
	for (size_t i = 0; i < page.n; i++)
		(void)json_array_append_new(all, show_one(b, &page.of[i], now_s));
	buf_clear(after);
	buf_put(after, page.of[page.n - 1].id);
	return after->st;
}

json_t *
brain_show(const struct brain *b, uint64_t now_s, bool *ret_more)
{
	CLEANUP(buf_done) struct buf after = { 0 };
	json_t *all = json_array();
	enum status st = ST_OK;
	bool is_over = false;

	buf_init(&after, BRAIN_ID + 1);
	while (st == ST_OK && !is_over && json_array_size(all) <= BRAIN_SHOW_MAX)
		st = show_page(b, now_s, all, &after, &is_over);
	if (st != ST_OK) {
		json_decref(all);
		return NULL;
	}
	*ret_more = json_array_size(all) > BRAIN_SHOW_MAX;
	while (json_array_size(all) > BRAIN_SHOW_MAX)
		(void)json_array_remove(all, BRAIN_SHOW_MAX);
	return all;
}

#include <string.h>

#include "proxy/base/num.h"
#include "proxy/control/brain_show.h"
#include "proxy/control/control.h"

/* jansson takes only UTF-8; what a configuration holds is, else it shows as "?". */
static json_t *
text(struct str s)
{
	json_t *j = json_stringn(s.p == NULL ? "" : s.p, s.n);

	return j != NULL ? j : json_string("?");
}

static json_t *
number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static json_t *
counters(const struct stats *s)
{
	json_t *all = json_object();

	for (enum counter i = 0; i < STAT_COUNT; i++)
		(void)json_object_set_new(all, stats_word(i), number(stats_get(s, i)));
	return all;
}

static json_t *
refusals(const struct stats *s)
{
	json_t *all = json_object();

	for (enum status i = 0; i < ST_COUNT; i++) {
		uint64_t n = stats_refusals(s, i);
		if (n > 0)
			(void)json_object_set_new(all, status_code(i), number(n));
	}
	return all;
}

/* Sums of all roles, in the form of one. */
static void
add_up(json_t *total, json_t *one)
{
	const char *key;
	json_t *value;

	json_object_foreach(one, key, value)
	{
		json_int_t sum = json_integer_value(json_object_get(total, key));
		(void)json_object_set_new(
			total, key, json_integer(sum + json_integer_value(value)));
	}
}

static void
add_counters(const struct control *c, json_t *role, json_t *totals, json_t *refused)
{
	json_int_t slot = json_integer_value(json_object_get(role, "slot"));
	const struct stats *s = slot < CONTROL_SLOTS ? c->stats[slot] : NULL;

	if (s == NULL)
		return;
	json_t *counts = counters(s), *why = refusals(s);
	add_up(totals, counts);
	add_up(refused, why);
	(void)json_object_set_new(role, "counters", counts);
	(void)json_object_set_new(role, "refusals", why);
}

/* Super has no line in health; its restarts and reloads are counted in slot 0. */
static void
add_super(const struct control *c, json_t *totals)
{
	if (c->stats[0] == NULL)
		return;
	json_t *counts = counters(c->stats[0]);
	add_up(totals, counts);
	json_decref(counts);
}

json_t *
status_json(const struct control *c, struct str health)
{
	json_t *all = json_loadb(health.p, health.n, 0, NULL), *role;
	json_t *totals = json_object(), *refused = json_object();
	size_t i;

	if (all == NULL) {
		json_decref(totals);
		json_decref(refused);
		return NULL;
	}
	add_super(c, totals);
	json_array_foreach(json_object_get(all, "roles"), i, role)
		add_counters(c, role, totals, refused);
	(void)json_object_set_new(all, "version", json_string(SG_VERSION));
	(void)json_object_set_new(all, "counters", totals);
	(void)json_object_set_new(all, "refusals", refused);
	return all;
}

static json_t *
policy_name(const struct control *c, const struct who *w)
{
	size_t n;
	const struct image_policy *p = image_policies(c->role.image, &n);

	return w->may.policy < n ? text(image_str(c->role.image, p[w->may.policy].name))
				 : json_null();
}

/* None of one that is known by its namespace. */
static json_t *
sources(const struct control *c, const struct who *w)
{
	json_t *all = json_array();
	const struct image_sandbox *s = image_sandbox_by_id(c->role.image, w->id);
	const struct addr *a = w->sources;
	size_t n = w->sources_n;

	if (w->handle < HANDLE_ATTACHED && s != NULL)
		a = image_sources(c->role.image, s, &n);
	for (size_t i = 0; i < n; i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		struct str out = STR("");
		buf_init(&b, 64);
		addr_put(&b, &a[i]);
		if (buf_finish(&b, &out) == ST_OK)
			(void)json_array_append_new(all, text(out));
	}
	return all;
}

/* Null: nothing narrows it. */
static json_t *
narrowing(const struct who *w)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str out;

	if (w->may.narrow == NULL)
		return json_null();
	buf_init(&b, (size_t)2 * NARROW_TEXT_MAX);
	narrow_put(&b, w->may.narrow);
	return buf_finish(&b, &out) == ST_OK ? text(out) : json_null();
}

/* Null: they can't be read. */
static void
show_executions(const struct control *c, json_t *to)
{
	bool is_more = false;

	if (c->brain == NULL)
		return;
	json_t *all = brain_show(c->brain, brain_now_s(), &is_more);
	(void)json_object_set_new(to, "executions", all == NULL ? json_null() : all);
	(void)json_object_set_new(to, "more_executions", json_boolean(is_more));
	(void)json_object_set_new(to, "costs", brain_show_costs(c->brain));
}

json_t *
sandboxes_json(const struct control *c)
{
	json_t *all = json_array();
	const struct who *w;
	size_t at = 0;

	while ((w = who_next(c->role.who, &at)) != NULL) {
		json_t *one = json_object();
		(void)json_object_set_new(one, "id", text(w->id));
		(void)json_object_set_new(one, "handle", number(w->handle));
		(void)json_object_set_new(one, "user", text(w->user));
		(void)json_object_set_new(one, "agent", text(w->agent));
		(void)json_object_set_new(one, "session", text(w->session));
		(void)json_object_set_new(one, "policy", policy_name(c, w));
		(void)json_object_set_new(one, "source", sources(c, w));
		(void)json_object_set_new(one, "narrow", narrowing(w));
		(void)json_object_set_new(one, "trusts_ca", json_boolean(w->trusts_ca));
		(void)json_object_set_new(one, "attached",
					  json_boolean(w->handle >= HANDLE_ATTACHED));
		(void)json_array_append_new(all, one);
	}
	json_t *both = json_pack("{s:o}", "sandboxes", all);
	show_executions(c, both);
	return both;
}

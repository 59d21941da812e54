/* Policies: gathered from all files first, since sandboxes and tests refer to them by
 * their place in order of names. */
#include <stdlib.h>
#include <string.h>

#include "conf/build_connector.h"
#include "conf/build_overlap.h"
#include "conf/value.h"
#include "proxy/base/num.h"

struct policy_context {
	uint32_t index;
	struct image_policy image;
	struct image_rule *rules; /* room for all that are written */
	size_t rules_n, rules_max;
	bool is_deny; /* of the list at hand */
};

void
build_policy_named(struct build *b, struct str name, const struct node *n,
		   struct place at)
{
	struct policy_source *p = arena_alloc(b->arena, sizeof *p);
	struct node as_value = { .kind = NODE_SCALAR, .at = at, .text = name };

	if (p == NULL || !value_name(b->report, &as_value, &name))
		return;
	*p = (struct policy_source){ .name = name, .node = n, .at = at };
	for (const struct policy_source *q = b->policies; q != NULL; q = q->next) {
		/* Quadratic only in what is written by hand: policies, not rules. */
		if (!str_eq(q->name, name))
			continue;
		report_error(b->report, at, "policy `%.*s` is already in %.*s:%u",
			     STR_ARG(name), STR_ARG(q->at.file), q->at.line);
		return;
	}
	if (b->policies == NULL)
		b->policies = p;
	else
		b->policies_last->next = p;
	b->policies_last = p;
	b->policies_n++;
}

void
build_policies_named(struct build *b, const struct node *map)
{
	if (!build_is_kind(b, map, NODE_MAP))
		return;
	for (const struct node *n = map->first; n != NULL; n = n->next)
		build_policy_named(b, n->key, n, n->key_at);
}

static void
on_mode(struct build *b, const struct node *n, void *ctx)
{
	struct policy_context *c = ctx;
	uint64_t which;

	if (value_choice(b->report, n, STR("enforce|observe"), &which))
		c->image.is_observe = which == 1;
}

static void
on_rule(struct build *b, const struct node *n, void *ctx)
{
	struct policy_context *c = ctx;
	struct image_rule r;

	if (build_rule(b, n, c->index, c->is_deny, &r) && c->rules_n < c->rules_max)
		c->rules[c->rules_n++] = r;
}

static void
on_allow(struct build *b, const struct node *n, void *ctx)
{
	struct policy_context *c = ctx;

	c->is_deny = false;
	if (build_is_kind(b, n, NODE_LIST))
		build_items(b, n, on_rule, c);
}

static void
on_deny(struct build *b, const struct node *n, void *ctx)
{
	struct policy_context *c = ctx;

	c->is_deny = true;
	if (build_is_kind(b, n, NODE_LIST))
		build_items(b, n, on_rule, c);
}

static void
say_no_connector(struct build *b, const struct node *n)
{
	CLEANUP(buf_done) struct buf words = { 0 };
	struct str key, view = STR("");
	void *value;
	size_t at = 0;

	buf_init(&words, 65536);
	while (map_next(&b->connector_index, &at, &key, &value)) {
		buf_put(&words, key);
		buf_putc(&words, '|');
	}
	if (buf_finish(&words, &view) != ST_OK)
		view = STR("");
	struct str near = report_nearest(n->text, view);
	if (near.p != NULL)
		report_error(b->report, n->at,
			     "no connector `%.*s`; did you mean %.*s?",
			     STR_ARG(n->text), STR_ARG(near));
	else
		report_error(b->report, n->at, "no connector `%.*s`", STR_ARG(n->text));
}

static bool
is_listed(const struct policy_context *c, uint32_t connector)
{
	for (size_t i = 0; i < c->rules_n; i++)
		if (c->rules[i].connector == connector)
			return true;
	return false;
}

/* A name in the vault that holds {user} is none without a user. */
static void
note_use(struct build *b, struct policy_context *c, struct connector_source *s)
{
	s->is_listed = true;
	if (s->image.auth.is_delegated)
		b->policy_wants_user[c->index] = s->name;
}

static void
on_connector(struct build *b, const struct node *n, void *ctx)
{
	struct policy_context *c = ctx;
	struct str name;

	if (!value_name(b->report, n, &name))
		return;
	struct connector_source *s = map_get(&b->connector_index, name);
	if (s == NULL) {
		say_no_connector(b, n);
		return;
	}
	if (s->use != USE_SANDBOXES) {
		report_error(b->report, n->at,
			     "`%.*s` is %s, which no sandbox may call", STR_ARG(name),
			     build_connector_word(s->use));
		return;
	}
	note_use(b, c, s);
	if (is_listed(c, s->index)) {
		report_error(b->report, n->at, "connector `%.*s` is listed twice",
			     STR_ARG(name));
		return;
	}
	for (const struct connector_rule *r = s->rules; r != NULL; r = r->next) {
		need(c->rules_n < c->rules_max);
		c->rules[c->rules_n] = r->rule;
		c->rules[c->rules_n++].policy = c->index;
	}
}

static void
on_connectors(struct build *b, const struct node *n, void *ctx)
{
	build_items(b, n, on_connector, ctx);
}

static const struct build_field fields[] = {
	{ "mode", on_mode },
	{ "allow", on_allow },
	{ "deny", on_deny },
	{ "connectors", on_connectors },
};

static bool
is_loose(const struct image_rule *r)
{
	return r->cidrs_n > 0 || r->hosts_n == 0;
}

/* Loose rules first: a question walks them all, and finds the others by name. */
static void
add_rules(struct build *b, struct policy_context *c)
{
	c->image.rules = draft_count(b->draft, IMAGE_RULES);
	c->image.rules_n = (uint32_t)c->rules_n;
	for (size_t i = 0; i < c->rules_n; i++) {
		if (!is_loose(&c->rules[i]))
			continue;
		(void)draft_add(b->draft, IMAGE_RULES, &c->rules[i]);
		c->image.loose_n++;
	}
	for (size_t i = 0; i < c->rules_n; i++)
		if (!is_loose(&c->rules[i]))
			(void)draft_add(b->draft, IMAGE_RULES, &c->rules[i]);
}

static size_t
children(const struct node *n, struct str key)
{
	const struct node *list = node_get(n, key);

	return list == NULL ? 0 : list->n + 1;
}

static size_t
rules_of(struct build *b, const struct node *n)
{
	const struct connector_source *s = map_get(&b->connector_index, n->text);

	return s == NULL ? 0 : s->rules_n;
}

/* A connector may be listed once, but this is asked before that is known. */
static size_t
connector_rules(struct build *b, const struct node *policy)
{
	const struct node *list = node_get(policy, STR("connectors"));
	size_t n = 0;

	if (list == NULL)
		return 0;
	if (list->kind == NODE_SCALAR)
		return rules_of(b, list);
	for (const struct node *one = list->first; one != NULL; one = one->next)
		n += rules_of(b, one);
	return n;
}

static void
build_policy(struct build *b, const struct policy_source *p, uint32_t index)
{
	struct policy_context c = { .index = index };

	c.rules_max = children(p->node, STR("allow")) + children(p->node, STR("deny")) +
		      connector_rules(b, p->node);
	c.rules = calloc(c.rules_max + 1, sizeof *c.rules);
	if (c.rules == NULL) {
		report_error(b->report, p->at, "not enough memory");
		return;
	}
	c.image.name = draft_str(b->draft, p->name);
	build_fields(b, p->node, fields, COUNT_OF(fields), &c);
	/* `allow: []` says so on purpose. */
	if (node_get(p->node, STR("allow")) == NULL && !c.image.is_observe &&
	    node_get(p->node, STR("connectors")) == NULL)
		report_warning(b->report, p->at,
			       "policy `%.*s` has no `allow`: nothing passes",
			       STR_ARG(p->name));
	build_overlaps(b, c.rules, c.rules_n);
	add_rules(b, &c);
	(void)draft_add(b->draft, IMAGE_POLICIES, &c.image);
	free(c.rules);
}

static int
compare_names(const void *left, const void *right)
{
	const struct policy_source *const *a = left, *const *b = right;
	size_t n = num_min((*a)->name.n, (*b)->name.n);
	int c = n == 0 ? 0 : memcmp((*a)->name.p, (*b)->name.p, n);

	return c != 0 ? c
		      : ((*a)->name.n > (*b)->name.n) - ((*a)->name.n < (*b)->name.n);
}

void
build_policies(struct build *b)
{
	const struct policy_source **sorted =
		arena_alloc(b->arena, (b->policies_n + 1) * sizeof(void *));
	size_t n = 0;

	b->policy_wants_user =
		arena_alloc(b->arena, (b->policies_n + 1) * sizeof(struct str));
	if (sorted == NULL || b->policy_wants_user == NULL)
		return; /* the arena is over: said at the end */
	for (size_t i = 0; i < b->policies_n; i++)
		b->policy_wants_user[i] = STR("");
	for (const struct policy_source *p = b->policies; p != NULL; p = p->next)
		sorted[n++] = p;
	qsort(sorted, n, sizeof(void *), compare_names);
	for (size_t i = 0; i < n; i++) {
		if (map_put(&b->policy_index, sorted[i]->name,
			    (void *)(uintptr_t)(i + 1)) != ST_OK)
			report_error(b->report, sorted[i]->at, "too many policies");
		build_policy(b, sorted[i], (uint32_t)i);
	}
}

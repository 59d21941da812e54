/* `exec.warm`: sandboxes that are kept ready. */
#include "conf/build_exec.h"
#include "conf/exec.h"
#include "conf/value.h"

struct warm_context {
	struct image_exec_warm image;
	const struct node *tier;
};

static void
on_name(struct build *b, const struct node *n, void *ctx)
{
	struct image_exec_warm *w = &((struct warm_context *)ctx)->image;
	const struct image_exec_warm *all = draft_table(b->draft, IMAGE_EXEC_WARMS);
	struct str s;

	if (!value_name(b->report, n, &s))
		return;
	w->name = draft_str(b->draft, s);
	for (uint32_t i = 0; i < draft_count(b->draft, IMAGE_EXEC_WARMS); i++)
		if (all[i].name.offset == w->name.offset)
			report_error(b->report, n->at,
				     "another of `warm` is called `%.*s`", STR_ARG(s));
}

static void
on_tier(struct build *b, const struct node *n, void *ctx)
{
	struct warm_context *c = ctx;

	c->tier = n;
	build_tier(b, n, &c->image.tier);
}

static void
on_size(struct build *b, const struct node *n, void *ctx)
{
	uint64_t v = 0;

	(void)value_number(b->report, n, 0, EXEC_WARM_MAX, &v);
	((struct warm_context *)ctx)->image.size = (uint32_t)v;
}

static void
on_image(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	if (value_text(b->report, n, &s))
		((struct warm_context *)ctx)->image.image = draft_str(b->draft, s);
}

static void
on_entrypoint(struct build *b, const struct node *n, void *ctx)
{
	struct image_exec_warm *w = &((struct warm_context *)ctx)->image;

	build_list(b, n, NULL, (struct build_part){ IMAGE_WORDS, build_text },
		   &w->entrypoint, &w->entrypoint_n);
}

static bool
variable_fits(struct build *b, const struct node *n)
{
	if (!exec_env_is_own(n->key))
		return true;
	report_error(b->report, n->key_at,
		     "`%.*s` is not a variable that may be set: it steers a part of "
		     "OpenSandbox, or is no name",
		     STR_ARG(n->key));
	return false;
}

static void
on_env(struct build *b, const struct node *n, void *ctx)
{
	struct image_exec_warm *w = &((struct warm_context *)ctx)->image;

	build_pairs(b, n, variable_fits, &w->env, &w->env_n);
}

static bool
limit_fits(struct build *b, const struct node *n)
{
	uint64_t v;
	bool is_cpu = str_eq(n->key, STR("cpu")),
	     is_memory = str_eq(n->key, STR("memory"));

	if ((is_cpu && exec_parse_cpu(n->text, &v)) ||
	    (is_memory && exec_parse_memory(n->text, &v)) ||
	    (!is_cpu && !is_memory && str_eq(n->key, STR("gpu"))))
		return true;
	report_error(b->report, n->at,
		     "not a limit: cpu like 2 or 500m, memory like 512Mi, or gpu");
	return false;
}

static void
on_limits(struct build *b, const struct node *n, void *ctx)
{
	struct image_exec_warm *w = &((struct warm_context *)ctx)->image;

	build_pairs(b, n, limit_fits, &w->limits, &w->limits_n);
}

static const struct build_field fields[] = {
	{ "name", on_name },     { "tier", on_tier }, { "size", on_size },
	{ "image", on_image },   { "env", on_env },   { "entrypoint", on_entrypoint },
	{ "limits", on_limits },
};

static void
on_warm(struct build *b, const struct node *n, void *ctx)
{
	static const char *const needed[] = { "name", "size", "image" };
	struct warm_context c = { .tier = NULL };

	(void)ctx;
	build_fields(b, n, fields, COUNT_OF(fields), &c);
	if (n->kind != NODE_MAP)
		return;
	for (size_t i = 0; i < COUNT_OF(needed); i++)
		if (node_get(n, str_from(needed[i])) == NULL)
			report_error(b->report, n->at, "`%s` is missing", needed[i]);
	build_tier_check(b, c.tier == NULL ? n : c.tier, c.image.tier);
	if (draft_count(b->draft, IMAGE_EXEC_WARMS) <
	    image_record_max(IMAGE_EXEC_WARMS))
		(void)draft_add(b->draft, IMAGE_EXEC_WARMS, &c.image);
}

void
build_warms(struct build *b, const struct node *n)
{
	if (!build_is_kind(b, n, NODE_LIST))
		return;
	build_items(b, n, on_warm, NULL);
	if (n->n > image_record_max(IMAGE_EXEC_WARMS))
		report_error(b->report, n->at, "more than %zu in `warm`",
			     image_record_max(IMAGE_EXEC_WARMS));
}

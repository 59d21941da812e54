/* `exec.placement`: which sandboxes belong on which tier. */
#include "conf/auth_text.h"
#include "conf/build_exec.h"
#include "conf/exec.h"
#include "conf/value.h"

struct place_context {
	struct image_exec_placement image;
	size_t conds_n;
};

static void
on_tier(struct build *b, const struct node *n, void *ctx)
{
	build_tier(b, n, &((struct place_context *)ctx)->image.tier);
}

/* An entrypoint has blanks between its parts. */
static void
on_line(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	(void)ctx;
	if (!value_text(b->report, n, &s))
		return;
	if (auth_is_printable(s) && s.n <= EXEC_GLOB_MAX)
		build_word(b, s);
	else
		report_error(b->report, n->at,
			     "`%.*s` is not a glob: printable ASCII, %d bytes at most",
			     STR_ARG(s), EXEC_GLOB_MAX);
}

/* Wishes are held against it in lower case. */
static void
on_host(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	if (!value_text(b->report, n, &s))
		return;
	for (size_t i = 0; i < s.n; i++)
		if (ascii_lower(s.p[i]) != s.p[i]) {
			report_error(b->report, n->at,
				     "`%.*s`: write hosts in lower case", STR_ARG(s));
			return;
		}
	build_glob(b, n, ctx);
}

static void
list(struct build *b, const struct node *n, build_field_fn fn, uint32_t *ret_first,
     uint32_t *ret_n)
{
	build_list(b, n, NULL, (struct build_part){ IMAGE_WORDS, fn }, ret_first,
		   ret_n);
}

static void
on_images(struct build *b, const struct node *n, void *ctx)
{
	struct image_exec_placement *p = &((struct place_context *)ctx)->image;

	list(b, n, build_glob, &p->images, &p->images_n);
}

static void
on_entrypoints(struct build *b, const struct node *n, void *ctx)
{
	struct image_exec_placement *p = &((struct place_context *)ctx)->image;

	list(b, n, on_line, &p->entrypoints, &p->entrypoints_n);
}

static void
on_agents(struct build *b, const struct node *n, void *ctx)
{
	struct image_exec_placement *p = &((struct place_context *)ctx)->image;

	list(b, n, build_text, &p->agents, &p->agents_n);
}

static void
on_users(struct build *b, const struct node *n, void *ctx)
{
	struct image_exec_placement *p = &((struct place_context *)ctx)->image;

	list(b, n, build_text, &p->users, &p->users_n);
}

static void
on_labels(struct build *b, const struct node *n, void *ctx)
{
	struct image_exec_placement *p = &((struct place_context *)ctx)->image;

	build_pairs(b, n, build_label, &p->labels, &p->labels_n);
	if (n->kind == NODE_MAP && n->n == 0)
		report_error(b->report, n->at,
			     "`labels` is empty; list something or leave it out");
}

static void
on_network(struct build *b, const struct node *n, void *ctx)
{
	struct image_exec_placement *p = &((struct place_context *)ctx)->image;

	list(b, n, on_host, &p->hosts, &p->hosts_n);
}

static void
on_volumes(struct build *b, const struct node *n, void *ctx)
{
	bool flag = false;

	if (!value_flag(b->report, n, &flag))
		return;
	if (!flag)
		report_error(b->report, n->at,
			     "`volumes: true` asks for some; leave it out otherwise");
	((struct place_context *)ctx)->image.needs_volumes = true;
}

static void
on_memory(struct build *b, const struct node *n, void *ctx)
{
	(void)value_size(b->report, n, 1, INT64_MAX,
			 &((struct place_context *)ctx)->image.memory_over);
}

static void
on_cpu(struct build *b, const struct node *n, void *ctx)
{
	struct place_context *c = ctx;
	struct str s;

	if (value_text(b->report, n, &s) &&
	    (!exec_parse_cpu(s, &c->image.cpu_over) || c->image.cpu_over == 0))
		report_error(b->report, n->at,
			     "`%.*s` is not a number of processors, like 4 or 500m",
			     STR_ARG(s));
}

static void
on_risk(struct build *b, const struct node *n, void *ctx)
{
	uint64_t which;

	if (value_choice(b->report, n, STR("low|medium|high"), &which))
		((struct place_context *)ctx)->image.risk = (uint8_t)which;
}

static const struct build_field fields[] = {
	{ "tier", on_tier },
	{ "images", on_images },
	{ "entrypoints", on_entrypoints },
	{ "agents", on_agents },
	{ "users", on_users },
	{ "labels", on_labels },
	{ "network", on_network },
	{ "volumes", on_volumes },
	{ "memory_over", on_memory },
	{ "cpu_over", on_cpu },
	{ "risk", on_risk },
};

static void
on_placement(struct build *b, const struct node *n, void *ctx)
{
	const struct node **all = ctx; /* the rule that everything matches */
	struct place_context c = { .image = { .file = draft_str(b->draft, n->at.file),
					      .line = n->at.line,
					      .column = n->at.column } };

	build_fields(b, n, fields, COUNT_OF(fields), &c);
	if (n->kind != NODE_MAP)
		return;
	const struct node *tier = node_get(n, STR("tier"));
	if (tier == NULL)
		report_error(b->report, n->at,
			     "`tier` is missing: one of standard|high");
	else
		build_tier_check(b, tier, c.image.tier);
	if (*all != NULL)
		report_warning(b->report, n->at,
			       "never asked: the rule in line %u matches everything",
			       (*all)->at.line);
	else if (n->n == 1)
		*all = n;
	if (draft_count(b->draft, IMAGE_EXEC_PLACEMENTS) <
	    image_record_max(IMAGE_EXEC_PLACEMENTS))
		(void)draft_add(b->draft, IMAGE_EXEC_PLACEMENTS, &c.image);
}

void
build_placements(struct build *b, const struct node *n)
{
	const struct node *all = NULL;

	if (!build_is_kind(b, n, NODE_LIST))
		return;
	build_items(b, n, on_placement, &all);
	if (n->n > image_record_max(IMAGE_EXEC_PLACEMENTS))
		report_error(b->report, n->at, "more than %zu rules of placement",
			     image_record_max(IMAGE_EXEC_PLACEMENTS));
}

/* Rules of `risk`: lists of mappings, in the main file or in risk/ *.yaml, one list. */
#include "conf/build.h"
#include "conf/image_format.h"
#include "conf/risk.h"
#include "conf/value.h"

enum { WHY_MAX = 200, PATTERNS_MAX = 1000 };

struct risk_context {
	struct image_risk image;
	enum image_cond cond; /* at hand */
	size_t conds_n;
};

static void
on_level(struct build *b, const struct node *n, void *ctx)
{
	uint64_t which;

	if (value_choice(b->report, n, STR("low|medium|high"), &which))
		((struct risk_context *)ctx)->image.level = (uint8_t)which;
}

static void
on_why(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	if (!value_text(b->report, n, &s))
		return;
	if (s.n > WHY_MAX)
		report_error(b->report, n->at, "longer than %d bytes", WHY_MAX);
	else
		((struct risk_context *)ctx)->image.why = draft_str(b->draft, s);
}

static bool
is_plain(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
			return false;
	return true;
}

static void
on_pattern(struct build *b, const struct node *n, void *ctx)
{
	struct risk_context *c = ctx;
	struct str s;

	if (!value_text(b->report, n, &s))
		return;
	if (s.n > RISK_PATTERN_MAX || !is_plain(s)) {
		report_error(b->report, n->at,
			     "longer than %d bytes or with control characters",
			     RISK_PATTERN_MAX);
		return;
	}
	struct image_ref ref = draft_str(b->draft, s);
	(void)draft_add(b->draft, IMAGE_WORDS, &ref);
	c->image.cond[c->cond].n++;
}

static void
read_cond(struct build *b, const struct node *n, struct risk_context *c,
	  enum image_cond cond)
{
	size_t many = n->kind == NODE_LIST ? n->n : 1;

	c->cond = cond;
	c->image.cond[cond].first = draft_count(b->draft, IMAGE_WORDS);
	if (many == 0 || many > PATTERNS_MAX)
		report_error(b->report, n->at, "1 to %d patterns belong here",
			     PATTERNS_MAX);
	else
		build_items(b, n, on_pattern, c);
	c->conds_n++;
}

#define COND(name, key, help)                                                          \
	static void on_cond_##name(struct build *b, const struct node *n, void *ctx)   \
	{                                                                              \
		read_cond(b, n, ctx, COND_##name);                                     \
	}
#include "conf/risk_conds.def"
#undef COND

#define COND(name, key, help) { key, on_cond_##name },
static const struct build_field fields[] = {
	{ "level", on_level },
	{ "why", on_why },
#include "conf/risk_conds.def"
};
#undef COND

static void
on_rule(struct build *b, const struct node *n, void *ctx)
{
	struct risk_context c = { .image = { .file = draft_str(b->draft, n->at.file),
					     .line = n->at.line,
					     .column = n->at.column } };

	(void)ctx;
	build_fields(b, n, fields, COUNT_OF(fields), &c);
	if (n->kind != NODE_MAP)
		return;
	if (node_get(n, STR("level")) == NULL)
		report_error(b->report, n->at,
			     "`level` is missing: one of low|medium|high");
	if (node_get(n, STR("why")) == NULL)
		report_error(b->report, n->at,
			     "`why` is missing: the sentence that people are told");
	if (c.conds_n == 0 && n->n <= 2) /* else an unknown key was told */
		report_error(b->report, n->at,
			     "a rule without a condition would apply to everything; "
			     "that is risk.otherwise");
	if (draft_count(b->draft, IMAGE_RISKS) == image_record_max(IMAGE_RISKS)) {
		report_error(b->report, n->at, "more than %zu rules of risk",
			     image_record_max(IMAGE_RISKS));
		return;
	}
	(void)draft_add(b->draft, IMAGE_RISKS, &c.image);
}

/* conf/risk/default.yaml, as the build writes it. */
static const unsigned char shipped[] = {
#include "conf/risk_shipped.inc"
};

void
build_risks_shipped(struct build *b)
{
	struct node *root = NULL;
	struct str text = str_of(shipped, sizeof shipped);

	if (b->exec_listener == NULL || draft_count(b->draft, IMAGE_RISKS) > 0)
		return;
	if (node_parse(b->arena, b->report, STR("shipped/risk/default.yaml"), text,
		       &root) == ST_OK &&
	    root != NULL)
		build_risks(b, root, NULL);
}

void
build_risks(struct build *b, const struct node *n, void *ctx)
{
	(void)ctx;
	if (build_is_kind(b, n, NODE_LIST))
		build_items(b, n, on_rule, NULL);
}

/* tests: questions with the answers that the operator expects, asked by `check`. */
#include <string.h>

#include "conf/build.h"
#include "conf/conf_private.h"
#include "conf/value.h"

bool
conf_is_question(struct str url)
{
	if (str_starts(url, STR("http://")) || str_starts(url, STR("https://")))
		return true;
	for (size_t i = 0; i + 2 < url.n; i++)
		if (memcmp(url.p + i, "://", 3) == 0)
			return false;
	return str_has(url, ':');
}

static void
on_text(struct build *b, const struct node *n, void *ctx)
{
	struct str *field = ctx, s;

	if (value_text(b->report, n, &s))
		*field = s;
}

static void
on_expect(struct build *b, const struct node *n, struct conf_test *t)
{
	uint64_t which;

	if (value_choice(b->report, n, STR("allow|deny"), &which))
		t->is_allow = which == 0;
}

static void
on_code(struct build *b, const struct node *n, struct conf_test *t)
{
	enum status st;

	on_text(b, n, &t->code);
	if (t->code.n > 0 && !status_by_code(t->code.p, t->code.n, &st))
		report_error(b->report, n->at, "no refusal has the code `%.*s`",
			     STR_ARG(t->code));
}

static void
on_field(struct build *b, const struct node *n, struct conf_test *t)
{
	static const char words[] = "sandbox|policy|url|method|expect|code";

	if (str_eq(n->key, STR("sandbox")))
		on_text(b, n, &t->sandbox);
	else if (str_eq(n->key, STR("policy")))
		on_text(b, n, &t->policy);
	else if (str_eq(n->key, STR("url")))
		on_text(b, n, &t->url);
	else if (str_eq(n->key, STR("method")))
		on_text(b, n, &t->method);
	else if (str_eq(n->key, STR("expect")))
		on_expect(b, n, t);
	else if (str_eq(n->key, STR("code")))
		on_code(b, n, t);
	else
		build_unknown(b, n, STR(words));
}

static void
check_references(struct build *b, const struct node *n, const struct conf_test *t)
{
	if ((t->sandbox.n > 0) == (t->policy.n > 0))
		report_error(b->report, n->at,
			     "a test names a `sandbox` or a `policy`");
	if (t->sandbox.n > 0 && map_get(&b->ids, t->sandbox) == NULL)
		report_error(b->report, n->at, "no sandbox `%.*s`",
			     STR_ARG(t->sandbox));
	if (t->policy.n > 0 && map_get(&b->policy_index, t->policy) == NULL)
		build_no_policy(b, n->at, t->policy);
	if (t->url.n == 0)
		report_error(b->report, n->at, "`url` is missing");
	else if (!conf_is_question(t->url))
		report_error(b->report, n->at,
			     "`%.*s` is not http://..., https://... or HOST:PORT",
			     STR_ARG(t->url));
	if (node_get(n, STR("expect")) == NULL)
		report_error(b->report, n->at, "`expect` is missing: allow or deny");
}

static void
on_test(struct build *b, const struct node *n, void *ctx)
{
	struct conf_test *t = arena_alloc(b->arena, sizeof *t);

	(void)ctx;
	if (t == NULL || !build_is_kind(b, n, NODE_MAP))
		return;
	t->at = n->at;
	for (const struct node *field = n->first; field != NULL; field = field->next)
		on_field(b, field, t);
	check_references(b, n, t);
	conf_add_test(b->conf, t);
}

void
build_tests(struct build *b, const struct node *n, void *ctx)
{
	if (build_is_kind(b, n, NODE_LIST))
		build_items(b, n, on_test, ctx);
}

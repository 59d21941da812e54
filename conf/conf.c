#include "conf/conf.h"

#include <stdlib.h>
#include <string.h>

#include "conf/build.h"
#include "conf/conf_private.h"
#include "proxy/base/num.h"

enum { ARENA_MAX = 512 * 1024 * 1024, NAMES_MAX = 1000000 };

void
conf_add_test(struct conf *c, struct conf_test *t)
{
	if (c->tests == NULL)
		c->tests = t;
	else
		c->tests_last->next = t;
	c->tests_last = t;
}

const struct conf_test *
conf_tests(const struct conf *c)
{
	return c->tests;
}

static void
on_option(struct build *b, const struct node *n, void *ctx)
{
	(void)ctx;
	need(build_option(b, n, n->key));
}

static void
on_policies(struct build *b, const struct node *n, void *ctx)
{
	(void)ctx;
	build_policies_named(b, n);
}

/* Options come first: sandboxes start from the default limits.  Then what others refer
 * to, then what refers: two walks over the same keys. */
static const struct build_field first_fields[] = {
	{ "state_dir", on_option },
	{ "workers", on_option },
	{ "log_level", on_option },
	{ "require_landlock", on_option },
	{ "egress_mark", on_option },
	{ "admin", build_options_group },
	{ "resolver", build_options_group },
	{ "timeouts", build_options_group },
	{ "limits", build_options_group },
	{ "ledger", build_options_group },
	{ "dns", build_options_group },
	{ "upstream_proxy", build_options_group },
	{ "upstream_tls", build_options_group },
	{ "geo", build_options_group },
	{ "vault", build_options_group },
	{ "risk", build_options_group },
	{ "exec", build_options_group },
	{ "listeners", build_listeners },
	{ "policies", on_policies },
	{ "connectors", build_connectors_gather },
	{ "servers", build_servers_gather },
	{ "sandboxes", NULL },
	{ "tests", NULL },
};

static const char *const policy_keys[] = { "mode", "allow", "deny", "connectors" };

/* A file in policies/ holds one policy, called like the file, or several by name. */
static void
read_policy_file(struct build *b, const struct conf_file *f, const struct node *root)
{
	struct place top = { f->name, 1, 1 };

	for (size_t i = 0; i < COUNT_OF(policy_keys); i++) {
		if (node_get(root, str_from(policy_keys[i])) == NULL)
			continue;
		build_policy_named(b, f->stem, root, top);
		return;
	}
	build_policies_named(b, root);
}

static void
read_file(struct build *b, const struct conf_file *f, struct node **ret_main)
{
	struct node *root = NULL;

	if (f->kind == CONF_OTHER)
		return; /* read where it is named */
	enum status st = node_parse(b->arena, b->report, f->name, f->text, &root);
	if (st != ST_OK && root == NULL)
		return; /* said */
	if (root == NULL) {
		/* An empty configuration denies everything: say that it's empty. */
		report_error(b->report, (struct place){ f->name, 1, 1 },
			     "the file is empty");
		return;
	}
	b->is_spare = f->kind == CONF_CONNECTOR;
	if (f->kind == CONF_POLICY)
		read_policy_file(b, f, root);
	else if (f->kind == CONF_CONNECTOR)
		build_connectors_gather(b, root, NULL);
	else if (f->kind == CONF_RISK)
		build_risks(b, root, NULL);
	else
		*ret_main = root;
}

static void
add_default_limits(struct build *b)
{
	struct image_limits l = {
		.connections = (uint32_t)build_number(b, OPT_LIMIT_CONNECTIONS),
		.connections_per_second =
			(uint32_t)build_number(b, OPT_LIMIT_CONNECTION_RATE),
		.connections_burst =
			(uint32_t)build_number(b, OPT_LIMIT_CONNECTION_BURST),
		.requests_per_second =
			(uint32_t)build_number(b, OPT_LIMIT_REQUEST_RATE),
		.requests_burst = (uint32_t)build_number(b, OPT_LIMIT_REQUEST_BURST),
		.bytes = build_number(b, OPT_LIMIT_BYTES),
	};

	(void)draft_add(b->draft, IMAGE_LIMITS, &l);
}

static int
compare_names(const void *left, const void *right, void *ctx)
{
	const struct draft *d = ctx;
	const char *text = d->table[IMAGE_STRINGS].p;
	struct image_ref a, b;

	memcpy(&a, left, sizeof a);
	memcpy(&b, right, sizeof b);
	size_t n = num_min(a.length, b.length);
	int c = n == 0 ? 0 : memcmp(text + a.offset, text + b.offset, n);
	return c != 0 ? c : (a.length > b.length) - (a.length < b.length);
}

/* The name is the first member of these records. */
static void
sort_by_name(struct draft *d, enum image_section s)
{
	if (draft_count(d, s) > 1)
		qsort_r(draft_table(d, s), draft_count(d, s), image_record_size(s),
			compare_names, d);
}

static void
check_twin_names(struct build *b, const struct node *root)
{
	const struct node *hosts =
		node_get(node_get(root, STR("resolver")), STR("hosts"));
	const struct image_name *n = draft_table(b->draft, IMAGE_NAMES);

	/* Different spellings (case, a dot at the end) of one name got by as keys. */
	for (uint32_t i = 1; i < draft_count(b->draft, IMAGE_NAMES); i++)
		if (n[i].name.offset == n[i - 1].name.offset)
			report_error(b->report, hosts->at,
				     "a name stands twice in resolver.hosts");
}

static void
check_geo(struct build *b)
{
	const struct image_option *o = draft_table(b->draft, IMAGE_OPTIONS);

	if (b->needs_country && o[OPT_GEO_COUNTRY].text.length == 0)
		report_error(b->report, b->country_at,
			     "rules with `countries` need geo.country_db");
	if (b->needs_asn && o[OPT_GEO_ASN].text.length == 0)
		report_error(b->report, b->asn_at, "rules with `asns` need geo.asn_db");
}

static bool
has_token_role(const struct build *b)
{
	const struct image_admin *a = draft_table(b->draft, IMAGE_ADMINS);

	for (uint32_t i = 0; i < draft_count(b->draft, IMAGE_ADMINS); i++)
		if (!a[i].has_uid)
			return true;
	return false;
}

static void
check_admin(struct build *b)
{
	const struct image_option *o = draft_table(b->draft, IMAGE_OPTIONS);
	const struct node *n = b->option_nodes[OPT_ADMIN_ADDRESS];

	if (n != NULL && !str_starts(n->text, STR("unix:")) &&
	    o[OPT_ADMIN_TOKEN_SHA256].text.length == 0 && !has_token_role(b))
		report_error(b->report, n->at,
			     "HOST:PORT needs admin.token_sha256, or a role with a "
			     "token");
}

/* It runs, and refuses all that has a name: nobody means that. */
static void
check_resolver(struct build *b, const struct node *root)
{
	const struct image_option *o = draft_table(b->draft, IMAGE_OPTIONS);

	if (b->report->errors == 0 && draft_count(b->draft, IMAGE_PATTERNS) > 0 &&
	    draft_count(b->draft, IMAGE_RESOLVERS) == 0 &&
	    draft_count(b->draft, IMAGE_NAMES) == 0 &&
	    o[OPT_UPSTREAM_PROXY].text.length == 0)
		report_warning(b->report, root->at,
			       "no `resolver.servers`: no host name can be resolved");
}

static void
check_order(struct build *b, enum option low, enum option high)
{
	const struct node *n = b->option_nodes[low] != NULL ? b->option_nodes[low]
							    : b->option_nodes[high];

	if (n != NULL && build_number(b, low) > build_number(b, high))
		report_error(b->report, n->at, "%s is above %s", option_row(low)->key,
			     option_row(high)->key);
}

static void
build_main(struct build *b, const struct node *root)
{
	const struct node *sandboxes = node_get(root, STR("sandboxes"));
	const struct node *tests = node_get(root, STR("tests"));

	build_fields(b, root, first_fields, COUNT_OF(first_fields), NULL);
	build_risks_shipped(b);
	add_default_limits(b);
	build_connectors(b);
	build_policies(b);
	build_exec(b, root);
	build_connectors_unused(b);
	if (sandboxes != NULL)
		build_sandboxes(b, sandboxes, NULL);
	if (tests != NULL)
		build_tests(b, tests, NULL);
	sort_by_name(b->draft, IMAGE_SANDBOXES);
	sort_by_name(b->draft, IMAGE_NAMES);
	check_twin_names(b, root);
	check_geo(b);
	check_admin(b);
	check_resolver(b, root);
	check_order(b, OPT_RESOLVER_TTL_MIN, OPT_RESOLVER_TTL_MAX);
	check_order(b, OPT_LIMIT_LINE, OPT_LIMIT_HEAD);
}

static void
build(struct build *b, const struct conf_files *files)
{
	struct node *root = NULL;

	map_init(&b->policy_index, NAMES_MAX);
	map_init(&b->connector_index, NAMES_MAX);
	map_init(&b->ids, NAMES_MAX);
	map_init(&b->sources, image_record_max(IMAGE_SOURCES));
	build_options_default(b);
	for (const struct conf_file *f = files->first; f != NULL; f = f->next)
		read_file(b, f, &root);
	b->is_spare = false;
	if (root != NULL)
		build_main(b, root);
	if (b->arena->is_over)
		report_error(b->report, (struct place){ STR("configuration"), 0, 0 },
			     "too large");
	map_done(&b->policy_index);
	map_done(&b->connector_index);
	map_done(&b->ids);
	map_done(&b->sources);
}

enum status
conf_compile(const struct conf_files *files, struct report *r, struct conf **ret_c)
{
	struct conf *c = calloc(1, sizeof *c);
	struct build b = { .conf = c, .files = files, .report = r };

	if (c == NULL)
		return ST_NOMEM;
	arena_init(&c->arena, ARENA_MAX);
	draft_init(&c->draft);
	b.arena = &c->arena;
	b.draft = &c->draft;
	build(&b, files);
	if (r->errors > 0) {
		conf_free(c);
		return ST_BAD_CONFIG;
	}
	*ret_c = c;
	return ST_OK;
}

void
conf_free(struct conf *c)
{
	if (c == NULL)
		return;
	draft_done(&c->draft);
	arena_done(&c->arena);
	free(c);
}

enum status
conf_seal(struct conf *c, int *ret_memfd)
{
	return draft_seal(&c->draft, ret_memfd);
}

enum status
conf_load(const char *path, struct report *r, int *ret_memfd)
{
	struct conf_files files;
	struct conf *c = NULL;

	conf_files_init(&files);
	enum status st = conf_files_read(&files, path, r);
	if (st == ST_OK)
		st = conf_compile(&files, r, &c);
	if (st == ST_OK)
		st = conf_seal(c, ret_memfd);
	conf_free(c);
	conf_files_done(&files);
	return st;
}

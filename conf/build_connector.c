/*
 * Connectors: gathered from all files first, since policies refer to them by their place
 * in order of names.  Each entry of `allow` and `deny` becomes a rule without a policy;
 * a policy that lists the connector takes copies.
 */
#include <stdlib.h>
#include <string.h>

#include "conf/build_connector.h"
#include "conf/host.h"
#include "conf/policy.h"
#include "conf/rule_part.h"
#include "conf/value.h"
#include "proxy/base/num.h"

enum { HTTPS = 443 };

struct context {
	struct image_connector image;
	struct rule_context rule; /* hosts, ports and addresses, as a rule reads them */
	struct connector_source *source;
	const struct node *node, *upstream;
	bool has_auth;
	bool is_deny; /* of the list at hand */
};

static void
on_hosts(struct build *b, const struct node *n, void *ctx)
{
	rule_part_hosts(b, n, &((struct context *)ctx)->rule);
}

static void
on_ports(struct build *b, const struct node *n, void *ctx)
{
	rule_part_ports(b, n, &((struct context *)ctx)->rule);
}

static void
on_addresses(struct build *b, const struct node *n, void *ctx)
{
	rule_part_addresses(b, n, &((struct context *)ctx)->rule);
}

bool
build_upstream(struct build *b, const struct node *n, const char *key,
	       struct image_connector *c, struct dest *ret_d)
{
	struct url u;

	if (!url_parse(b->report, n, &u))
		return false;
	if (u.path.n > 1) {
		report_error(b->report, n->at,
			     "`%s` is a scheme, a host and a port; leave out `%.*s`",
			     key, STR_ARG(u.path));
		return false;
	}
	c->upstream_host = url_host(b, &u);
	c->upstream_port = u.dest.port;
	c->upstream_is_plain = u.is_plain;
	*ret_d = u.dest;
	return true;
}

static void
on_upstream(struct build *b, const struct node *n, void *ctx)
{
	struct context *c = ctx;
	struct dest d;

	c->upstream = n;
	(void)!build_upstream(b, n, "upstream", &c->image, &d);
}

static void
on_upstream_http(struct build *b, const struct node *n, void *ctx)
{
	struct context *c = ctx;
	uint64_t which;

	if (value_choice(b->report, n, STR("auto|1|2"), &which))
		c->image.upstream_http = (uint8_t)which;
}

static void
on_auth(struct build *b, const struct node *n, void *ctx)
{
	struct context *c = ctx;

	c->has_auth = true;
	build_auth(b, n, &c->image.auth);
}

static void
on_headers(struct build *b, const struct node *n, void *ctx)
{
	build_headers(b, n, &((struct context *)ctx)->image);
}

static void
on_redact(struct build *b, const struct node *n, void *ctx)
{
	struct context *c = ctx;
	bool flag;

	if (value_flag(b->report, n, &flag))
		c->image.is_redacting = flag;
}

static void
on_group(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	if (value_name(b->report, n, &s))
		((struct context *)ctx)->image.group = draft_str(b->draft, s);
}

static void
on_tenant(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	if (value_name(b->report, n, &s))
		((struct context *)ctx)->image.tenant = draft_str(b->draft, s);
}

static void
on_user(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	(void)ctx;
	if (!value_text(b->report, n, &s))
		return;
	build_word(b, s);
}

static void
on_users(struct build *b, const struct node *n, void *ctx)
{
	struct context *c = ctx;

	build_list(b, n, NULL, (struct build_part){ IMAGE_WORDS, on_user },
		   &c->image.users, &c->image.users_n);
}

static void
on_approval(struct build *b, const struct node *n, void *ctx)
{
	uint64_t which;

	if (value_choice(b->report, n, STR("never|first|always"), &which))
		((struct context *)ctx)->image.approval = (uint8_t)which;
}

static uint32_t
number(struct build *b, const struct node *n)
{
	uint64_t v = 0;

	(void)value_number(b->report, n, 1, 10000000, &v);
	return (uint32_t)v;
}

static void
on_rate(struct build *b, const struct node *n, void *ctx)
{
	((struct context *)ctx)->image.requests_per_second = number(b, n);
}

static void
on_burst(struct build *b, const struct node *n, void *ctx)
{
	((struct context *)ctx)->image.requests_burst = number(b, n);
}

static void
on_concurrent(struct build *b, const struct node *n, void *ctx)
{
	((struct context *)ctx)->image.concurrent = number(b, n);
}

static void
on_body(struct build *b, const struct node *n, void *ctx)
{
	(void)value_size(b->report, n, 1, 1152921504606846976u,
			 &((struct context *)ctx)->image.request_body);
}

static const struct build_field limit_fields[] = {
	{ "requests_per_second", on_rate },
	{ "requests_burst", on_burst },
	{ "concurrent", on_concurrent },
	{ "request_body", on_body },
};

static void
on_limits(struct build *b, const struct node *n, void *ctx)
{
	struct image_connector *im = &((struct context *)ctx)->image;

	build_fields(b, n, limit_fields, COUNT_OF(limit_fields), ctx);
	if (im->requests_burst > 0 && im->requests_per_second == 0)
		report_error(b->report, n->at,
			     "`requests_burst` needs `requests_per_second`");
	if (im->requests_burst == 0)
		im->requests_burst = im->requests_per_second;
}

static const struct build_field fields[] = {
	{ "name", NULL }, /* read when it was gathered */
	{ "shared_suffix", NULL },
	{ "allow", NULL }, /* after the rest, which each entry takes over */
	{ "deny", NULL },
	{ "hosts", on_hosts },
	{ "ports", on_ports },
	{ "addresses", on_addresses },
	{ "upstream", on_upstream },
	{ "upstream_http", on_upstream_http },
	{ "auth", on_auth },
	{ "headers", on_headers },
	{ "redact", on_redact },
	{ "limits", on_limits },
	{ "approval", on_approval },
	{ "group", on_group },
	{ "tenant", on_tenant },
	{ "users", on_users },
};

static void
on_item(struct build *b, const struct node *n, void *ctx)
{
	struct context *c = ctx;
	struct rule_context item = { .rule = c->rule.rule };

	item.rule.is_deny = c->is_deny;
	if (!build_connector_rule(b, n, &c->image.auth, &item))
		return;
	struct connector_rule *one = arena_alloc(b->arena, sizeof *one);
	if (one == NULL)
		return; /* the arena is over: said at the end */
	*one = (struct connector_rule){ .rule = item.rule };
	*c->source->rules_end = one;
	c->source->rules_end = &one->next;
	c->source->rules_n++;
}

static void
read_items(struct build *b, struct context *c, struct str key, bool is_deny)
{
	const struct node *n = node_get(c->node, key);

	c->is_deny = is_deny;
	if (n == NULL || !build_is_kind(b, n, NODE_LIST))
		return;
	if (n->n == 0)
		report_error(b->report, n->at,
			     "`%.*s` is empty; list something or leave it out",
			     STR_ARG(key));
	build_items(b, n, on_item, c);
}

static void
check_whole(struct build *b, struct context *c)
{
	struct place at = c->node->at;

	if (!c->rule.has_hosts)
		report_error(b->report, at, "a connector must name its `hosts`");
	if (!c->has_auth)
		report_error(b->report, at, "a connector must say its `auth`");
	if (node_get(c->node, STR("allow")) == NULL)
		report_error(b->report, at,
			     "a connector must say what it `allow`s; for all of its "
			     "hosts: [{paths: [\"/**\"]}]");
	if (c->image.upstream_is_plain && c->has_auth &&
	    c->image.auth.kind != AUTH_PASSTHROUGH)
		report_error(b->report, c->upstream->at,
			     "a credential never travels in plain text; write "
			     "https://, or use auth kind passthrough");
}

static void
set_defaults(struct build *b, struct context *c)
{
	struct image_ports https = { HTTPS, HTTPS };
	struct image_connector *im = &c->image;

	if (c->rule.ports == NULL) {
		c->rule.rule.ports = draft_add(b->draft, IMAGE_PORTS, &https);
		c->rule.rule.ports_n = 1;
	}
	if (im->group.length == 0)
		im->group = im->tenant.length > 0 ? im->tenant
						  : draft_str(b->draft, STR("default"));
	im->hosts = c->rule.rule.hosts;
	im->hosts_n = c->rule.rule.hosts_n;
	im->ports = c->rule.rule.ports;
	im->ports_n = c->rule.rule.ports_n;
	im->addresses = c->rule.rule.addresses;
	im->addresses_n = c->rule.rule.addresses_n;
}

static void
build_one(struct build *b, struct connector_source *s, uint32_t index)
{
	const struct node *shared = node_get(s->node, STR("shared_suffix"));
	struct context c = { .source = s, .node = s->node };
	bool flag = false;

	if (s->use != USE_SANDBOXES) {
		if (s->use == USE_STORE)
			build_store(b, s);
		else
			build_server(b, s);
		(void)draft_add(b->draft, IMAGE_CONNECTORS, &s->image);
		return;
	}
	c.image.name = draft_str(b->draft, s->name);
	c.image.file = draft_str(b->draft, s->node->at.file);
	c.image.line = s->node->at.line;
	c.image.column = s->node->at.column;
	c.image.is_redacting = true;
	c.rule.rule.connector = index;
	if (shared != NULL && !value_flag(b->report, shared, &flag))
		flag = true; /* one complaint is enough */
	c.rule.is_shared_suffix_asked = flag;
	build_fields(b, s->node, fields, COUNT_OF(fields), &c);
	check_whole(b, &c);
	set_defaults(b, &c);
	read_items(b, &c, STR("allow"), false);
	read_items(b, &c, STR("deny"), true);
	s->image = c.image;
	(void)draft_add(b->draft, IMAGE_CONNECTORS, &c.image);
}

static int
compare_names(const void *left, const void *right)
{
	const struct connector_source *const *a = left, *const *b = right;
	size_t n = num_min((*a)->name.n, (*b)->name.n);
	int c = n == 0 ? 0 : memcmp((*a)->name.p, (*b)->name.p, n);

	return c != 0 ? c
		      : ((*a)->name.n > (*b)->name.n) - ((*a)->name.n < (*b)->name.n);
}

struct image_ref
url_host(struct build *b, const struct url *u)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	struct str s = STR("");

	buf_init(&text, DEST_NAME_MAX + 2);
	dest_put_host(&text, &u->dest);
	if (buf_finish(&text, &s) != ST_OK)
		s = STR(""); /* out of memory; the draft will be too */
	return draft_str(b->draft, s);
}

void
build_connectors(struct build *b)
{
	struct connector_source **sorted =
		arena_alloc(b->arena, (b->connectors_n + 1) * sizeof(void *));
	size_t n = 0;

	if (sorted == NULL)
		return; /* the arena is over: said at the end */
	for (struct connector_source *s = b->connectors; s != NULL; s = s->next)
		sorted[n++] = s;
	qsort(sorted, n, sizeof(void *), compare_names);
	for (size_t i = 0; i < n; i++) {
		sorted[i]->index = (uint32_t)i;
		build_one(b, sorted[i], (uint32_t)i);
	}
	build_stores_check(b);
}

void
build_connectors_unused(struct build *b)
{
	struct image_connector *all = draft_table(b->draft, IMAGE_CONNECTORS);

	for (const struct connector_source *s = b->connectors; s != NULL; s = s->next) {
		if (s->index < draft_count(b->draft, IMAGE_CONNECTORS))
			all[s->index].is_listed = s->is_listed;
		if (!s->is_listed && !s->is_spare)
			report_warning(b->report, s->node->at,
				       "no policy lists connector `%.*s` under "
				       "`connectors`: nobody may use it",
				       STR_ARG(s->name));
	}
}

static struct connector_source *
gather(struct build *b, const struct node *n, struct str name)
{
	struct connector_source *s = arena_alloc(b->arena, sizeof *s);

	if (s == NULL)
		return NULL;
	*s = (struct connector_source){
		.name = name,
		.node = n,
		.is_spare = b->is_spare,
		.rules_end = &s->rules,
		.next = b->connectors,
	};
	if (map_put(&b->connector_index, name, s) != ST_OK) {
		report_error(b->report, n->at, "too many connectors");
		return NULL;
	}
	b->connectors = s;
	b->connectors_n++;
	return s;
}

const char *
build_connector_word(enum connector_use use)
{
	static const char *const words[] = { [USE_SANDBOXES] = "a connector",
					     [USE_STORE] = "a source of secrets",
					     [USE_SERVER] = "an execution server" };

	return words[use];
}

struct connector_source *
build_connector_add(struct build *b, const struct node *name, const struct node *n)
{
	struct str s;

	if (!value_name(b->report, name, &s))
		return NULL;
	const struct connector_source *before = map_get(&b->connector_index, s);
	if (before == NULL)
		return gather(b, n, s);
	report_error(b->report, name->at, "%s is called `%.*s` already, in %.*s:%u",
		     build_connector_word(before->use), STR_ARG(s),
		     STR_ARG(before->node->at.file), before->node->at.line);
	return NULL;
}

static void
on_connector(struct build *b, const struct node *n, void *ctx)
{
	(void)ctx;
	if (!build_is_kind(b, n, NODE_MAP))
		return;
	const struct node *name = node_get(n, STR("name"));
	if (name == NULL) {
		report_error(b->report, n->at, "`name` is missing");
		return;
	}
	(void)build_connector_add(b, name, n);
}

void
build_connectors_gather(struct build *b, const struct node *n, void *ctx)
{
	if (n->kind == NODE_MAP)
		on_connector(b, n, ctx);
	else if (build_is_kind(b, n, NODE_LIST))
		build_items(b, n, on_connector, ctx);
}

/* One rule of a policy.  All its parts are read before it is judged as a whole. */
#include "conf/build.h"
#include "conf/host.h"
#include "conf/policy.h"
#include "conf/rule_part.h"
#include "conf/value.h"

enum { HTTPS = 443, HTTP = 80 };

static void
on_protocol(struct build *b, const struct node *n, void *ctx)
{
	struct rule_context *c = ctx;
	uint64_t which;

	c->protocol = n;
	if (value_choice(b->report, n, STR("http|tcp"), &which))
		c->rule.is_tcp = which == 1;
}

static void
on_shared_suffix(struct build *b, const struct node *n, void *ctx)
{
	struct rule_context *c = ctx;

	if (!value_flag(b->report, n, &c->is_shared_suffix_asked))
		c->is_shared_suffix_asked = true; /* one complaint is enough */
}

static void
on_any_host(struct build *b, const struct node *n, void *ctx)
{
	struct rule_context *c = ctx;
	bool flag;

	if (value_flag(b->report, n, &flag))
		c->rule.is_any_host = flag;
}

static void
on_approval(struct build *b, const struct node *n, void *ctx)
{
	struct rule_context *c = ctx;
	uint64_t which;

	if (value_choice(b->report, n, STR("never|first"), &which))
		c->rule.approval = (uint8_t)which;
}

static const struct build_field fields[] = {
	{ "protocol", on_protocol },          { "shared_suffix", on_shared_suffix },
	{ "hosts", rule_part_hosts },         { "cidrs", rule_part_cidrs },
	{ "ports", rule_part_ports },         { "methods", rule_part_methods },
	{ "paths", rule_part_paths },         { "query", rule_part_query },
	{ "addresses", rule_part_addresses }, { "countries", rule_part_countries },
	{ "asns", rule_part_asns },           { "approval", on_approval },
	{ "any_host", on_any_host },
};

static void
add_default_ports(struct build *b, struct image_rule *r)
{
	struct image_ports https = { HTTPS, HTTPS }, http = { HTTP, HTTP };

	r->ports = draft_add(b->draft, IMAGE_PORTS, &https);
	(void)draft_add(b->draft, IMAGE_PORTS, &http);
	r->ports_n = 2;
}

static void
check_deny(struct build *b, const struct node *n, const struct rule_context *c)
{
	if (c->protocol != NULL)
		report_error(b->report, c->protocol->key_at,
			     "a deny rule covers every protocol; leave `protocol` out");
	if (c->rule.approval != APPROVAL_NEVER)
		report_error(b->report, n->at,
			     "a deny rule asks nobody; leave `approval` out");
	if (c->rule.addresses_n > 0)
		report_error(b->report, n->at,
			     "`addresses` is for allow rules; use `cidrs`");
	if (c->rule.is_any_host)
		report_error(b->report, n->at,
			     "a deny rule without hosts covers every host; leave "
			     "`any_host` out");
	if (policy_rule_reads(&c->rule) && (!c->has_hosts || c->has_cidrs))
		report_error(b->report, n->at,
			     "a deny rule with methods or paths must name hosts, and "
			     "no cidrs");
}

static void
check_tcp(struct build *b, const struct node *n, struct rule_context *c)
{
	if (c->ports == NULL)
		report_error(b->report, n->at, "a tcp rule must list `ports`");
	if (policy_rule_reads(&c->rule))
		report_error(b->report, n->at,
			     "methods and paths belong to http, not to protocol: tcp");
}

static void
check_allow(struct build *b, const struct node *n, struct rule_context *c)
{
	if (!c->has_hosts && !c->has_cidrs && !c->rule.is_any_host)
		report_error(b->report, n->at,
			     "an allow rule must name `hosts` (or `cidrs` with "
			     "protocol: tcp)");
	if (c->rule.is_any_host && (c->has_hosts || c->has_cidrs))
		report_error(b->report, n->at,
			     "`any_host` stands alone: without hosts and cidrs");
	if (c->rule.is_tcp)
		check_tcp(b, n, c);
	else if (c->has_cidrs)
		report_error(b->report, n->at, "`cidrs` needs `protocol: tcp`");
	if (c->ports == NULL && !c->rule.is_tcp)
		add_default_ports(b, &c->rule);
}

static void
note_places(struct build *b, const struct node *n, const struct image_rule *r)
{
	if (r->countries_n > 0 && !b->needs_country) {
		b->needs_country = true;
		b->country_at = n->at;
	}
	if (r->asns_n > 0 && !b->needs_asn) {
		b->needs_asn = true;
		b->asn_at = n->at;
	}
}

static void
place_rule(struct build *b, const struct node *n, uint32_t policy, struct image_rule *r)
{
	r->policy = policy;
	r->file = draft_str(b->draft, n->at.file);
	r->line = n->at.line;
	r->column = n->at.column;
}

bool
build_rule(struct build *b, const struct node *n, uint32_t policy, bool is_deny,
	   struct image_rule *ret_rule)
{
	struct rule_context c = { .rule = { .is_deny = is_deny,
					    .connector = CONNECTOR_NONE } };
	const struct node *shared = node_get(n, STR("shared_suffix"));
	size_t errors = b->report->errors;

	/* hosts are judged by it, wherever it stands */
	c.is_shared_suffix_asked = shared != NULL && str_eq(shared->text, STR("true"));
	build_fields(b, n, fields, COUNT_OF(fields), &c);
	if (n->kind != NODE_MAP)
		return false;
	place_rule(b, n, policy, &c.rule);
	if (is_deny)
		check_deny(b, n, &c);
	else
		check_allow(b, n, &c);
	if (b->report->errors > errors)
		return false;
	note_places(b, n, &c.rule);
	*ret_rule = c.rule;
	return true;
}

static const struct build_field connector_fields[] = {
	{ "methods", rule_part_methods },
	{ "paths", rule_part_paths },
	{ "query", rule_part_query },
};

/* The client writes something into the credential's slot, which is then replaced. */
static void
add_slot(struct build *b, const struct image_auth *auth, struct image_rule *r)
{
	if (auth->kind != AUTH_QUERY || auth->name.length == 0 || r->query_n == 0 ||
	    r->is_deny)
		return;
	(void)draft_add(b->draft, IMAGE_WORDS, &auth->name);
	r->query_n++;
}

bool
build_connector_rule(struct build *b, const struct node *n,
		     const struct image_auth *auth, struct rule_context *c)
{
	size_t errors = b->report->errors;

	build_fields(b, n, connector_fields, COUNT_OF(connector_fields), c);
	if (n->kind != NODE_MAP)
		return false;
	if (n->n == 0)
		report_error(b->report, n->at,
			     "say what: methods, paths or query; paths: [\"/**\"] is "
			     "every path");
	add_slot(b, auth, &c->rule);
	place_rule(b, n, 0, &c->rule);
	return b->report->errors == errors;
}

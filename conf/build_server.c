/*
 * `servers`: OpenSandbox servers.  Each becomes a connector of its own group, through which
 * the gateway calls the server's API and nobody else does.
 */
#include "conf/build_system.h"
#include "conf/rule_part.h"
#include "conf/value.h"

enum { WEIGHT_MAX = 1000, CA_FILE_MAX = 1000 };

struct server_context {
	struct build_system system; /* stays the first member */
	struct image_exec_server image;
	struct rule_context endpoints; /* as a rule reads addresses */
	bool is_plain_meant;
};

static void
on_tier(struct build *b, const struct node *n, void *ctx)
{
	build_tier(b, n, &((struct server_context *)ctx)->image.tier);
}

static void
on_endpoints(struct build *b, const struct node *n, void *ctx)
{
	rule_part_addresses(b, n, &((struct server_context *)ctx)->endpoints);
}

static void
on_network(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	if (value_name(b->report, n, &s))
		((struct server_context *)ctx)->image.network = draft_str(b->draft, s);
}

/* It goes into docker's HOST:INSIDE:ro, and the server takes no path that isn't plain. */
static bool
is_plain_path(struct str s)
{
	struct str rest = str_skip(s, 1);

	if (!str_starts(s, STR("/")) || s.n > CA_FILE_MAX || str_has(s, ':'))
		return false;
	while (rest.p != NULL) {
		struct str part = str_cut(&rest, '/');

		if (part.n == 0 || str_eq(part, STR(".")) || str_eq(part, STR("..")))
			return false;
	}
	return true;
}

static void
on_ca_file(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	if (!value_text(b->report, n, &s))
		return;
	if (is_plain_path(s))
		((struct server_context *)ctx)->image.ca_file = draft_str(b->draft, s);
	else
		report_error(b->report, n->at,
			     "`ca_file` is an absolute path without `:`, `.`, `..` and "
			     "empty parts, like /var/lib/sandgate-ca/ca.pem");
}

static void
on_weight(struct build *b, const struct node *n, void *ctx)
{
	uint64_t v = 1;

	(void)value_number(b->report, n, 1, WEIGHT_MAX, &v);
	((struct server_context *)ctx)->image.weight = (uint32_t)v;
}

static void
on_plain(struct build *b, const struct node *n, void *ctx)
{
	bool flag = false;

	(void)value_flag(b->report, n, &flag);
	((struct server_context *)ctx)->is_plain_meant = flag;
}

static const struct build_field fields[] = {
	{ "name", NULL }, /* read when it was gathered */
	{ "url", build_system_url },
	{ "addresses", build_system_addresses },
	{ "key", build_system_secret },
	{ "tier", on_tier },
	{ "endpoints", on_endpoints },
	{ "network", on_network },
	{ "ca_file", on_ca_file },
	{ "weight", on_weight },
	{ "plain", on_plain },
};

/* An address that stands in the url is meant. */
static void
add_own_address(struct build *b, struct server_context *c)
{
	struct image_connector *k = &c->system.source->image;
	struct cidr one = { c->system.addr, c->system.addr.family == 4 ? 32 : 128 };

	if (c->system.addr.family == 0 || k->addresses_n > 0)
		return;
	k->addresses = draft_add(b->draft, IMAGE_CIDRS, &one);
	k->addresses_n = 1;
}

static bool
is_on_loopback(const struct addr *a)
{
	return a->family != 0 && addr_classify(a) == ADDR_LOOPBACK;
}

static void
check_whole(struct build *b, const struct server_context *c)
{
	const struct connector_source *s = c->system.source;

	if (s->image.auth.secret.length == 0 && node_get(s->node, STR("key")) == NULL)
		report_error(b->report, s->node->at,
			     "an execution server must say its `key`: the name in the "
			     "vault of what it takes as OPEN-SANDBOX-API-KEY");
	if (node_get(s->node, STR("endpoints")) == NULL)
		report_error(b->report, s->node->at,
			     "an execution server must say where its `endpoints` may "
			     "lie: [\"127.0.0.0/8\"] when sandboxes run on this "
			     "machine");
	if (c->image.ca_file.length > 0 && c->image.network.length == 0)
		report_error(
			b->report, node_get(s->node, STR("ca_file"))->at,
			"`ca_file` is of a server whose sandboxes the gateway stands "
			"before: it needs `network`");
	if (s->image.upstream_is_plain && !c->is_plain_meant &&
	    !is_on_loopback(&c->system.addr))
		report_error(b->report, c->system.url->at,
			     "the server's key would travel readable; write https://, "
			     "an address on loopback (127.0.0.1, no name), or `plain: "
			     "true` if nobody listens on that network");
}

void
build_server(struct build *b, struct connector_source *s)
{
	struct server_context c = { .system = { .source = s },
				    .image = { .connector = s->index, .weight = 1 } };

	build_system_begin(b, &c.system);
	s->image.is_redacting = true;
	s->image.auth.kind = AUTH_HEADER;
	s->image.auth.name = draft_str(b->draft, STR("open-sandbox-api-key"));
	c.image.name = s->image.name;
	build_fields(b, s->node, fields, COUNT_OF(fields), &c);
	build_system_end(b, &c.system);
	add_own_address(b, &c);
	check_whole(b, &c);
	c.image.endpoints = c.endpoints.rule.addresses;
	c.image.endpoints_n = c.endpoints.rule.addresses_n;
	(void)draft_add(b->draft, IMAGE_EXEC_SERVERS, &c.image);
}

void
build_servers_gather(struct build *b, const struct node *n, void *ctx)
{
	(void)ctx;
	build_systems_gather(b, n, USE_SERVER, image_record_max(IMAGE_EXEC_SERVERS));
}

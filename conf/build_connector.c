/* Connectors: their shape and their hosts.  What they do with a credential is the
 * connector process's matter. */
#include "conf/build.h"
#include "conf/host.h"
#include "conf/value.h"

static const char auth_kinds[] =
	"bearer|basic|header|query|path|form|oauth2_client_credentials|oauth2_refresh|"
	"jwt_bearer|sigv4|hmac|mtls|passthrough";

static void
on_host(struct build *b, const struct node *n, void *ctx)
{
	const struct host_wish wish = { .may_be_single = true, .may_be_shared = true };
	struct host_pattern h;

	(void)ctx;
	(void)host_parse(b->arena, b->report, n, &wish, &h);
}

static void
on_hosts(struct build *b, const struct node *n, void *ctx)
{
	if (n->kind == NODE_LIST && n->n == 0)
		report_error(b->report, n->at, "`hosts` is empty");
	build_items(b, n, on_host, ctx);
}

static void
on_auth_kind(struct build *b, const struct node *n, void *ctx)
{
	uint64_t kind;

	(void)ctx;
	(void)value_choice(b->report, n, STR(auth_kinds), &kind);
}

static void
on_text(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	(void)ctx;
	(void)value_text(b->report, n, &s);
}

static void
on_texts(struct build *b, const struct node *n, void *ctx)
{
	build_items(b, n, on_text, ctx);
}

static const struct build_field auth_fields[] = {
	{ "kind", on_auth_kind },   { "secret", on_text },
	{ "user", on_text },        { "name", on_text },
	{ "prefix", on_text },      { "token_url", on_text },
	{ "client_id", on_text },   { "scopes", on_texts },
	{ "audience", on_text },    { "issuer", on_text },
	{ "subject", on_text },     { "region", on_text },
	{ "service", on_text },     { "algorithm", on_text },
	{ "certificate", on_text }, { "placeholder", on_text },
};

static void
on_auth(struct build *b, const struct node *n, void *ctx)
{
	build_fields(b, n, auth_fields, COUNT_OF(auth_fields), ctx);
	if (n->kind == NODE_MAP && node_get(n, STR("kind")) == NULL)
		report_error(b->report, n->at, "`kind` is missing: one of %s",
			     auth_kinds);
}

static const struct build_field allow_fields[] = {
	{ "methods", on_texts },
	{ "paths", on_texts },
	{ "query", on_texts },
};

static void
on_allow_item(struct build *b, const struct node *n, void *ctx)
{
	build_fields(b, n, allow_fields, COUNT_OF(allow_fields), ctx);
}

static void
on_allow(struct build *b, const struct node *n, void *ctx)
{
	if (build_is_kind(b, n, NODE_LIST))
		build_items(b, n, on_allow_item, ctx);
}

static const struct build_field fields[] = {
	{ "name", NULL },     { "hosts", on_hosts }, { "upstream", on_text },
	{ "auth", on_auth },  { "allow", on_allow }, { "deny", on_allow },
	{ "headers", NULL },  { "redact", NULL },    { "limits", NULL },
	{ "approval", NULL }, { "group", on_text },
};

void
build_connector(struct build *b, const struct node *n, void *ctx)
{
	const struct node *name = node_get(n, STR("name"));
	struct str s;

	build_fields(b, n, fields, COUNT_OF(fields), ctx);
	if (n->kind != NODE_MAP)
		return;
	if (node_get(n, STR("hosts")) == NULL)
		report_error(b->report, n->at, "a connector must name its `hosts`");
	if (node_get(n, STR("auth")) == NULL)
		report_error(b->report, n->at, "a connector must say its `auth`");
	if (name == NULL) {
		report_error(b->report, n->at, "`name` is missing");
		return;
	}
	if (!value_name(b->report, name, &s))
		return;
	if (map_get(&b->connectors, s) != NULL) {
		report_error(b->report, name->at, "another connector is called `%.*s`",
			     STR_ARG(s));
		return;
	}
	union {
		const struct node *in;
		void *out;
	} value = { .in = n };
	if (map_put(&b->connectors, s, value.out) != ST_OK)
		report_error(b->report, name->at, "too many connectors");
}

void
build_connectors(struct build *b, const struct node *n, void *ctx)
{
	if (n->kind == NODE_MAP)
		build_connector(b, n, ctx);
	else if (build_is_kind(b, n, NODE_LIST))
		build_items(b, n, build_connector, ctx);
}

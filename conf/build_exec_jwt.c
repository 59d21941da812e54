/* `exec.jwt`: whose tokens callers may show instead of a key. */
#include "conf/auth_text.h"
#include "conf/build_exec.h"
#include "conf/policy.h"
#include "conf/value.h"
#include "proxy/base/jscan.h"

enum { JWKS_MAX = 256 * 1024 };

struct jwt_context {
	struct image_exec_jwt image;
	const struct node *file, *connector, *path;
};

static void
read_printable(struct build *b, const struct node *n, struct image_ref *ret_ref)
{
	struct str s;

	if (!value_text(b->report, n, &s))
		return;
	if (auth_is_printable(s))
		*ret_ref = draft_str(b->draft, s);
	else
		report_error(b->report, n->at, "`%.*s` is not printable ASCII",
			     STR_ARG(s));
}

static void
on_issuer(struct build *b, const struct node *n, void *ctx)
{
	read_printable(b, n, &((struct jwt_context *)ctx)->image.issuer);
}

static void
on_audience(struct build *b, const struct node *n, void *ctx)
{
	read_printable(b, n, &((struct jwt_context *)ctx)->image.audience);
}

static void
on_user_claim(struct build *b, const struct node *n, void *ctx)
{
	read_printable(b, n, &((struct jwt_context *)ctx)->image.user_claim);
}

static void
on_agent_claim(struct build *b, const struct node *n, void *ctx)
{
	read_printable(b, n, &((struct jwt_context *)ctx)->image.agent_claim);
}

static void
on_tenant(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	if (value_name(b->report, n, &s))
		((struct jwt_context *)ctx)->image.tenant = draft_str(b->draft, s);
}

static void
on_delegate(struct build *b, const struct node *n, void *ctx)
{
	bool flag = false;

	(void)value_flag(b->report, n, &flag);
	((struct jwt_context *)ctx)->image.may_delegate = flag;
}

static void
on_scope(struct build *b, const struct node *n, void *ctx)
{
	struct jwt_context *c = ctx;
	uint64_t which;

	if (value_choice(b->report, n, STR("run|read|files|egress"), &which))
		c->image.scopes = (uint8_t)(c->image.scopes | 1u << which);
}

static void
on_scopes(struct build *b, const struct node *n, void *ctx)
{
	((struct jwt_context *)ctx)->image.scopes = 0;
	build_items(b, n, on_scope, ctx);
}

/* A JSON object: what is in it, control reads. */
static bool
is_object(struct str text)
{
	struct jscan j;
	struct str part;
	enum jscan_token t;

	jscan_init(&j);
	t = jscan_next(&j, &text, &part);
	if (t != JSCAN_OBJECT)
		return false;
	do
		t = jscan_next(&j, &text, &part);
	while (t != JSCAN_AGAIN && t != JSCAN_OVER && t != JSCAN_BAD);
	while (text.n > 0 && jscan_is_space(text.p[0]))
		text = str_skip(text, 1);
	return t == JSCAN_OVER && text.n == 0;
}

static void
on_file(struct build *b, const struct node *n, void *ctx)
{
	struct jwt_context *c = ctx;
	struct str name, text;

	c->file = n;
	if (!value_text(b->report, n, &name) || !build_file(b, n, JWKS_MAX, &text))
		return;
	if (is_object(text))
		c->image.jwks = draft_str(b->draft, text);
	else
		report_error(b->report, n->at,
			     "`%.*s` is not a set of keys: {\"keys\": [...]} (RFC "
			     "7517)",
			     STR_ARG(name));
}

static void
on_connector(struct build *b, const struct node *n, void *ctx)
{
	struct jwt_context *c = ctx;

	c->connector = n;
	(void)build_own_connector(b, n, &c->image.jwks_connector);
}

static void
on_path(struct build *b, const struct node *n, void *ctx)
{
	struct jwt_context *c = ctx;
	struct str s;

	c->path = n;
	if (!value_text(b->report, n, &s))
		return;
	if (str_starts(s, STR("/")) && auth_is_printable(s) && !str_has(s, ' ') &&
	    !str_has(s, '#'))
		c->image.jwks_path = draft_str(b->draft, s);
	else
		report_error(b->report, n->at,
			     "`%.*s` is not the path of a request, from its `/` on",
			     STR_ARG(s));
}

static const struct build_field fields[] = {
	{ "issuer", on_issuer },           { "audience", on_audience },
	{ "jwks_file", on_file },          { "jwks_connector", on_connector },
	{ "jwks_path", on_path },          { "user_claim", on_user_claim },
	{ "agent_claim", on_agent_claim }, { "tenant", on_tenant },
	{ "scopes", on_scopes },           { "may_delegate", on_delegate },
};

static void
check_whole(struct build *b, const struct node *n, const struct jwt_context *c)
{
	if (node_get(n, STR("issuer")) == NULL)
		report_error(b->report, n->at, "`issuer` is missing");
	if (node_get(n, STR("audience")) == NULL)
		report_error(b->report, n->at,
			     "`audience` is missing: without it tokens for other "
			     "services would be good here");
	if ((c->file != NULL) == (c->connector != NULL))
		report_error(b->report, n->at,
			     "keys come from one of `jwks_file` and `jwks_connector`");
	if ((c->connector != NULL) != (c->path != NULL))
		report_error(b->report, n->at,
			     "`jwks_connector` and `jwks_path` go together");
}

/* Which of two would a token be of? */
static void
check_twin(struct build *b, const struct node *n, const struct image_exec_jwt *j)
{
	const struct image_exec_jwt *all = draft_table(b->draft, IMAGE_EXEC_JWTS);

	for (uint32_t i = 0; i < draft_count(b->draft, IMAGE_EXEC_JWTS); i++)
		if (j->issuer.length > 0 && all[i].issuer.offset == j->issuer.offset &&
		    all[i].audience.offset == j->audience.offset) {
			report_error(b->report, n->at,
				     "another of `jwt` has this issuer and audience");
			return;
		}
}

static void
on_jwt(struct build *b, const struct node *n, void *ctx)
{
	struct jwt_context c = {
		.image = { .user_claim = draft_str(b->draft, STR("sub")),
			   .agent_claim = draft_str(b->draft, STR("azp")),
			   .jwks_connector = CONNECTOR_NONE,
			   .scopes = EXEC_SCOPES_ALL },
	};

	(void)ctx;
	build_fields(b, n, fields, COUNT_OF(fields), &c);
	if (n->kind != NODE_MAP)
		return;
	check_whole(b, n, &c);
	check_twin(b, n, &c.image);
	if (draft_count(b->draft, IMAGE_EXEC_JWTS) < image_record_max(IMAGE_EXEC_JWTS))
		(void)draft_add(b->draft, IMAGE_EXEC_JWTS, &c.image);
}

void
build_jwts(struct build *b, const struct node *n)
{
	if (!build_is_kind(b, n, NODE_LIST))
		return;
	build_items(b, n, on_jwt, NULL);
	if (n->n > image_record_max(IMAGE_EXEC_JWTS))
		report_error(b->report, n->at, "more than %zu issuers",
			     image_record_max(IMAGE_EXEC_JWTS));
}

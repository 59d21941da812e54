/* A connector's `auth`: which keys have a use is what auth_kinds.def says. */
#include <string.h>

#include "conf/auth_text.h"
#include "conf/build_connector.h"
#include "conf/value.h"

struct auth_context {
	struct image_auth *auth;
	const struct node *node, *algorithm;
	bool has_kind;
};

static void
on_text(struct build *b, const struct node *n, void *ctx)
{
	struct auth_context *c = ctx;
	struct str s;

	if (!value_text(b->report, n, &s))
		return;
	const struct auth_text *t = auth_text_by_key(n->key);
	need(t != NULL);
	if (!t->is_fit(s)) {
		report_error(b->report, n->at, "`%.*s` is not %s", STR_ARG(s),
			     t->fault);
		return;
	}
	struct image_ref ref = draft_str(b->draft, s);
	memcpy((char *)c->auth + t->member, &ref, sizeof ref);
}

static void
on_kind(struct build *b, const struct node *n, void *ctx)
{
	struct auth_context *c = ctx;
	uint64_t kind;

	if (!value_choice(b->report, n, auth_kind_words(), &kind))
		return;
	c->auth->kind = (uint8_t)kind;
	c->has_kind = true;
}

static void
on_choice(struct build *b, const struct node *n, struct str words, uint8_t *ret_which)
{
	uint64_t which;

	if (value_choice(b->report, n, words, &which))
		*ret_which = (uint8_t)which;
}

static void
on_algorithm(struct build *b, const struct node *n, void *ctx)
{
	struct auth_context *c = ctx;

	c->algorithm = n;
	on_choice(b, n, STR("sha256|sha1|sha512|RS256|ES256"), &c->auth->algorithm);
}

static void
on_encoding(struct build *b, const struct node *n, void *ctx)
{
	struct auth_context *c = ctx;

	on_choice(b, n, STR("hex|base64"), &c->auth->encoding);
}

static void
on_style(struct build *b, const struct node *n, void *ctx)
{
	struct auth_context *c = ctx;

	on_choice(b, n, STR("basic|post"), &c->auth->style);
}

static void
on_exchange(struct build *b, const struct node *n, void *ctx)
{
	struct auth_context *c = ctx;

	on_choice(b, n, STR("oauth|github_app|none"), &c->auth->exchange);
}

static void
on_timestamp(struct build *b, const struct node *n, void *ctx)
{
	struct auth_context *c = ctx;

	build_field_name(b, n, &c->auth->timestamp);
}

static void
on_token_url(struct build *b, const struct node *n, void *ctx)
{
	struct auth_context *c = ctx;
	struct url u;

	if (!url_parse(b->report, n, &u))
		return;
	if (u.is_plain)
		report_error(
			b->report, n->at,
			"a credential never travels in plain text; write https://");
	c->auth->token_url = draft_str(b->draft, n->text);
	c->auth->token_host = url_host(b, &u);
	c->auth->token_port = u.dest.port;
	c->auth->token_is_explicit = true;
}

struct scopes {
	struct buf b;
};

static void
on_scope(struct build *b, const struct node *n, void *ctx)
{
	struct scopes *all = ctx;
	struct str s;

	if (!value_text(b->report, n, &s))
		return;
	if (!auth_is_printable(s) || str_has(s, ' ') || str_has(s, '"') ||
	    str_has(s, '\\'))
		report_error(b->report, n->at,
			     "`%.*s` is not a scope (RFC 6749 section 3.3)",
			     STR_ARG(s));
	if (all->b.len > 0)
		buf_putc(&all->b, ' ');
	buf_put(&all->b, s);
}

static void
on_scopes(struct build *b, const struct node *n, void *ctx)
{
	struct auth_context *c = ctx;
	CLEANUP(buf_done) struct buf text = { 0 };
	struct scopes all = { { 0 } };
	struct str s;

	buf_init(&all.b, 8192);
	build_items(b, n, on_scope, &all);
	text = all.b;
	if (buf_finish(&text, &s) == ST_OK)
		c->auth->scopes = draft_str(b->draft, s);
	else
		report_error(b->report, n->at, "more than 8192 bytes of scopes");
}

/* What a name may hold depends on the kind, which may come later in the file. */
static void
read_name(struct build *b, const struct node *n, struct image_auth *a)
{
	struct str s;

	if (a->kind == AUTH_HEADER || a->kind == AUTH_HMAC) {
		build_field_name(b, n, &a->name);
		return;
	}
	if (!value_text(b->report, n, &s))
		return;
	bool ok = auth_is_printable(s) && s.n <= STR_NAME_MAX && !str_has(s, ' ') &&
		  !str_has(s, '&') && !str_has(s, '=') && !str_has(s, '#') &&
		  !str_has(s, '%') && !str_has(s, '+');
	if (!ok)
		report_error(b->report, n->at,
			     "`%.*s` is not the name of a parameter: at most 64 "
			     "printable bytes without & = # %% + and blank",
			     STR_ARG(s));
	a->name = draft_str(b->draft, s);
}

static const struct build_field fields[] = {
	{ "kind", on_kind },
	{ "secret", on_text },
	{ "client_secret", on_text },
	{ "session_token", on_text },
	{ "certificate", on_text },
	{ "user", on_text },
	{ "name", NULL },
	{ "prefix", on_text },
	{ "token_url", on_token_url },
	{ "client_id", on_text },
	{ "scopes", on_scopes },
	{ "audience", on_text },
	{ "issuer", on_text },
	{ "subject", on_text },
	{ "key_id", on_text },
	{ "region", on_text },
	{ "service", on_text },
	{ "assume_role", on_text },
	{ "external_id", on_text },
	{ "session_name", on_text },
	{ "algorithm", on_algorithm },
	{ "encoding", on_encoding },
	{ "style", on_style },
	{ "exchange", on_exchange },
	{ "message", on_text },
	{ "timestamp", on_timestamp },
	{ "placeholder", on_text },
	{ "env", on_text },
};

static bool
is_listed(const char *words, struct str key)
{
	struct str rest = str_from(words);

	while (rest.p != NULL)
		if (str_eq(str_cut(&rest, '|'), key))
			return true;
	return false;
}

/* Not `kind` itself, and not what was called unknown already. */
static bool
is_known(struct str key)
{
	for (size_t i = 1; i < COUNT_OF(fields); i++)
		if (str_eq(key, str_from(fields[i].key)))
			return true;
	return false;
}

static void
check_keys(struct build *b, const struct auth_context *c)
{
	const struct auth_row *row = auth_row_of((enum auth_kind)c->auth->kind);
	struct str rest = str_from(row->needs);

	for (const struct node *n = c->node->first; n != NULL; n = n->next)
		if (is_known(n->key) && !is_listed(row->needs, n->key) &&
		    !is_listed(row->takes, n->key))
			report_error(b->report, n->key_at,
				     "`%.*s` has no use with auth kind %s",
				     STR_ARG(n->key), row->word);
	while (rest.n > 0) {
		struct str key = str_cut(&rest, '|');
		if (node_get(c->node, key) == NULL)
			report_error(b->report, c->node->at,
				     "auth kind %s needs `%.*s`", row->word,
				     STR_ARG(key));
	}
}

static void
check_algorithm(struct build *b, struct auth_context *c)
{
	struct image_auth *a = c->auth;
	bool is_jwt = a->kind == AUTH_JWT_BEARER;

	if (c->algorithm == NULL) {
		a->algorithm = is_jwt ? AUTH_RS256 : AUTH_SHA256;
		return;
	}
	if (is_jwt != (a->algorithm >= AUTH_RS256))
		report_error(b->report, c->algorithm->at, "with auth kind %s: %s",
			     auth_kind_word((enum auth_kind)a->kind),
			     is_jwt ? "RS256 or ES256" : "sha256, sha1 or sha512");
}

static void
check_pairs(struct build *b, const struct auth_context *c)
{
	const struct image_auth *a = c->auth;
	const struct node *n = c->node;

	if (a->kind == AUTH_JWT_BEARER && a->exchange != AUTH_EXCHANGE_NONE &&
	    node_get(n, STR("token_url")) == NULL)
		report_error(
			b->report, n->at,
			"auth kind jwt_bearer needs `token_url`, or exchange: none");
	if (a->kind == AUTH_OAUTH2_REFRESH && a->client_secret.length > 0 &&
	    a->client_id.length == 0)
		report_error(b->report, n->at, "`client_secret` needs `client_id`");
	if (a->kind == AUTH_SIGV4 && a->assume_role.length == 0 &&
	    (a->external_id.length > 0 || a->session_name.length > 0 ||
	     a->token_url.length > 0))
		report_error(b->report, n->at,
			     "`external_id`, `session_name` and `token_url` need "
			     "`assume_role`");
	if (a->user.length > 0 && a->prefix.length > 0)
		report_error(b->report, n->at, "`user` (Basic) leaves no `prefix`");
	if (a->env.length > 0 && a->placeholder.length == 0)
		report_error(b->report, n->at, "`env` needs `placeholder`");
}

static struct str
text_of(const struct build *b, struct image_ref r)
{
	const char *strings = b->draft->table[IMAGE_STRINGS].p;

	return r.length == 0 ? STR("") : str_of(strings + r.offset, r.length);
}

static bool
holds(struct str s, struct str part)
{
	return s.n > 0 && memmem(s.p, s.n, part.p, part.n) != NULL;
}

static void
check_hmac(struct build *b, struct auth_context *c)
{
	struct image_auth *a = c->auth;

	if (a->message.length == 0)
		a->message = draft_str(b->draft, STR("{body}"));
	bool is_dated = holds(text_of(b, a->message), STR("{timestamp}"));
	if (is_dated != (a->timestamp.length > 0))
		report_error(b->report, c->node->at,
			     "{timestamp} in `message` and `timestamp`, the field that "
			     "it is sent in, belong together");
}

static void
check_path(struct build *b, const struct auth_context *c)
{
	struct str prefix = text_of(b, c->auth->prefix);
	bool ok = str_starts(prefix, STR("/")) && !str_has(prefix, '?') &&
		  !str_has(prefix, '#') && !str_has(prefix, '%') &&
		  !str_has(prefix, ' ') && !str_has(prefix, '*');

	if (prefix.n > 0 && !ok)
		report_error(b->report, c->node->at,
			     "auth kind path: `prefix` is how the path begins, like "
			     "/bot");
}

/* Amazon's own endpoint of the region, unless another is written. */
static void
add_sts(struct build *b, struct image_auth *a)
{
	CLEANUP(buf_done) struct buf url = { 0 };
	struct str s;

	if (a->assume_role.length == 0 || a->token_url.length > 0)
		return;
	buf_init(&url, 256);
	buf_put(&url, STR("https://sts."));
	buf_put(&url, text_of(b, a->region));
	buf_put(&url, STR(".amazonaws.com/"));
	if (buf_finish(&url, &s) != ST_OK)
		return; /* a region has at most 64 bytes */
	a->token_url = draft_str(b->draft, s);
	a->token_host = draft_str(b->draft, str_head(str_skip(s, 8), s.n - 9));
	a->token_port = 443;
}

static void
check_whole(struct build *b, struct auth_context *c)
{
	struct image_auth *a = c->auth;
	const struct node *name = node_get(c->node, STR("name"));

	check_keys(b, c);
	check_algorithm(b, c);
	check_pairs(b, c);
	if (name != NULL)
		read_name(b, name, a);
	if (a->kind == AUTH_HMAC)
		check_hmac(b, c);
	if (a->kind == AUTH_PATH)
		check_path(b, c);
	if (a->kind == AUTH_SIGV4)
		add_sts(b, a);
	a->is_delegated = auth_has_user(text_of(b, a->secret));
}

void
build_auth(struct build *b, const struct node *n, struct image_auth *a)
{
	struct auth_context c = { .auth = a, .node = n };

	build_fields(b, n, fields, COUNT_OF(fields), &c);
	if (n->kind != NODE_MAP)
		return;
	if (node_get(n, STR("kind")) == NULL)
		report_error(b->report, n->at, "`kind` is missing: one of %.*s",
			     STR_ARG(auth_kind_words()));
	else if (c.has_kind)
		check_whole(b, &c);
}

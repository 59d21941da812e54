/*
 * Sources of secrets, `vault.sources`: each becomes a connector of its own group, which
 * reads it and does nothing else.  Its hosts are none, so no sandbox can name it.
 */
#include "conf/auth_text.h"
#include "conf/build_system.h"
#include "conf/value.h"

enum {
	PATH_MAX_OF_STORE = 512,
	REFRESH_MS = 60000,
	KEEP_MS = 300000,
	DAY_MS = 86400000,
};

struct store_context {
	struct build_system system; /* stays the first member */
	struct image_store image;
	struct image_ref mount;
	bool has_login;
	const struct node *role;
	struct image_store_item *item; /* at hand */
};

/* Texts. */

static bool
is_segment(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!ascii_is_alpha(s.p[i]) && !ascii_is_digit(s.p[i]) &&
		    !str_has(STR("-._~@:+=,"), s.p[i]))
			return false;
	return s.n > 0 && !str_eq(s, STR(".")) && !str_eq(s, STR(".."));
}

/* What may stand in a target as it is. */
static bool
is_path(struct str s)
{
	if (s.n == 0 || s.n > PATH_MAX_OF_STORE)
		return false;
	while (s.p != NULL)
		if (!is_segment(str_cut(&s, '/')))
			return false;
	return true;
}

static void
read_path(struct build *b, const struct node *n, struct image_ref *ret_ref)
{
	struct str s;

	if (!value_text(b->report, n, &s))
		return;
	if (is_path(s))
		*ret_ref = draft_str(b->draft, s);
	else
		report_error(b->report, n->at,
			     "`%.*s` is not a path: letters, digits and -._~@:+=, "
			     "between single slashes",
			     STR_ARG(s));
}

static void
read_printable(struct build *b, const struct node *n, struct image_ref *ret_ref)
{
	struct str s;

	if (!value_text(b->report, n, &s))
		return;
	if (auth_is_printable(s) && s.n <= PATH_MAX_OF_STORE)
		*ret_ref = draft_str(b->draft, s);
	else
		report_error(b->report, n->at, "`%.*s` is not printable ASCII",
			     STR_ARG(s));
}

/* Where it is. */

static void
on_url(struct build *b, const struct node *n, void *ctx)
{
	struct image_connector *k =
		&((struct store_context *)ctx)->system.source->image;

	build_system_url(b, n, ctx);
	if (k->upstream_is_plain)
		report_error(b->report, n->at,
			     "secrets never travel in plain text; write https://");
}

static void
on_tenant(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	if (value_name(b->report, n, &s))
		((struct store_context *)ctx)->system.source->image.tenant =
			draft_str(b->draft, s);
}

static void
on_namespace(struct build *b, const struct node *n, void *ctx)
{
	read_path(b, n, &((struct store_context *)ctx)->image.space);
}

static void
on_mount(struct build *b, const struct node *n, void *ctx)
{
	read_path(b, n, &((struct store_context *)ctx)->mount);
}

static void
on_refresh(struct build *b, const struct node *n, void *ctx)
{
	(void)value_duration(b->report, n, 1000, DAY_MS,
			     &((struct store_context *)ctx)->image.refresh_ms);
}

static void
on_keep(struct build *b, const struct node *n, void *ctx)
{
	(void)value_duration(b->report, n, 1000, (uint64_t)7 * DAY_MS,
			     &((struct store_context *)ctx)->image.keep_ms);
}

/* How it is logged in to. */

static void
on_login_kind(struct build *b, const struct node *n, void *ctx)
{
	uint64_t which;

	if (value_choice(b->report, n, STR("token|approle|kubernetes"), &which))
		((struct store_context *)ctx)->image.login = (uint8_t)which;
}

static void
on_login_mount(struct build *b, const struct node *n, void *ctx)
{
	read_path(b, n, &((struct store_context *)ctx)->image.login_mount);
}

static void
on_role(struct build *b, const struct node *n, void *ctx)
{
	struct store_context *c = ctx;

	c->role = n;
	read_printable(b, n, &c->image.role);
}

static const struct build_field login_fields[] = {
	{ "kind", on_login_kind },
	{ "secret", build_system_secret },
	{ "mount", on_login_mount },
	{ "role", on_role },
};

static void
on_auth(struct build *b, const struct node *n, void *ctx)
{
	static const char *const mounts[STORE_LOGINS] = { "token", "approle",
							  "kubernetes" };
	struct store_context *c = ctx;

	c->has_login = true;
	build_fields(b, n, login_fields, COUNT_OF(login_fields), c);
	if (n->kind != NODE_MAP)
		return;
	bool needs_role = c->image.login != STORE_TOKEN;
	if (node_get(n, STR("kind")) == NULL)
		report_error(b->report, n->at,
			     "`kind` is missing: one of token|approle|kubernetes");
	else if (needs_role != (c->role != NULL))
		report_error(b->report, n->at, "auth kind %s %s",
			     mounts[c->image.login],
			     needs_role ? "needs `role`" : "has no use for `role`");
	if (node_get(n, STR("secret")) == NULL)
		report_error(b->report, n->at,
			     "`secret` is missing: the name in the vault of what it "
			     "logs in with");
	if (c->image.login_mount.length == 0)
		c->image.login_mount =
			draft_str(b->draft, str_from(mounts[c->image.login]));
}

/* What is read. */

static void
on_item_path(struct build *b, const struct node *n, void *ctx)
{
	read_path(b, n, &((struct store_context *)ctx)->item->path);
}

static void
on_item_mount(struct build *b, const struct node *n, void *ctx)
{
	read_path(b, n, &((struct store_context *)ctx)->item->mount);
}

static void
on_item_field(struct build *b, const struct node *n, void *ctx)
{
	read_printable(b, n, &((struct store_context *)ctx)->item->field);
}

static void
on_item_version(struct build *b, const struct node *n, void *ctx)
{
	uint64_t v = 0;

	(void)value_number(b->report, n, 1, UINT32_MAX, &v);
	((struct store_context *)ctx)->item->version = (uint32_t)v;
}

static const struct build_field item_fields[] = {
	{ "path", on_item_path },
	{ "mount", on_item_mount },
	{ "field", on_item_field },
	{ "version", on_item_version },
};

/* NAME/KEY; the key may have several parts. */
static bool
item_name(struct build *b, const struct store_context *c, const struct node *n,
	  struct image_ref *ret_ref)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	struct str s = STR("");

	buf_init(&text, 512);
	buf_put(&text, c->system.source->name);
	buf_putc(&text, '/');
	buf_put(&text, n->key);
	if (buf_finish(&text, &s) == ST_OK && auth_is_shared_secret(s)) {
		*ret_ref = draft_str(b->draft, s);
		return true;
	}
	report_error(b->report, n->key_at,
		     "`%.*s` is not the name of a secret: letters, digits, `-`, `_`, "
		     "`.` and `/`, 200 bytes at most with the source's",
		     STR_ARG(n->key));
	return false;
}

static void
on_secret(struct build *b, struct store_context *c, const struct node *n)
{
	struct image_store_item item = { .mount = c->mount,
					 .store = draft_count(b->draft, IMAGE_STORES) };

	c->item = &item;
	build_fields(b, n, item_fields, COUNT_OF(item_fields), c);
	if (n->kind != NODE_MAP || !item_name(b, c, n, &item.name))
		return;
	if (node_get(n, STR("path")) == NULL || node_get(n, STR("field")) == NULL)
		report_error(b->report, n->at, "a secret needs `path` and `field`");
	if (draft_count(b->draft, IMAGE_STORE_ITEMS) ==
	    image_record_max(IMAGE_STORE_ITEMS)) {
		report_error(b->report, n->key_at,
			     "more than %zu secrets in `vault.sources`",
			     image_record_max(IMAGE_STORE_ITEMS));
		return;
	}
	(void)draft_add(b->draft, IMAGE_STORE_ITEMS, &item);
	c->image.items_n++;
}

static void
read_secrets(struct build *b, struct store_context *c)
{
	const struct node *whole = c->system.source->node;
	const struct node *n = node_get(whole, STR("secrets"));

	c->image.items = draft_count(b->draft, IMAGE_STORE_ITEMS);
	if (n == NULL || (n->kind == NODE_MAP && n->n == 0))
		report_error(b->report, n == NULL ? whole->at : n->at,
			     "a source must name the `secrets` that are read there");
	else if (build_is_kind(b, n, NODE_MAP))
		for (const struct node *one = n->first; one != NULL; one = one->next)
			on_secret(b, c, one);
}

/* All of it. */

static const struct build_field fields[] = {
	{ "name", NULL },    /* read when it was gathered */
	{ "secrets", NULL }, /* after the rest */
	{ "url", on_url },       { "addresses", build_system_addresses },
	{ "tenant", on_tenant }, { "namespace", on_namespace },
	{ "mount", on_mount },   { "refresh", on_refresh },
	{ "keep", on_keep },     { "auth", on_auth },
};

static void
check_whole(struct build *b, const struct store_context *c)
{
	struct place at = c->system.source->node->at;
	struct str name = c->system.source->name;

	if (!c->has_login)
		report_error(b->report, at, "a source must say its `auth`");
	if (str_eq(name, STR("files")) || str_eq(name, STR("env")))
		report_error(b->report, at,
			     "a source can't be called `%.*s`: `files` and `env` are "
			     "taken",
			     STR_ARG(name));
	if (c->image.keep_ms < c->image.refresh_ms)
		report_error(b->report, at,
			     "`keep` is below `refresh`: secrets would be missing "
			     "between two reads");
}

void
build_store(struct build *b, struct connector_source *s)
{
	struct store_context c = {
		.system = { .source = s },
		.mount = draft_str(b->draft, STR("secret")),
		.image = { .connector = s->index,
			   .refresh_ms = REFRESH_MS,
			   .keep_ms = KEEP_MS },
	};

	build_system_begin(b, &c.system);
	s->image.auth.kind = AUTH_PASSTHROUGH;
	c.image.name = s->image.name;
	build_fields(b, s->node, fields, COUNT_OF(fields), &c);
	build_system_end(b, &c.system);
	read_secrets(b, &c);
	check_whole(b, &c);
	(void)draft_add(b->draft, IMAGE_STORES, &c.image);
}

void
build_stores_gather(struct build *b, const struct node *n, void *ctx)
{
	(void)ctx;
	build_systems_gather(b, n, USE_STORE, image_record_max(IMAGE_STORES));
}

/* What others make of it. */

static struct str
text_of(const struct build *b, struct image_ref r)
{
	const char *strings = b->draft->table[IMAGE_STRINGS].p;

	return r.length == 0 ? STR("") : str_of(strings + r.offset, r.length);
}

static bool
is_read(const struct build *b, struct str secret)
{
	const struct image_store_item *of = draft_table(b->draft, IMAGE_STORE_ITEMS);
	uint32_t n = draft_count(b->draft, IMAGE_STORE_ITEMS);

	for (uint32_t i = 0; i < n; i++)
		if (str_eq(text_of(b, of[i].name), secret))
			return true;
	return false;
}

static void
check_secret(struct build *b, const struct connector_source *s, struct image_ref ref)
{
	struct str secret = text_of(b, ref), rest = secret;
	struct str first = str_cut(&rest, '/');
	const struct connector_source *store =
		rest.p == NULL ? NULL : map_get(&b->connector_index, first);

	if (store == NULL || store->use != USE_STORE)
		return;
	if (s->use == USE_STORE)
		report_error(b->report, s->node->at,
			     "what a source logs in with can't come from a source: "
			     "`%.*s`",
			     STR_ARG(secret));
	else if (!str_eq(text_of(b, s->image.tenant), text_of(b, store->image.tenant)))
		report_error(b->report, s->node->at,
			     "secret `%.*s` comes from a source of another tenant",
			     STR_ARG(secret));
	else if (!auth_has_user(secret) && !is_read(b, secret))
		report_error(b->report, s->node->at,
			     "source `%.*s` has no secret `%.*s` under `secrets`",
			     STR_ARG(first), STR_ARG(rest));
}

void
build_stores_check(struct build *b)
{
	if (draft_count(b->draft, IMAGE_STORES) == 0)
		return;
	for (const struct connector_source *s = b->connectors; s != NULL; s = s->next) {
		const struct image_auth *a = &s->image.auth;
		check_secret(b, s, a->secret);
		check_secret(b, s, a->client_secret);
		check_secret(b, s, a->session_token);
		check_secret(b, s, a->certificate);
	}
}

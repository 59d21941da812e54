/* listeners: where sandboxes come in. */
#include "conf/build.h"
#include "conf/value.h"

struct listener {
	struct image_listener image;
	const struct node *tls, *plain, *sandbox, *token; /* NULL: none */
	bool has_kind, has_address, is_plain_meant;
};

static void
on_name(struct build *b, const struct node *n, void *ctx)
{
	struct listener *l = ctx;
	struct str s;

	if (!value_name(b->report, n, &s))
		return;
	l->image.name = draft_str(b->draft, s);
	const struct image_listener *all = draft_table(b->draft, IMAGE_LISTENERS);
	for (uint32_t i = 0; i < draft_count(b->draft, IMAGE_LISTENERS); i++)
		if (all[i].name.offset == l->image.name.offset)
			report_error(b->report, n->at,
				     "another listener is called `%.*s`", STR_ARG(s));
}

static void
on_kind(struct build *b, const struct node *n, void *ctx)
{
	struct listener *l = ctx;
	uint64_t kind;

	l->has_kind = true;
	if (!value_choice(b->report, n, STR("transparent|proxy|dns|opensandbox"),
			  &kind))
		return;
	l->image.kind = (uint8_t)kind;
}

static void
on_address(struct build *b, const struct node *n, void *ctx)
{
	struct listener *l = ctx;

	l->has_address = true;
	(void)value_addr_port(b->report, n, 0, &l->image.addr, &l->image.port);
}

static void
on_tproxy(struct build *b, const struct node *n, void *ctx)
{
	struct listener *l = ctx;
	bool flag;

	if (value_flag(b->report, n, &flag))
		l->image.tproxy = flag;
}

static void
on_tls(struct build *b, const struct node *n, void *ctx)
{
	struct listener *l = ctx;

	(void)b;
	l->tls = n;
}

static void
on_plain(struct build *b, const struct node *n, void *ctx)
{
	struct listener *l = ctx;

	l->plain = n;
	(void)value_flag(b->report, n, &l->is_plain_meant);
}

static void
on_sandbox(struct build *b, const struct node *n, void *ctx)
{
	struct listener *l = ctx;
	struct str s;

	l->sandbox = n;
	if (value_name(b->report, n, &s))
		l->image.sandbox = draft_str(b->draft, s);
}

static void
on_token(struct build *b, const struct node *n, void *ctx)
{
	struct listener *l = ctx;

	l->token = n;
	(void)value_sha256(b->report, n, l->image.token_hash);
}

static const struct build_field fields[] = {
	{ "name", on_name },       { "kind", on_kind },
	{ "address", on_address }, { "tproxy", on_tproxy },
	{ "tls", on_tls },         { "plain", on_plain },
	{ "sandbox", on_sandbox }, { "token_sha256", on_token },
};

/* One socket per address: DNS takes the port for UDP and TCP. */
static void
check_twin(struct build *b, const struct node *n, const struct image_listener *l)
{
	const struct image_listener *all = draft_table(b->draft, IMAGE_LISTENERS);

	for (uint32_t i = 0; i < draft_count(b->draft, IMAGE_LISTENERS); i++)
		if (l->port != 0 && all[i].port == l->port &&
		    addr_eq(&all[i].addr, &l->addr))
			report_error(b->report, n->at,
				     "another listener has this address");
}

/* What a transparent listener gets is the sandbox's own TLS with a host. */
static void
check_tls(struct build *b, struct listener *l)
{
	bool fits = l->image.kind == LISTENER_PROXY ||
		    l->image.kind == LISTENER_OPENSANDBOX;

	if (l->tls == NULL || !l->has_kind)
		return;
	if (fits)
		build_listener_tls(b, l->tls, &l->image);
	else
		report_error(b->report, l->tls->key_at,
			     "tls is for proxy and opensandbox listeners");
}

/* The egress API of one sandbox, and who may ask there: one without the other is nothing. */
static void
check_sandbox(struct build *b, const struct node *n, const struct listener *l,
	      bool is_exec)
{
	const struct node *any = l->sandbox != NULL ? l->sandbox : l->token;

	if (any != NULL && !is_exec)
		report_error(b->report, any->key_at,
			     "sandbox and token_sha256 are for opensandbox listeners");
	else if ((l->sandbox == NULL) != (l->token == NULL))
		report_error(b->report, n->at,
			     "`sandbox` and `token_sha256` belong together: whose "
			     "egress API it is, and who may ask there");
}

/* Callers send keys there that may run anything in a sandbox of theirs. */
static void
check_exec(struct build *b, const struct node *n, const struct listener *l)
{
	bool is_exec = l->image.kind == LISTENER_OPENSANDBOX;

	if (l->plain != NULL && !is_exec)
		report_error(b->report, l->plain->key_at,
			     "plain is for opensandbox listeners");
	check_sandbox(b, n, l, is_exec);
	if (!is_exec)
		return;
	if (b->exec_listener == NULL && l->sandbox == NULL)
		b->exec_listener = n;
	if (l->has_address && l->image.addr.family != 0 && l->tls == NULL &&
	    !l->is_plain_meant && addr_classify(&l->image.addr) != ADDR_LOOPBACK)
		report_error(b->report, n->at,
			     "keys of callers would travel readable; give the listener "
			     "`tls`, an address on loopback, or `plain: true` if "
			     "nobody listens on that network");
}

static void
on_listener(struct build *b, const struct node *n, void *ctx)
{
	struct listener l = { 0 };

	(void)ctx;
	build_fields(b, n, fields, COUNT_OF(fields), &l);
	if (n->kind != NODE_MAP)
		return;
	if (!l.has_kind)
		report_error(b->report, n->at,
			     "`kind` is missing: transparent, proxy, dns or "
			     "opensandbox");
	if (!l.has_address)
		report_error(b->report, n->at, "`address` is missing");
	if (node_get(n, STR("name")) == NULL)
		report_error(b->report, n->at, "`name` is missing");
	if (l.image.tproxy && l.image.kind != LISTENER_TRANSPARENT)
		report_error(b->report, n->at, "tproxy is for transparent listeners");
	check_tls(b, &l);
	check_exec(b, n, &l);
	check_twin(b, n, &l.image);
	(void)draft_add(b->draft, IMAGE_LISTENERS, &l.image);
}

void
build_listeners(struct build *b, const struct node *n, void *ctx)
{
	(void)ctx;
	if (build_is_kind(b, n, NODE_LIST))
		build_items(b, n, on_listener, NULL);
	if (n->n > image_record_max(IMAGE_LISTENERS))
		report_error(b->report, n->at, "more than %zu listeners",
			     image_record_max(IMAGE_LISTENERS));
}

/* sandboxes: who there is, and by what each is known. */
#include <string.h>

#include "conf/auth_text.h"
#include "conf/build_connector.h"
#include "conf/policy.h"
#include "conf/value.h"

enum { SOURCES_MAX = 8 }; /* of one sandbox */

struct sandbox {
	struct image_sandbox image;
	struct image_limits limits;
	bool has_limits;
};

static void
remember(struct build *b, struct map *seen, struct str key, const struct node *n,
	 const char *what)
{
	union {
		const struct node *in;
		void *out;
	} value = { .in = n };
	const struct node *before = map_get(seen, key);

	if (before != NULL)
		report_error(b->report, n->at,
			     "another sandbox has this %s, in line %u", what,
			     before->at.line);
	else if (map_put(seen, key, value.out) != ST_OK)
		report_error(b->report, n->at, "too many sandboxes");
}

static void
on_id(struct build *b, const struct node *n, void *ctx)
{
	struct sandbox *s = ctx;
	struct str id;

	if (!value_name(b->report, n, &id))
		return;
	s->image.id = draft_str(b->draft, id);
	remember(b, &b->ids, id, n, "id");
}

static bool
has_source(struct build *b, const struct sandbox *s, const struct addr *a)
{
	const struct addr *all = draft_table(b->draft, IMAGE_ADDRS);

	for (uint32_t i = s->image.sources; i < draft_count(b->draft, IMAGE_ADDRS); i++)
		if (addr_eq(&all[i], a))
			return true;
	return false;
}

static void
on_address(struct build *b, const struct node *n, void *ctx)
{
	struct sandbox *s = ctx;
	struct addr a = { 0 };

	if (!value_addr(b->report, n, &a))
		return;
	a = addr_unwrap(&a);
	if (has_source(b, s, &a)) {
		report_error(b->report, n->at, "this sandbox has this source twice");
		return;
	}
	remember(b, &b->sources, str_of(&a, sizeof a), n, "source");
	(void)draft_add(b->draft, IMAGE_ADDRS, &a);
	s->image.sources_n++;
}

static void
on_source(struct build *b, const struct node *n, void *ctx)
{
	struct sandbox *s = ctx;

	s->image.sources = draft_count(b->draft, IMAGE_ADDRS);
	if (n->kind == NODE_LIST && (n->n == 0 || n->n > SOURCES_MAX))
		report_error(b->report, n->at, "%zu addresses; 1 to %d may stand here",
			     n->n, SOURCES_MAX);
	else
		build_items(b, n, on_address, s);
}

static void
on_token_sha256(struct build *b, const struct node *n, void *ctx)
{
	struct sandbox *s = ctx;
	static const uint8_t none[32];

	if (value_sha256(b->report, n, s->image.token_hash) &&
	    memcmp(s->image.token_hash, none, sizeof none) == 0)
		report_error(b->report, n->at,
			     "all zero is not the SHA-256 of a token");
}

/* Whoever compares a token is told digests of what lies in the vault, and of nothing else. */
static bool
is_kept_elsewhere(const struct build *b, struct str secret)
{
	struct str rest = secret, first = str_cut(&rest, '/');
	const struct connector_source *of =
		rest.p == NULL ? NULL : map_get(&b->connector_index, first);

	return str_starts(secret, STR("files/")) || str_starts(secret, STR("env/")) ||
	       (of != NULL && of->use == USE_STORE);
}

static void
on_token(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	if (!value_text(b->report, n, &s))
		return;
	if (!auth_is_shared_secret(s))
		report_error(b->report, n->at,
			     "`token` is a name in the vault, not the token itself");
	else if (is_kept_elsewhere(b, s))
		report_error(b->report, n->at,
			     "`%.*s` is not kept in the vault: put the token there, or "
			     "its SHA-256 under `token_sha256`",
			     STR_ARG(s));
	else
		((struct sandbox *)ctx)->image.token = draft_str(b->draft, s);
}

static struct image_ref
name_of(struct build *b, const struct node *n)
{
	struct str s;

	return value_text(b->report, n, &s) ? draft_str(b->draft, s)
					    : (struct image_ref){ 0, 0 };
}

static void
on_user(struct build *b, const struct node *n, void *ctx)
{
	((struct sandbox *)ctx)->image.user = name_of(b, n);
}

static void
on_agent(struct build *b, const struct node *n, void *ctx)
{
	((struct sandbox *)ctx)->image.agent = name_of(b, n);
}

static void
on_session(struct build *b, const struct node *n, void *ctx)
{
	((struct sandbox *)ctx)->image.session = name_of(b, n);
}

static void
on_tenant(struct build *b, const struct node *n, void *ctx)
{
	((struct sandbox *)ctx)->image.tenant = name_of(b, n);
}

void
build_no_policy(struct build *b, struct place at, struct str name)
{
	CLEANUP(buf_done) struct buf words = { 0 };
	struct str view = STR("");

	buf_init(&words, 1 << 20);
	for (const struct policy_source *p = b->policies; p != NULL; p = p->next) {
		buf_put(&words, p->name);
		buf_putc(&words, '|');
	}
	if (buf_finish(&words, &view) != ST_OK)
		view = STR("");
	struct str near = report_nearest(name, view);
	if (near.p != NULL)
		report_error(b->report, at, "no policy `%.*s`; did you mean %.*s?",
			     STR_ARG(name), STR_ARG(near));
	else
		report_error(b->report, at, "no policy `%.*s`", STR_ARG(name));
}

static void
on_policy(struct build *b, const struct node *n, void *ctx)
{
	struct sandbox *s = ctx;
	struct str name;

	if (!value_text(b->report, n, &name))
		return;
	uintptr_t index = (uintptr_t)map_get(&b->policy_index, name);
	if (index == 0)
		build_no_policy(b, n->at, n->text);
	else
		s->image.policy = (uint32_t)(index - 1);
}

static void
on_trusts_ca(struct build *b, const struct node *n, void *ctx)
{
	struct sandbox *s = ctx;
	bool flag;

	if (value_flag(b->report, n, &flag))
		s->image.trusts_ca = flag;
}

/* An override of one limit, within the bounds of its option. */
static uint64_t
limit(struct build *b, const struct node *n, enum option opt)
{
	const struct option_row *row = option_row(opt);
	uint64_t v = build_number(b, opt);

	/* On failure, which is reported, the default stays. */
	if (row->type == OPTION_SIZE)
		value_size(b->report, n, row->least, row->most, &v);
	else
		value_number(b->report, n, row->least, row->most, &v);
	return v;
}

static void
on_connections(struct build *b, const struct node *n, void *ctx)
{
	((struct sandbox *)ctx)->limits.connections =
		(uint32_t)limit(b, n, OPT_LIMIT_CONNECTIONS);
}

static void
on_connection_rate(struct build *b, const struct node *n, void *ctx)
{
	((struct sandbox *)ctx)->limits.connections_per_second =
		(uint32_t)limit(b, n, OPT_LIMIT_CONNECTION_RATE);
}

static void
on_connection_burst(struct build *b, const struct node *n, void *ctx)
{
	((struct sandbox *)ctx)->limits.connections_burst =
		(uint32_t)limit(b, n, OPT_LIMIT_CONNECTION_BURST);
}

static void
on_request_rate(struct build *b, const struct node *n, void *ctx)
{
	((struct sandbox *)ctx)->limits.requests_per_second =
		(uint32_t)limit(b, n, OPT_LIMIT_REQUEST_RATE);
}

static void
on_request_burst(struct build *b, const struct node *n, void *ctx)
{
	((struct sandbox *)ctx)->limits.requests_burst =
		(uint32_t)limit(b, n, OPT_LIMIT_REQUEST_BURST);
}

static void
on_bytes(struct build *b, const struct node *n, void *ctx)
{
	((struct sandbox *)ctx)->limits.bytes = limit(b, n, OPT_LIMIT_BYTES);
}

static const struct build_field limit_fields[] = {
	{ "connections", on_connections },
	{ "connections_per_second", on_connection_rate },
	{ "connections_burst", on_connection_burst },
	{ "requests_per_second", on_request_rate },
	{ "requests_burst", on_request_burst },
	{ "bytes", on_bytes },
};

static void
on_limits(struct build *b, const struct node *n, void *ctx)
{
	struct sandbox *s = ctx;

	s->has_limits = true;
	build_fields(b, n, limit_fields, COUNT_OF(limit_fields), s);
}

static const struct build_field fields[] = {
	{ "id", on_id },
	{ "source", on_source },
	{ "token_sha256", on_token_sha256 },
	{ "token", on_token },
	{ "user", on_user },
	{ "agent", on_agent },
	{ "session", on_session },
	{ "tenant", on_tenant },
	{ "policy", on_policy },
	{ "trusts_ca", on_trusts_ca },
	{ "limits", on_limits },
};

static void
warn_no_user(struct build *b, const struct node *n, const struct sandbox *s)
{
	if (s->image.policy == POLICY_NONE || s->image.user.length > 0)
		return;
	struct str connector = b->policy_wants_user[s->image.policy];
	if (connector.n > 0)
		report_warning(b->report, n->at,
			       "no `user`: connector `%.*s` of its policy has a secret "
			       "for each user and will give none",
			       STR_ARG(connector));
}

static void
on_sandbox(struct build *b, const struct node *n, void *ctx)
{
	const struct image_limits *defaults = draft_table(b->draft, IMAGE_LIMITS);
	struct sandbox s = { .image = { .policy = POLICY_NONE }, .limits = *defaults };

	(void)ctx;
	build_fields(b, n, fields, COUNT_OF(fields), &s);
	if (n->kind != NODE_MAP)
		return;
	if (node_get(n, STR("id")) == NULL)
		report_error(b->report, n->at, "`id` is missing");
	if (node_get(n, STR("token")) != NULL &&
	    node_get(n, STR("token_sha256")) != NULL)
		report_error(b->report, n->at,
			     "`token` and `token_sha256`: one of them is enough");
	if (node_get(n, STR("policy")) == NULL)
		report_warning(b->report, n->at,
			       "no `policy`: nothing is allowed here");
	warn_no_user(b, n, &s);
	if (s.has_limits)
		s.image.limits = draft_add(b->draft, IMAGE_LIMITS, &s.limits);
	(void)draft_add(b->draft, IMAGE_SANDBOXES, &s.image);
}

void
build_sandboxes(struct build *b, const struct node *n, void *ctx)
{
	(void)ctx;
	if (build_is_kind(b, n, NODE_LIST))
		build_items(b, n, on_sandbox, NULL);
}

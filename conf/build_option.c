/* The rows of options.def: single values at the top and in groups ("limits:"). */
#include "conf/build.h"
#include "conf/value.h"
#include "proxy/http/dest.h"

static struct image_option *
slot(struct build *b, enum option opt)
{
	return (struct image_option *)draft_table(b->draft, IMAGE_OPTIONS) + opt;
}

void
build_options_default(struct build *b)
{
	for (size_t i = 0; i < OPT_COUNT; i++) {
		enum option opt = (enum option)i;
		const struct option_row *row = option_row(opt);
		bool is_text = row->type == OPTION_TEXT;
		struct image_option o = {
			.number = option_default_number(opt),
			.text = draft_str(b->draft,
					  is_text ? str_from(row->fallback) : STR("")),
		};
		(void)draft_add(b->draft, IMAGE_OPTIONS, &o);
	}
}

uint64_t
build_number(struct build *b, enum option opt)
{
	return slot(b, opt)->number;
}

static bool
parse_text(struct build *b, const struct node *n, const struct option_row *row,
	   struct str *ret_s)
{
	struct str s;

	if (n->kind == NODE_SCALAR && n->text.n == 0 && n->is_quoted &&
	    row->least == 0) {
		*ret_s = n->text;
		return true;
	}
	if (!value_text(b->report, n, &s))
		return false;
	if (s.n > row->most) {
		report_error(b->report, n->at, "longer than %llu bytes",
			     (unsigned long long)row->most);
		return false;
	}
	*ret_s = s;
	return true;
}

static bool
parse(struct build *b, const struct node *n, const struct option_row *row,
      uint64_t *ret_v)
{
	struct report *r = b->report;
	bool flag = false, ok = false;

	switch (row->type) {
	case OPTION_NUMBER:
		return value_number(r, n, row->least, row->most, ret_v);
	case OPTION_DURATION:
		return value_duration(r, n, row->least, row->most, ret_v);
	case OPTION_SIZE:
		return value_size(r, n, row->least, row->most, ret_v);
	case OPTION_CHOICE:
		return value_choice(r, n, str_from(row->unit), ret_v);
	case OPTION_FLAG:
		ok = value_flag(r, n, &flag);
		*ret_v = flag;
		return ok;
	case OPTION_TEXT:
		break;
	}
	return false;
}

/* Operators come by a socket that only they can open, or over loopback with a token. */
static void
check_admin(struct build *b, const struct node *n)
{
	struct addr a = { 0 };
	uint16_t port;

	if (str_starts(n->text, STR("unix:"))) {
		if (n->text.n == STR("unix:").n)
			report_error(b->report, n->at,
				     "a path is missing behind unix:");
		return;
	}
	if (value_addr_port(b->report, n, 0, &a, &port) &&
	    addr_classify(&a) != ADDR_LOOPBACK)
		report_error(b->report, n->at, "the admin address must be on loopback");
}

/* Names that only mean something to people are still checked here, where file:line is
 * known, and not in the role that would fail later. */
static void
check_text(struct build *b, const struct node *n, enum option opt)
{
	struct dest d;
	uint8_t hash[32];

	if (opt == OPT_UPSTREAM_PROXY && n->text.n > 0 &&
	    dest_from_authority(n->text, 0, &d) != ST_OK)
		report_error(b->report, n->at, "`%.*s` is not HOST:PORT",
			     STR_ARG(n->text));
	if ((opt == OPT_EXEC_DOCKER || opt == OPT_STATE_DIR) && n->text.n > 0 &&
	    n->text.p[0] != '/')
		report_error(b->report, n->at, "`%.*s` is no absolute path",
			     STR_ARG(n->text));
	if (opt == OPT_ADMIN_ADDRESS)
		check_admin(b, n);
	if (opt == OPT_ADMIN_TOKEN_SHA256 && n->text.n > 0)
		(void)value_sha256(b->report, n, hash);
}

bool
build_option(struct build *b, const struct node *n, struct str key)
{
	enum option opt = option_by_key(key);
	uint64_t v = 0;
	struct str s;

	if (opt == OPT_COUNT)
		return false;
	const struct option_row *row = option_row(opt);
	b->option_nodes[opt] = n;
	if (row->type == OPTION_TEXT) {
		if (parse_text(b, n, row, &s)) {
			slot(b, opt)->text = draft_str(b->draft, s);
			check_text(b, n, opt);
		}
	} else if (n->kind == NODE_SCALAR && str_eq(n->text, str_from(row->fallback))) {
		slot(b, opt)->number = option_default_number(opt); /* "auto" */
	} else if (parse(b, n, row, &v)) {
		slot(b, opt)->number = v;
	}
	return true;
}

static void
put_key(struct buf *key, struct str group, struct str name)
{
	buf_put(key, group);
	buf_putc(key, '.');
	buf_put(key, name);
}

/* Keys of a group that are no single values: read by the functions named here, or after
 * all that they name. */
static const struct build_field lists[] = {
	{ "admin.roles", build_admin_roles },
	{ "resolver.servers", build_resolver },
	{ "resolver.hosts", build_resolver },
	{ "upstream_proxy.no_proxy", build_upstream_proxy },
	{ "vault.sources", build_stores_gather },
	{ "risk.rules", build_risks },
	{ "exec.images", NULL },
	{ "exec.volumes", NULL },
	{ "exec.labels", NULL },
	{ "exec.env_deny", NULL },
	{ "exec.login_ports", NULL },
	{ "exec.approval_webhook", NULL },
	{ "exec.policy", NULL },
	{ "exec.placement", NULL },
	{ "exec.warm", NULL },
	{ "exec.jwt", NULL },
};

static const struct build_field *
list_of(struct str key)
{
	for (size_t i = 0; i < COUNT_OF(lists); i++)
		if (str_eq(key, str_from(lists[i].key)))
			return &lists[i];
	return NULL;
}

static void
add_word(struct buf *words, struct str group, struct str key)
{
	if (!str_starts(key, group) || key.n <= group.n || key.p[group.n] != '.')
		return;
	buf_put(words, str_skip(key, group.n + 1));
	buf_putc(words, '|');
}

static void
say_unknown(struct build *b, const struct node *n, struct str group)
{
	CLEANUP(buf_done) struct buf words = { 0 };
	struct str view = STR("");

	buf_init(&words, 8192);
	for (size_t i = 0; i < OPT_COUNT; i++)
		add_word(&words, group, str_from(option_row((enum option)i)->key));
	for (size_t i = 0; i < COUNT_OF(lists); i++)
		add_word(&words, group, str_from(lists[i].key));
	if (buf_finish(&words, &view) != ST_OK)
		view = STR("");
	build_unknown(b, n, view);
}

void
build_options_group(struct build *b, const struct node *group, void *ctx)
{
	(void)ctx;
	if (!build_is_kind(b, group, NODE_MAP))
		return;
	for (const struct node *n = group->first; n != NULL; n = n->next) {
		CLEANUP(buf_done) struct buf key = { 0 };
		struct str view = STR("");

		buf_init(&key, 512);
		put_key(&key, group->key, n->key);
		if (buf_finish(&key, &view) != ST_OK)
			view = STR("");
		const struct build_field *list = list_of(view);
		if (list != NULL && list->fn != NULL)
			list->fn(b, n, NULL);
		else if (list == NULL && !build_option(b, n, view))
			say_unknown(b, n, group->key);
	}
}

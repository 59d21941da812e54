/* tls of a listener: no file and no key, but the names of a certificate that the keeper
 * makes under our own authority. */
#include "conf/build.h"
#include "conf/value.h"
#include "proxy/http/dest.h"

struct tls {
	struct image_listener *listener;
	size_t text_n;
	bool has_names;
};

/* As mint writes hosts: lower case, addresses without brackets. */
static void
put_host(struct buf *b, const struct dest *d)
{
	if (dest_is_name(d))
		dest_put_host(b, d);
	else
		addr_put(b, &d->addr);
}

static bool
is_there(struct build *b, const struct image_listener *l, struct image_ref name)
{
	const struct image_ref *words = draft_table(b->draft, IMAGE_WORDS);

	for (uint32_t i = 0; i < l->names_n; i++)
		if (words[l->names + i].offset == name.offset)
			return true;
	return false;
}

static void
add(struct build *b, const struct node *n, const struct dest *d, struct tls *t)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	struct image_listener *l = t->listener;
	struct str s = STR("");

	buf_init(&text, DEST_NAME_MAX + 64);
	put_host(&text, d);
	if (buf_finish(&text, &s) != ST_OK)
		return;
	struct image_ref ref = draft_str(b->draft, s);
	if (is_there(b, l, ref)) {
		report_error(b->report, n->at, "`%.*s` is there twice", STR_ARG(s));
		return;
	}
	t->text_n += s.n;
	if (l->names_n == LISTENER_NAMES_MAX || t->text_n > LISTENER_NAMES_TEXT) {
		report_error(b->report, n->at,
			     "one certificate holds at most %d names, of %d characters "
			     "together",
			     LISTENER_NAMES_MAX, LISTENER_NAMES_TEXT);
		return;
	}
	(void)draft_add(b->draft, IMAGE_WORDS, &ref);
	l->names_n++;
}

static void
on_name(struct build *b, const struct node *n, void *ctx)
{
	struct dest d;
	struct str s;

	if (!value_text(b->report, n, &s))
		return;
	if (str_has(s, '*'))
		report_error(
			b->report, n->at,
			"no pattern here: write each name that clients connect to");
	else if (dest_from_host_single(s, 1, &d) != ST_OK)
		report_error(b->report, n->at,
			     "`%.*s` is no host name and no address; ports and schemes "
			     "do not belong here",
			     STR_ARG(s));
	else
		add(b, n, &d, ctx);
}

static void
on_names(struct build *b, const struct node *n, void *ctx)
{
	struct tls *t = ctx;

	t->has_names = true;
	if (n->kind == NODE_LIST && n->n == 0)
		report_error(b->report, n->at, "`names` is empty");
	build_items(b, n, on_name, t);
}

static void
on_file(struct build *b, const struct node *n, void *ctx)
{
	struct tls *t = ctx;

	t->has_names = true; /* one fault is enough */
	report_error(
		b->report, n->key_at,
		"`%.*s`: a listener has no key file, for it would lie in a process "
		"that reads sandboxes' bytes; give the `names`, and let clients "
		"trust what `sandgate ca export` prints",
		STR_ARG(n->key));
}

static const struct build_field fields[] = {
	{ "names", on_names },      { "cert", on_file },     { "key", on_file },
	{ "cert_file", on_file },   { "key_file", on_file }, { "certificate", on_file },
	{ "private_key", on_file },
};

/* Where it listens is a name too, unless that is everywhere. */
static void
add_address(struct build *b, const struct node *n, struct tls *t)
{
	static const struct addr any4 = { .family = 4 }, any6 = { .family = 6 };
	const struct addr *a = &t->listener->addr;
	struct dest d;

	if (a->family == 0)
		return; /* reported already */
	if (addr_eq(a, &any4) || addr_eq(a, &any6))
		report_error(b->report, n->key_at,
			     "`names` is missing: what clients connect to when they "
			     "come to this listener");
	else if (dest_from_addr(a, 1, &d) == ST_OK)
		add(b, n, &d, t);
}

void
build_listener_tls(struct build *b, const struct node *n, struct image_listener *l)
{
	struct tls t = { .listener = l };

	l->names = draft_count(b->draft, IMAGE_WORDS);
	l->names_n = 0;
	build_fields(b, n, fields, COUNT_OF(fields), &t);
	if (n->kind == NODE_MAP && !t.has_names)
		add_address(b, n, &t);
}

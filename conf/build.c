#include "conf/build.h"

#include "conf/value.h"

bool
build_is_kind(struct build *b, const struct node *n, enum node_kind kind)
{
	if (n->kind == kind)
		return true;
	if (n->kind == NODE_SCALAR && n->text.n == 0 && !n->is_quoted)
		report_error(b->report, n->at, "a value is missing: %s belongs here",
			     node_kind_name(kind));
	else
		report_error(b->report, n->at, "%s where %s belongs",
			     node_kind_name(n->kind), node_kind_name(kind));
	return false;
}

void
build_unknown(struct build *b, const struct node *n, struct str words)
{
	struct str near = report_nearest(n->key, words);

	if (near.p != NULL)
		report_error(b->report, n->key_at,
			     "unknown key `%.*s`; did you mean %.*s?", STR_ARG(n->key),
			     STR_ARG(near));
	else
		report_error(b->report, n->key_at, "unknown key `%.*s`",
			     STR_ARG(n->key));
}

static void
say_unknown(struct build *b, const struct node *n, const struct build_field *fields,
	    size_t fields_n)
{
	CLEANUP(buf_done) struct buf words = { 0 };
	struct str view = STR("");

	buf_init(&words, 4096);
	for (size_t i = 0; i < fields_n; i++) {
		buf_put(&words, str_from(fields[i].key));
		buf_putc(&words, '|');
	}
	if (buf_finish(&words, &view) != ST_OK)
		view = STR("");
	build_unknown(b, n, view);
}

void
build_fields(struct build *b, const struct node *map, const struct build_field *fields,
	     size_t fields_n, void *ctx)
{
	if (!build_is_kind(b, map, NODE_MAP))
		return;
	for (const struct node *n = map->first; n != NULL; n = n->next) {
		size_t i = 0;
		while (i < fields_n && !str_eq(n->key, str_from(fields[i].key)))
			i++;
		if (i == fields_n)
			say_unknown(b, n, fields, fields_n);
		else if (fields[i].fn != NULL)
			fields[i].fn(b, n, ctx);
	}
}

void
build_items(struct build *b, const struct node *list, build_field_fn fn, void *ctx)
{
	if (list->kind == NODE_SCALAR && (list->text.n > 0 || list->is_quoted)) {
		fn(b, list, ctx);
		return;
	}
	if (!build_is_kind(b, list, NODE_LIST))
		return;
	for (const struct node *n = list->first; n != NULL; n = n->next)
		fn(b, n, ctx);
}

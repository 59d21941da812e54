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

void
build_list(struct build *b, const struct node *list, void *ctx, struct build_part part,
	   uint32_t *ret_first, uint32_t *ret_n)
{
	if (list->kind == NODE_LIST && list->n == 0)
		report_error(b->report, list->at,
			     "`%.*s` is empty; list something or leave it out",
			     STR_ARG(list->key));
	*ret_first = draft_count(b->draft, part.table);
	build_items(b, list, part.fn, ctx);
	*ret_n = draft_count(b->draft, part.table) - *ret_first;
}

bool
build_file(struct build *b, const struct node *n, size_t max, struct str *ret_text)
{
	enum status st = conf_files_find(b->files, b->arena, n->text, max, ret_text);

	if (st == ST_TOO_BIG)
		report_error(b->report, n->at, "`%.*s` is larger than %zu bytes",
			     STR_ARG(n->text), max);
	else if (st != ST_OK)
		report_error(b->report, n->at, "`%.*s` is not a readable file",
			     STR_ARG(n->text));
	return st == ST_OK;
}

void
build_word(struct build *b, struct str s)
{
	struct image_ref ref = draft_str(b->draft, s);

	(void)draft_add(b->draft, IMAGE_WORDS, &ref);
}

#include "conf/node.h"

#include <string.h>
#include <yaml.h>

#include "proxy/base/map.h"

enum { DEPTH_MAX = 16, NODES_MAX = 4000000, FEW_KEYS = 16 };

struct builder {
	struct arena *arena;
	struct report *report;
	struct str file;
	struct node *open[DEPTH_MAX]; /* lists and maps that are not closed */
	struct str key[DEPTH_MAX];    /* of a map: the key whose value comes next */
	struct place key_at[DEPTH_MAX];
	bool has_key[DEPTH_MAX];
	size_t depth, nodes;
	struct node *root;
	bool is_over;        /* the document ended, or nothing more makes sense */
	bool is_bad, is_cut; /* something was reported; the rest was not read */
};

const char *
node_kind_name(enum node_kind k)
{
	static const char *const names[] = { "a single value", "a list", "a mapping" };

	return names[k];
}

const struct node *
node_get(const struct node *map, struct str key)
{
	if (map == NULL || map->kind != NODE_MAP)
		return NULL;
	for (const struct node *n = map->first; n != NULL; n = n->next)
		if (str_eq(n->key, key))
			return n;
	return NULL;
}

static struct place
place_of(const struct builder *b, yaml_mark_t mark)
{
	return (struct place){ b->file, (uint32_t)mark.line + 1,
			       (uint32_t)mark.column + 1 };
}

static void
complain(struct builder *b, yaml_mark_t mark, const char *what)
{
	b->is_bad = true;
	report_error(b->report, place_of(b, mark), "%s", what);
}

/* Give up: what follows would only repeat the complaint. */
static void
stop(struct builder *b, yaml_mark_t mark, const char *what)
{
	complain(b, mark, what);
	b->is_over = b->is_cut = true;
}

static void
append(struct builder *b, struct node *n)
{
	struct node *parent = b->depth == 0 ? NULL : b->open[b->depth - 1];

	if (parent == NULL) {
		b->root = n;
		return;
	}
	if (parent->kind == NODE_MAP) {
		n->key = b->key[b->depth - 1];
		n->key_at = b->key_at[b->depth - 1];
		b->has_key[b->depth - 1] = false;
	}
	if (parent->last == NULL)
		parent->first = n;
	else
		parent->last->next = n;
	parent->last = n;
	parent->n++;
}

static struct node *
new_node(struct builder *b, enum node_kind kind, yaml_mark_t mark)
{
	struct node *n = arena_alloc(b->arena, sizeof *n);

	if (n == NULL || ++b->nodes > NODES_MAX) {
		stop(b, mark, "the configuration is too large");
		return NULL;
	}
	n->kind = kind;
	n->at = place_of(b, mark);
	append(b, n);
	return n;
}

static bool
wants_key(const struct builder *b)
{
	return b->depth > 0 && b->open[b->depth - 1]->kind == NODE_MAP &&
	       !b->has_key[b->depth - 1];
}

static void
on_scalar(struct builder *b, const yaml_event_t *e)
{
	struct str text = str_of(e->data.scalar.value, e->data.scalar.length);

	if (e->data.scalar.anchor != NULL)
		complain(b, e->start_mark,
			 "anchors (&name) are not accepted; write the value out");
	if (e->data.scalar.tag != NULL)
		complain(b, e->start_mark, "tags (!name) are not accepted");
	text = arena_copy(b->arena, text);
	if (wants_key(b)) {
		if (str_eq(text, STR("<<")))
			complain(b, e->start_mark,
				 "merge keys (<<) are not accepted; write the values "
				 "out");
		b->key[b->depth - 1] = text;
		b->key_at[b->depth - 1] = place_of(b, e->start_mark);
		b->has_key[b->depth - 1] = true;
		return;
	}
	struct node *n = new_node(b, NODE_SCALAR, e->start_mark);
	if (n == NULL)
		return;
	n->text = text;
	n->is_quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
}

static void
on_open(struct builder *b, enum node_kind kind, const yaml_event_t *e)
{
	bool is_map = kind == NODE_MAP;
	const void *anchor =
		is_map ? e->data.mapping_start.anchor : e->data.sequence_start.anchor;
	const void *tag =
		is_map ? e->data.mapping_start.tag : e->data.sequence_start.tag;

	if (anchor != NULL)
		complain(b, e->start_mark,
			 "anchors (&name) are not accepted; write the value out");
	if (tag != NULL)
		complain(b, e->start_mark, "tags (!name) are not accepted");
	if (wants_key(b)) {
		stop(b, e->start_mark, "a key must be a single word");
		return;
	}
	struct node *n = new_node(b, kind, e->start_mark);
	if (n == NULL)
		return;
	if (b->depth == DEPTH_MAX) {
		stop(b, e->start_mark, "nested too deeply");
		return;
	}
	b->open[b->depth] = n;
	b->has_key[b->depth] = false;
	b->depth++;
}

static void
say_duplicate(struct builder *b, const struct node *n, const struct node *before)
{
	b->is_bad = true;
	report_error(b->report, n->key_at, "`%.*s` is already set in line %u",
		     STR_ARG(n->key), before->key_at.line);
}

static void
find_duplicates_in_many(struct builder *b, struct node *map)
{
	struct map seen;

	map_init(&seen, NODES_MAX);
	for (struct node *n = map->first; n != NULL; n = n->next) {
		const struct node *before = map_get(&seen, n->key);
		if (before != NULL)
			say_duplicate(b, n, before);
		else if (map_put(&seen, n->key, n) != ST_OK)
			b->is_bad = b->is_over = true;
	}
	map_done(&seen);
}

static void
find_duplicates(struct builder *b, struct node *map)
{
	if (map->n > FEW_KEYS) {
		find_duplicates_in_many(b, map);
		return;
	}
	for (const struct node *n = map->first; n != NULL; n = n->next) {
		const struct node *before = map->first;
		while (before != n && !str_eq(before->key, n->key))
			before = before->next;
		if (before != n)
			say_duplicate(b, n, before);
	}
}

static void
on_close(struct builder *b)
{
	struct node *n = b->open[--b->depth];

	if (n->kind == NODE_MAP)
		find_duplicates(b, n);
}

static void
on_event(struct builder *b, const yaml_event_t *e)
{
	switch ((int)e->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (b->root != NULL)
			stop(b, e->start_mark, "a second document; one file holds one");
		else if (e->data.document_start.version_directive != NULL ||
			 e->data.document_start.tag_directives.start !=
				 e->data.document_start.tag_directives.end)
			complain(b, e->start_mark,
				 "directives (%...) are not accepted");
		break;
	case YAML_ALIAS_EVENT:
		stop(b, e->start_mark,
		     "aliases (*name) are not accepted; write the value out");
		break;
	case YAML_SCALAR_EVENT:
		on_scalar(b, e);
		break;
	case YAML_SEQUENCE_START_EVENT:
		on_open(b, NODE_LIST, e);
		break;
	case YAML_MAPPING_START_EVENT:
		on_open(b, NODE_MAP, e);
		break;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		on_close(b);
		break;
	case YAML_STREAM_END_EVENT:
		b->is_over = true;
		break;
	default:
		break;
	}
}

/* What was left open is where to look: the end, where it is noticed, is often far below. */
static void
say_not_yaml(struct builder *b, const yaml_parser_t *y, const char *problem)
{
	struct place at = place_of(b, y->problem_mark);
	bool is_elsewhere =
		y->context != NULL && y->context_mark.line != y->problem_mark.line;

	if (is_elsewhere)
		report_error(b->report, at, "not YAML: %s, %s that begins in line %zu",
			     problem, y->context, y->context_mark.line + 1);
	else if (strcmp(problem, "found character that cannot start any token") == 0)
		report_error(b->report, at,
			     "not YAML: %s; blanks indent, not tabs, and what begins "
			     "with @, %% or ` stands in quotes",
			     problem);
	else
		report_error(b->report, at, "not YAML: %s", problem);
}

static void
say_syntax(struct builder *b, const yaml_parser_t *y)
{
	yaml_mark_t mark = y->problem_mark;
	const char *problem = y->problem == NULL ? "not readable" : y->problem;

	b->is_bad = b->is_over = b->is_cut = true;
	if (y->error == YAML_READER_ERROR)
		report_error(b->report, (struct place){ b->file, 1, 1 },
			     "not UTF-8 text: %s at byte %zu", problem,
			     y->problem_offset);
	else if (y->error == YAML_MEMORY_ERROR)
		report_error(b->report, place_of(b, mark), "not enough memory");
	else
		say_not_yaml(b, y, problem);
}

enum status
node_parse(struct arena *a, struct report *r, struct str file, struct str text,
	   struct node **ret_root)
{
	struct builder b = { .arena = a, .report = r, .file = file };
	yaml_parser_t y;
	yaml_event_t e;

	if (yaml_parser_initialize(&y) == 0)
		return ST_NOMEM;
	yaml_parser_set_input_string(&y, (const unsigned char *)text.p, text.n);
	yaml_parser_set_encoding(&y, YAML_UTF8_ENCODING);
	while (!b.is_over) {
		if (yaml_parser_parse(&y, &e) == 0) {
			say_syntax(&b, &y);
			break;
		}
		on_event(&b, &e);
		yaml_event_delete(&e);
	}
	yaml_parser_delete(&y);
	if (!b.is_bad && a->is_over) {
		b.is_bad = true;
		report_error(r, (struct place){ file, 0, 0 },
			     "the configuration is too large");
	}
	/* Half a tree would be missing things that the file has. */
	*ret_root = b.is_cut ? NULL : b.root;
	return b.is_bad ? ST_BAD_CONFIG : ST_OK;
}

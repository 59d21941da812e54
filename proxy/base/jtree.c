#include "proxy/base/jtree.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/base/jscan.h"

struct reader {
	struct arena *arena;
	struct jscan scan;
	struct jnode *open; /* the object or array that is being read */
	struct jnode *root, *now;
	char *out; /* room for all texts: never more than the document */
	size_t used, begun;
	struct str key;
	size_t nodes, keys, depth;
};

static struct str
text_of(struct reader *r)
{
	struct str s = str_of(r->out + r->begun, r->used - r->begun);

	r->begun = r->used;
	return s;
}

static enum status
add(struct reader *r, enum jkind kind)
{
	struct jnode *n;

	if (r->nodes == JTREE_NODES)
		return ST_TOO_BIG;
	n = arena_alloc(r->arena, sizeof *n);
	if (n == NULL)
		return ST_NOMEM;
	r->nodes++;
	*n = (struct jnode){ .kind = kind, .key = r->key, .parent = r->open };
	r->now = n;
	if (r->open == NULL)
		r->root = n;
	else if (r->open->last == NULL)
		r->open->first = r->open->last = n;
	else
		r->open->last = r->open->last->next = n;
	return ST_OK;
}

static enum status
open_one(struct reader *r, enum jkind kind)
{
	enum status st = r->depth == JTREE_DEPTH ? ST_BAD_JSON : add(r, kind);

	if (st != ST_OK)
		return st;
	r->depth++;
	r->open = r->now;
	r->key = (struct str){ "", 0 };
	return ST_OK;
}

static enum status
close_one(struct reader *r)
{
	r->depth--;
	r->open = r->open->parent;
	r->key = (struct str){ "", 0 };
	return ST_OK;
}

static enum status
put(struct reader *r, struct str part)
{
	if (memchr(part.p, '\0', part.n) != NULL)
		return ST_BAD_JSON;
	memcpy(r->out + r->used, part.p, part.n);
	r->used += part.n;
	return ST_OK;
}

static enum status
end_text(struct reader *r, bool is_number)
{
	enum status st = add(r, is_number ? JTREE_NUMBER : JTREE_STRING);

	if (st == ST_OK)
		r->now->text = text_of(r);
	return st;
}

static enum status
take(struct reader *r, enum jscan_token t, struct str part, bool *is_number)
{
	switch (t) {
	case JSCAN_OBJECT:
		return open_one(r, JTREE_OBJECT);
	case JSCAN_ARRAY:
		return open_one(r, JTREE_ARRAY);
	case JSCAN_OBJECT_END:
	case JSCAN_ARRAY_END:
		return close_one(r);
	case JSCAN_NUMBER:
		*is_number = true;
		return put(r, part);
	case JSCAN_KEY:
	case JSCAN_STRING:
		return put(r, part);
	case JSCAN_KEY_END:
		r->keys++;
		r->key = text_of(r);
		return ST_OK;
	case JSCAN_TEXT_END: {
		bool was_number = *is_number;
		*is_number = false;
		return end_text(r, was_number);
	}
	case JSCAN_LITERAL:
		return add(r, JTREE_LITERAL);
	case JSCAN_AGAIN: /* all was given: the document breaks off */
	case JSCAN_BAD:
	case JSCAN_OVER:
		break;
	}
	return ST_BAD_JSON;
}

/* A number that is a whole document ends with its input only. */
static bool
is_all(struct str rest)
{
	while (rest.n > 0 && jscan_is_space(rest.p[0]))
		rest = str_skip(rest, 1);
	return rest.n == 0;
}

static enum status
read_all(struct reader *r, struct str text)
{
	bool is_number = false;

	jscan_init(&r->scan);
	for (;;) {
		struct str part = { "", 0 };
		enum jscan_token t = jscan_next(&r->scan, &text, &part);
		if (t == JSCAN_OVER)
			return is_all(text) ? ST_OK : ST_BAD_JSON;
		enum status st = take(r, t, part, &is_number);
		if (st != ST_OK)
			return st;
	}
}

struct named {
	const struct jnode *node;
};

static int
by_name(const void *a, const void *b)
{
	const struct jnode *x = ((const struct named *)a)->node;
	const struct jnode *y = ((const struct named *)b)->node;

	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	return str_cmp(x->key, y->key);
}

const struct jnode *
jtree_next(const struct jnode *n)
{
	if (n->first != NULL)
		return n->first;
	while (n != NULL && n->next == NULL)
		n = n->parent;
	return n == NULL ? NULL : n->next;
}

static enum status
check_names(struct reader *r)
{
	struct named *all;
	size_t n = 0;

	if (r->keys < 2)
		return ST_OK;
	all = arena_alloc(r->arena, r->keys * sizeof *all);
	if (all == NULL)
		return ST_NOMEM;
	for (const struct jnode *it = r->root; it != NULL; it = jtree_next(it))
		if (it->parent != NULL && it->parent->kind == JTREE_OBJECT)
			all[n++].node = it;
	need(n == r->keys);
	/* Sorted, not hashed: whoever wrote it can't choose names that take long. */
	qsort(all, n, sizeof all[0], by_name);
	for (size_t i = 1; i < n; i++)
		if (by_name(&all[i - 1], &all[i]) == 0)
			return ST_BAD_JSON;
	return ST_OK;
}

enum status
jtree_read(struct arena *a, struct str text, const struct jnode **ret_root)
{
	struct reader r = { .arena = a, .key = { "", 0 } };
	enum status st;

	r.out = arena_alloc(a, text.n + 1);
	if (r.out == NULL)
		return ST_NOMEM;
	st = read_all(&r, text);
	if (st == ST_OK)
		st = check_names(&r);
	if (st == ST_OK)
		*ret_root = r.root;
	return st;
}

/* As Go folds what it compares with a name in ASCII: case, and two letters beyond it. */
static char
fold(struct str *rest)
{
	static const struct {
		struct str from;
		char to;
	} others[] = { { { "\xe2\x84\xaa", 3 }, 'k' }, { { "\xc5\xbf", 2 }, 's' } };
	char c = rest->p[0];

	for (size_t i = 0; i < COUNT_OF(others); i++) {
		if (!str_starts(*rest, others[i].from))
			continue;
		*rest = str_skip(*rest, others[i].from.n);
		return others[i].to;
	}
	*rest = str_skip(*rest, 1);
	return ascii_lower(c);
}

static bool
is_alike(struct str a, struct str b)
{
	while (a.n > 0 && b.n > 0)
		if (fold(&a) != fold(&b))
			return false;
	return a.n == 0 && b.n == 0;
}

enum status
jtree_get(const struct jnode *o, struct str name, const struct jnode **ret_node)
{
	const struct jnode *found = NULL;

	if (o == NULL || o->kind != JTREE_OBJECT) {
		*ret_node = NULL;
		return ST_OK;
	}
	for (const struct jnode *n = o->first; n != NULL; n = n->next) {
		if (str_eq(n->key, name))
			found = n;
		else if (is_alike(n->key, name))
			return ST_BAD_JSON;
	}
	*ret_node = found;
	return ST_OK;
}

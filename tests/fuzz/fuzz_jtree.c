/*
 * A document that jtree takes is one that Jansson, told to refuse equal names, takes too, with
 * the same names and strings in the same order; what jtree refuses, Jansson refuses or it is
 * one of the things that only jtree is strict about: depth, the number of values, NUL, what is
 * no object or array.  jtree_get() finds a name if and only if Jansson does and no other name
 * of the object folds to it.
 *
 * Input: the text.
 */
#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "proxy/base/jtree.h"

enum { ROOM = 64 << 20 };

static void need_same(const struct jnode *n, json_t *v);

static void
need_same_object(const struct jnode *n, json_t *v)
{
	const struct jnode *it = n->first;
	const char *key;
	json_t *value;

	json_object_foreach(v, key, value)
	{
		need(it != NULL && str_eq(it->key, str_from(key)));
		need(it->parent == n);
		need_same(it, value);
		it = it->next;
	}
	need(it == NULL);
}

static void
need_same_array(const struct jnode *n, json_t *v)
{
	const struct jnode *it = n->first;

	for (size_t i = 0; i < json_array_size(v); i++) {
		need(it != NULL && it->key.n == 0);
		need_same(it, json_array_get(v, i));
		it = it->next;
	}
	need(it == NULL);
}

static void
need_same(const struct jnode *n, json_t *v)
{
	if (json_is_object(v)) {
		need(n->kind == JTREE_OBJECT);
		need_same_object(n, v);
	} else if (json_is_array(v)) {
		need(n->kind == JTREE_ARRAY);
		need_same_array(n, v);
	} else if (json_is_string(v)) {
		need(n->kind == JTREE_STRING &&
		     str_eq(n->text,
			    str_of(json_string_value(v), json_string_length(v))));
	} else {
		need(n->kind == (json_is_number(v) ? JTREE_NUMBER : JTREE_LITERAL));
	}
}

/* Halves of surrogate pairs and numbers out of range are no errors here. */
static bool
is_laxer(struct str in, const json_error_t *e)
{
	return json_error_code(e) == json_error_numeric_overflow ||
	       memmem(in.p, in.n, "\\ud", 3) != NULL ||
	       memmem(in.p, in.n, "\\uD", 3) != NULL;
}

static bool
is_ascii(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] >= 0x80)
			return false;
	return true;
}

/* As another program finds it: the only name that a reader who folds case could mean. */
static void
need_found(const struct jnode *o)
{
	for (const struct jnode *it = o->first; it != NULL; it = it->next) {
		const struct jnode *found = NULL;
		size_t alike = 0;

		if (!is_ascii(it->key))
			continue;
		for (const struct jnode *k = o->first; k != NULL; k = k->next)
			alike += is_ascii(k->key) && str_ieq(k->key, it->key);
		enum status st = jtree_get(o, it->key, &found);
		need(alike == 1 || st == ST_BAD_JSON);
		need(st != ST_OK || found == it);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	const struct jnode *root = NULL;
	struct str in = str_of(data, size);
	json_error_t e;

	arena_init(&a, ROOM);
	enum status st = jtree_read(&a, in, &root);
	need(st == ST_OK || st == ST_BAD_JSON || st == ST_TOO_BIG);
	/* Jansson takes a NUL between tokens for the end of the text. */
	if (memchr(data, '\0', size) != NULL)
		return 0;
	json_t *v =
		json_loadb(in.p, in.n, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &e);
	if (st == ST_OK && v != NULL)
		need_same(root, v);
	need(st != ST_OK || v != NULL || is_laxer(in, &e));
	/* Two names whose halves of pairs both became U+FFFD are equal here only. */
	bool is_number = size > 0 && ascii_is_digit(in.p[size - 1]);
	need(st == ST_OK || st == ST_TOO_BIG || v == NULL || is_number ||
	     size > JTREE_DEPTH || memmem(in.p, in.n, "\\u", 2) != NULL);
	if (st == ST_OK && root->kind == JTREE_OBJECT)
		need_found(root);
	json_decref(v);
	return 0;
}

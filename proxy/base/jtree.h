#ifndef PROXY_BASE_JTREE_H
#define PROXY_BASE_JTREE_H
/*
 * jtree: a small JSON document (RFC 8259) as a tree in an arena, for who has to know what
 * another program will read out of it.  Read strictly (jscan.h), and refused where readers
 * differ: NUL in a string or name, two equal names in one object, nesting over
 * JTREE_DEPTH, anything behind the document.
 *
 * Some readers (Go's) also take a name whose letters differ in case: jtree_get() refuses an
 * object in which another name could be taken for the one that is asked for.
 *
 * Views lie in the arena.
 */
#include "proxy/base/arena.h"

enum { JTREE_DEPTH = 32, JTREE_NODES = 16384 };

enum jkind { JTREE_OBJECT, JTREE_ARRAY, JTREE_STRING, JTREE_NUMBER, JTREE_LITERAL };

struct jnode {
	enum jkind kind;
	struct str key;  /* in an object: its name, decoded */
	struct str text; /* decoded; of numbers as written; of others empty */
	struct jnode *parent, *first, *last, *next;
};

/* ST_BAD_JSON; ST_TOO_BIG: more than JTREE_NODES values; ST_NOMEM: the arena is full. */
enum status jtree_read(struct arena *a, struct str text,
		       const struct jnode **ret_root) MUSTCHECK;

/* What comes behind n, in the order of the document, also what is in it; NULL: nothing. */
const struct jnode *jtree_next(const struct jnode *n);

/* *ret_node: the member of this name, NULL when there is none or o is no object.
 * ST_BAD_JSON: another name there may be taken for it. */
enum status jtree_get(const struct jnode *o, struct str name,
		      const struct jnode **ret_node) MUSTCHECK;

#endif

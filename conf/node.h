#ifndef CONF_NODE_H
#define CONF_NODE_H
/*
 * node: a YAML document as a tree in which every value knows its place.  The part of
 * YAML that configuration needs and no more: mappings with plain keys, sequences and
 * scalars.  Anchors, aliases, merge keys, tags and second documents are refused (one
 * text, one meaning); so are duplicate keys.  Depth, size and number are bounded.
 */
#include "conf/report.h"

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP };

struct node {
	enum node_kind kind;
	bool is_quoted; /* a scalar in quotes: "443" */
	struct place at;
	struct str text; /* scalar */
	struct str key;  /* in a map */
	struct place key_at;
	struct node *next;         /* sibling */
	struct node *first, *last; /* children of a list or map */
	size_t n;                  /* how many */
};

/* Parse text; everything lives in a.  *ret_root is NULL for an empty
 * document and for one that could not be read to its end.
 * ST_BAD_CONFIG when something was reported. */
enum status node_parse(struct arena *a, struct report *r, struct str file,
		       struct str text, struct node **ret_root) MUSTCHECK;

/* The value of a key, or NULL. */
const struct node *node_get(const struct node *map, struct str key);
const char *node_kind_name(enum node_kind k); /* "a list" */

#endif

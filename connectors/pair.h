#ifndef CONNECTORS_PAIR_H
#define CONNECTORS_PAIR_H
/*
 * pair: the name=value&name=value of a query or of a form body, read the way that the
 * server will read it: percent triplets are the octets they stand for, '+' is a space,
 * a name without '=' has an empty value.
 */
#include "connectors/cred.h"

struct pair {
	struct str raw;         /* the whole of it */
	struct str name, value; /* still encoded */
};

/* Cuts the next one off; false at the end.  Empty ones ("&&") are stepped over. */
bool pair_next(struct str *rest, struct pair *ret_pair);
/* The next octet that text stands for; text must not be empty.  A '%' that begins no
 * triplet is itself. */
char pair_octet(struct str *text, bool plus_is_space);
/* Would some server take this pair, or a part of it, for one of this plain name?  Case
 * folded, and ';' may end a pair: what a server that folds sees must not be the client's
 * own. */
bool pair_is_named(const struct pair *pair, struct str name);

/* Appends all pairs of query but those of this name, in their order.  is_first: nothing
 * was written before that needs an '&'; comes back false if something was written. */
void pair_put_without(struct cred *out, struct str query, struct str name,
		      bool *is_first);
bool pair_has(struct str query, struct str name);

#endif

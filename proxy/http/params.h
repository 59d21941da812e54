#ifndef PROXY_HTTP_PARAMS_H
#define PROXY_HTTP_PARAMS_H
/*
 * params: the name=value pairs of a query, in the form that HTML gave it (URL Standard
 * section 5): '&' between them, '+' for a blank, percent triplets for anything.  What
 * is no triplet stands for itself.  Views lie within the query.
 */
#include "proxy/base/buf.h"

/* The next pair, as sent; false: none is left.  Without '=' the value has p == NULL. */
bool params_next(struct str *rest, struct str *ret_name, struct str *ret_value);

/* Does coded stand for plain? */
bool params_is(struct str coded, struct str plain);
bool params_is_folded(struct str coded, struct str plain); /* ASCII case folded */
void params_put(struct buf *b, struct str coded);          /* decoded */

/* The value of the only pair of this name, as sent.  ST_NOT_FOUND: there is none;
 * ST_BAD_TARGET: more than one, which servers choose from differently. */
enum status params_find(struct str query, struct str name,
			struct str *ret_value) MUSTCHECK;

#endif

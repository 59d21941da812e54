#ifndef CONNECTORS_WORDS_H
#define CONNECTORS_WORDS_H
/*
 * words: the texts that must not come back to one sandbox, each with what stands for it.
 * Making them costs more than looking for them in a short answer, so they are made once
 * for a lease or a token and shared by the answers that were asked for with it.
 *
 * Building: words_new(), words_add() ..., words_ready().  Afterwards they do not change,
 * and are wiped with the last reference.
 */
#include "connectors/auth.h"
#include "proxy/base/needle.h"
#include "proxy/base/shape.h"

enum { WORDS_MOST = 4 };

struct words {
	uint32_t refs;
	struct shape_owner owner; /* views until words_ready(); key NULL: nobody's */
	struct str shape;
	struct cred text, mask;
	struct needle needle[WORDS_MOST];
	size_t n;
	struct needle_set *set; /* NULL: there is nothing to look for */
};

/* One reference, the caller's.  Masks are o's placeholders, of this shape where it fits.
 * NULL: no memory. */
struct words *words_new(const struct shape_owner *o, struct str shape);
/* Too short ones can't be told from chance, and are left out. */
void words_add(struct words *w, struct str text);
/* What the job shows of its lease or token. */
void words_add_shown(struct words *w, const struct auth_job *j);
/* ST_BAD_SECRET: one repeats itself so much that no stream can be searched for it. */
enum status words_ready(struct words *w) MUSTCHECK;

struct words *words_ref(struct words *w);
void words_unref(struct words *w); /* NULL is fine */

#endif

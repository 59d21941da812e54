#include "connectors/words.h"

#include <stdlib.h>
#include <string.h>

enum { TEXTS_MAX = 3 * NEEDLE_MAX };

struct words *
words_new(const struct shape_owner *o, struct str shape)
{
	struct words *w = calloc(1, sizeof *w);

	if (w == NULL)
		return NULL;
	w->refs = 1;
	w->owner = *o;
	w->shape = shape;
	cred_init(&w->text, TEXTS_MAX);
	cred_init(&w->mask, TEXTS_MAX);
	return w;
}

struct words *
words_ref(struct words *w)
{
	w->refs++;
	return w;
}

void
words_unref(struct words *w)
{
	if (w == NULL || --w->refs > 0)
		return;
	needle_set_free(w->set);
	cred_done(&w->text);
	cred_done(&w->mask);
	free(w);
}

/* What stands for the text: this sandbox's placeholder, if that is as long; else what
 * looks like the text, as a placeholder would. */
static void
put_mask(struct words *w, struct str text)
{
	char mask[NEEDLE_MAX];

	if (w->owner.key == NULL)
		memset(mask, '*', text.n);
	else if (w->shape.n == text.n && shape_is_good(w->shape))
		shape_fill(&w->owner, w->shape, mask);
	else
		shape_like(&w->owner, text, mask);
	cred_put(&w->mask, str_of(mask, text.n));
	explicit_bzero(mask, text.n);
}

void
words_add(struct words *w, struct str text)
{
	size_t mark = cred_mark(&w->text);

	if (text.n < NEEDLE_MIN || text.n > NEEDLE_MAX || w->n == WORDS_MOST)
		return;
	cred_put(&w->text, text);
	put_mask(w, text);
	if (w->text.st != ST_OK || w->mask.st != ST_OK)
		return;
	w->needle[w->n++] = (struct needle){ cred_since(&w->text, mark),
					     str_of(w->mask.p + mark, text.n) };
}

void
words_add_shown(struct words *w, const struct auth_job *j)
{
	struct str secret = j->parts[AUTH_PART_SECRET], key = secret;

	if (j->token != NULL) {
		words_add(w, j->token->value);
		words_add(w, j->token->session);
		return;
	}
	/* USER:PASSWORD and KEYID:KEY: the latter half is the secret one. */
	(void)str_cut(&key, ':');
	if (key.p != NULL &&
	    (j->conf->kind == AUTH_BASIC || j->conf->kind == AUTH_SIGV4))
		words_add(w, key);
	words_add(w, secret);
	words_add(w, j->parts[AUTH_PART_SESSION_TOKEN]);
}

enum status
words_ready(struct words *w)
{
	enum status st = w->text.st != ST_OK ? w->text.st : w->mask.st;

	if (st == ST_OK && w->n > 0)
		st = needle_set_new(w->needle, w->n, &w->set);
	w->owner = (struct shape_owner){ .key = NULL };
	w->shape = STR("");
	return st == ST_CONFLICT ? ST_BAD_SECRET : st;
}

/* In which language the contexts of a sandbox run what they get. */
#include <stdlib.h>
#include <string.h>

#include "proxy/control/brain.h"

enum { CONTEXTS = 64 }; /* remembered of a sandbox, the latest */

struct context {
	char id[PLACE_CONTEXT_MAX + 1];
	char language[PLACE_LANGUAGE_MAX + 1]; /* "": it was told in two ways */
};

struct brain_contexts { /* of one sandbox */
	size_t next;
	struct context of[CONTEXTS];
};

static struct context *
find(struct brain_contexts *all, struct str id)
{
	for (size_t i = 0; all != NULL && i < CONTEXTS; i++)
		if (str_eq(str_from(all->of[i].id), id))
			return &all->of[i];
	return NULL;
}

struct str
brain_context_language(const struct brain *b, struct str sandbox, struct str id)
{
	const struct context *c =
		id.n == 0 ? NULL : find(map_get(&b->contexts, sandbox), id);

	return c == NULL ? STR("") : str_from(c->language);
}

static struct brain_contexts *
contexts_of(struct brain *b, struct str sandbox)
{
	struct brain_contexts *all = map_get(&b->contexts, sandbox);

	if (all != NULL)
		return all;
	/* Some may be of sandboxes that were ended before they were told of. */
	if (b->contexts.len >= BRAIN_ENDPOINTS) {
		brain_contexts_close(b);
		map_init(&b->contexts, BRAIN_ENDPOINTS);
	}
	all = calloc(1, sizeof *all);
	if (all != NULL && map_put(&b->contexts, sandbox, all) != ST_OK) {
		free(all);
		return NULL;
	}
	return all;
}

static bool
is_language(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!ascii_is_alpha(s.p[i]) && !ascii_is_digit(s.p[i]) &&
		    !str_has(STR("+#._-"), s.p[i]))
			return false;
	return s.n > 0 && s.n <= PLACE_LANGUAGE_MAX;
}

static void
remember(struct brain *b, struct str sandbox, struct str id, struct str language)
{
	struct brain_contexts *all = contexts_of(b, sandbox);
	struct context *c = find(all, id);

	if (all == NULL)
		return; /* not remembered, so its code is read in every language */
	if (c != NULL) {
		if (!str_ieq(str_from(c->language), language))
			c->language[0] = '\0';
		return;
	}
	c = &all->of[all->next++ % CONTEXTS];
	*c = (struct context){ 0 };
	memcpy(c->id, id.p, id.n);
	memcpy(c->language, language.p, language.n);
}

void
brain_context_heard(struct brain *b, const struct ask_line *line, struct ask_msg *m)
{
	struct wire w = wire_from(m->body);
	uint64_t ticket = wire_u64(&w);
	struct str id = wire_str(&w), language = wire_str(&w);
	const struct brain_ticket *t = brain_ticket_find(b, line, ticket);

	/* That it is of this sandbox only the worker says of one that is_kept. */
	if (wire_end(&w) != ST_OK || t == NULL || t->is_kept || id.n == 0 ||
	    id.n > PLACE_CONTEXT_MAX || str_has(id, '\0'))
		return;
	remember(b, str_from(t->id), id, is_language(language) ? language : STR(""));
}

void
brain_contexts_forget(struct brain *b, struct str sandbox)
{
	free(map_take(&b->contexts, sandbox));
}

void
brain_contexts_close(struct brain *b)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(&b->contexts, &at, &key, &value);)
		free(value);
	map_done(&b->contexts);
}

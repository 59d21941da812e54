#include "connectors/scrub.h"

#include <stdlib.h>
#include <string.h>

/* Masks may meet by chance; more in a row over the same place is no chance. */
enum { AGAIN_MAX = 32 };

void
scrub_init(struct scrub *s, const struct needle_set *set)
{
	*s = (struct scrub){ .set = set };
}

void
scrub_done(struct scrub *s)
{
	if (s->held != NULL)
		explicit_bzero(s->held, s->held_max);
	free(s->held);
	*s = (struct scrub){ 0 };
}

size_t
scrub_room(const struct scrub *s)
{
	return s->held_n;
}

/* The text from position base on; in space as soon as something is to be written. */
struct work {
	const char *p;
	char *space;
	size_t at, n;
	uint64_t base;
};

/*
 * A match ends at w->at.  What comes out must hold no secret either, also none that the
 * mask and its neighbours happen to make: so all is read again from where the first
 * thread began that lived when the first character to change was read.
 */
static void
mask(struct scrub *s, struct work *w, const struct needle_thread *match)
{
	uint64_t first = needle_context(&s->run);
	size_t from = s->safe > match->start ? (size_t)(s->safe - match->start) : 0;

	if (match->context < first)
		first = match->context;
	if (w->p != w->space)
		w->p = memcpy(w->space, w->p, w->n);
	needle_mask(s->set, match, w->space + (match->start - w->base),
		    (size_t)(s->run.pos - match->start), from);
	s->again = match->start < s->masked_to ? s->again + 1 : 0;
	s->masked_to = s->run.pos;
	s->count++;
	s->run.threads_n = 0;
	s->run.pos = first;
	w->at = (size_t)(first - w->base);
}

static void
step(struct scrub *s, struct work *w)
{
	struct needle_thread match;
	uint64_t safe;

	if (s->run.threads_n == 0) {
		size_t n = needle_skip(s->set, w->p + w->at, w->n - w->at);

		needle_pass(&s->run, n);
		w->at += n;
	}
	if (w->at < w->n && needle_step(s->set, &s->run, w->p[w->at++], &match))
		mask(s, w, &match);
	/* Told for each character, so that it does not depend on where pieces end. */
	safe = needle_safe(&s->run);
	if (safe > s->safe)
		s->safe = safe;
}

static enum status
hold(struct scrub *s, const struct work *w)
{
	size_t first = (size_t)(needle_context(&s->run) - w->base), n = w->n - first;

	if (n > 0 && s->held == NULL) {
		s->held_max = 2 * needle_reach(s->set);
		s->held = malloc(s->held_max);
		if (s->held == NULL)
			return ST_NOMEM;
	}
	/* See needle_context(). */
	need(n <= s->held_max);
	if (n > 0)
		memcpy(s->held, w->p + first, n);
	if (s->held_n > n)
		explicit_bzero(s->held + n, s->held_n - n);
	s->held_n = n;
	s->sent = (size_t)(s->safe - w->base) - first;
	return ST_OK;
}

static struct work
begin(const struct scrub *s, struct str in, char *space)
{
	struct work w = { .p = in.p != NULL ? in.p : space,
			  .space = space,
			  .at = s->held_n,
			  .n = s->held_n + in.n,
			  .base = s->run.pos - s->held_n };

	if (s->held_n > 0) {
		memcpy(space, s->held, s->held_n);
		if (in.n > 0)
			memcpy(space + s->held_n, in.p, in.n);
		w.p = space;
	}
	return w;
}

enum status
scrub_feed(struct scrub *s, struct str in, bool is_last, char *space,
	   struct str *ret_out)
{
	struct work w = begin(s, in, space);
	size_t out = s->held_n > 0 ? s->sent : 0;

	while (w.at < w.n && s->st == ST_OK) {
		step(s, &w);
		if (s->again > AGAIN_MAX)
			s->st = ST_INTERNAL;
		if (s->run.st != ST_OK)
			s->st = s->run.st;
	}
	if (s->st == ST_OK && is_last) {
		s->safe = s->run.pos;
		s->run.threads_n = 0;
	}
	if (s->st == ST_OK)
		s->st = hold(s, &w);
	if (s->st == ST_OK)
		*ret_out = str_of(w.p + out, (size_t)(s->safe - w.base) - out);
	return s->st;
}

enum status
scrub_text(const struct needle_set *set, char *p, size_t n, uint32_t *count)
{
	struct scrub s;
	struct str out;
	enum status st;

	scrub_init(&s, set);
	st = scrub_feed(&s, str_of(p, n), true, p, &out);
	if (st == ST_OK)
		*count += s.count;
	scrub_done(&s);
	return st;
}

#include "connectors/lent.h"

#include <stdlib.h>

struct lent {
	struct list link; /* all->lents, or alone */
	struct connector *all;
	uint32_t refs; /* of lanes, and of those who wait */
	uint32_t connector, handle;
	struct list waits;
	struct lease_call *asking;
	struct lease lease;
	bool has_lease;
	struct words *words;
	uint64_t words_key;
	struct loop_timer end; /* of both */
};

struct lent_wait {
	struct list link; /* of->waits, or of the answer's own list */
	struct lent *of;
	lent_fn fn;
	void *ctx;
};

static void
drop(void *ctx)
{
	struct lent *l = ctx;

	loop_timer_clear(&l->end);
	lease_done(&l->lease);
	words_unref(l->words);
	l->words = NULL;
	l->has_lease = false;
}

struct lent *
lent_of(struct connector *all, uint32_t connector, uint32_t handle)
{
	struct lent *l;

	list_each (it, &all->lents) {
		l = LIST_OF(it, struct lent, link);
		if (l->connector == connector && l->handle == handle) {
			l->refs++;
			return l;
		}
	}
	l = calloc(1, sizeof *l);
	if (l == NULL)
		return NULL;
	l->all = all;
	l->refs = 1;
	l->connector = connector;
	l->handle = handle;
	list_init(&l->waits);
	loop_timer_init(&l->end, all->loop, drop, l);
	list_append(&all->lents, &l->link);
	return l;
}

void
lent_unref(struct lent *l)
{
	if (l == NULL || --l->refs > 0)
		return;
	lease_cancel(l->asking);
	drop(l);
	list_remove(&l->link);
	loop_defer(l->all->loop, free, l);
}

void
lents_forget(struct connector *all)
{
	while (list_pop(&all->lents) != NULL)
		continue;
}

static void
wait_end(struct lent_wait *w)
{
	list_remove(&w->link);
	lent_unref(w->of);
	free(w);
}

void
lent_cancel(struct lent_wait *w)
{
	struct lent *l;

	if (w == NULL)
		return;
	l = w->of;
	l->refs++;
	wait_end(w);
	if (list_is_empty(&l->waits)) {
		lease_cancel(l->asking);
		l->asking = NULL;
	}
	lent_unref(l);
}

static void
keep(struct lent *l, struct lease *lease)
{
	drop(l);
	l->lease = *lease;
	*lease = (struct lease){ .version = 0 };
	l->has_lease = true;
	loop_timer_set(&l->end, LENT_MS);
}

/* Each of them may cancel others, and end the last lane. */
static void
tell(struct lent *l, enum status st)
{
	struct list answered, *it;

	/* Whoever asks from now on asks for another. */
	list_init(&answered);
	while ((it = list_pop(&l->waits)) != NULL)
		list_append(&answered, it);
	while ((it = list_pop(&answered)) != NULL) {
		struct lent_wait *w = LIST_OF(it, struct lent_wait, link);
		lent_fn fn = w->fn;
		void *to = w->ctx;
		l->refs++;
		wait_end(w);
		fn(to, st);
		lent_unref(l);
	}
}

static void
on_lease(void *ctx, enum status st, struct lease *lease)
{
	struct lent *l = ctx;

	l->asking = NULL;
	if (st == ST_OK)
		keep(l, lease);
	tell(l, st);
}

static void
tell_again(void *ctx)
{
	struct lent *l = ctx;

	tell(l, ST_AGAIN);
	lent_unref(l);
}

/* An answer that is on its way may be of what was. */
static void
take_back(struct lent *l)
{
	drop(l);
	if (l->asking == NULL)
		return;
	lease_cancel(l->asking);
	l->asking = NULL;
	l->refs++;
	loop_defer(l->all->loop, tell_again, l);
}

void
lents_revoke(struct connector *all, bool (*fn)(const void *ctx, uint32_t connector),
	     const void *ctx)
{
	list_each (it, &all->lents) {
		struct lent *l = LIST_OF(it, struct lent, link);
		if (fn(ctx, l->connector))
			take_back(l);
	}
}

enum status
lent_get(struct lent *l, const struct lease_wish *wish, lent_fn fn, void *ctx,
	 struct lent_wait **ret_w)
{
	struct lent_wait *w = calloc(1, sizeof *w);
	enum status st = ST_OK;

	if (w == NULL)
		return ST_NOMEM;
	if (l->asking == NULL)
		st = lease_begin(l->all, wish, on_lease, l, &l->asking);
	if (st != ST_OK) {
		free(w);
		return st;
	}
	*w = (struct lent_wait){ .of = l, .fn = fn, .ctx = ctx };
	l->refs++;
	list_append(&l->waits, &w->link);
	*ret_w = w;
	return ST_OK;
}

const struct lease *
lent_lease(const struct lent *l)
{
	return l->has_lease ? &l->lease : NULL;
}

struct words *
lent_words(const struct lent *l, uint64_t key)
{
	return l->words_key == key ? l->words : NULL;
}

void
lent_keep_words(struct lent *l, uint64_t key, struct words *w)
{
	words_unref(l->words);
	l->words = w;
	l->words_key = key;
	if (!loop_timer_is_set(&l->end))
		loop_timer_set(&l->end, LENT_MS);
}

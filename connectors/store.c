#include "connectors/store_in.h"

#include <stdlib.h>

enum { ARENA_MAX = 16 * 1024, KEY_MAX = 8192 };

struct store_wait {
	struct list link; /* store->waits */
	struct connector *all;
	store_fn fn;
	void *ctx;
};

const struct image_store_item *
store_item(const struct store *s)
{
	size_t n;

	need(s->item < s->at->items_n);
	return &image_store_items(s->all->role.image, &n)[s->at->items + s->item];
}

static void
on_timer(void *ctx)
{
	store_step(ctx);
}

/* What is next is found from the loop, so that a run of quick ends is no recursion. */
void
store_go_on(struct store *s, uint64_t ms)
{
	store_call_stop(s);
	s->state = STORE_IDLE;
	loop_timer_init(&s->timer, s->all->loop, on_timer, s);
	loop_timer_set(&s->timer, ms);
}

void
store_tell_waits(struct store *s)
{
	struct list waits;
	struct list *it;

	list_init(&waits);
	while ((it = list_pop(&s->waits)) != NULL)
		list_append(&waits, it);
	while ((it = list_pop(&waits)) != NULL) {
		struct store_wait *w = LIST_OF(it, struct store_wait, link);
		loop_defer(s->all->loop, free, w);
		w->fn(w->ctx, &s->found);
	}
}

/* Which there are. */

static void
put_key(struct buf *b, struct str part)
{
	buf_put(b, part);
	buf_putc(b, '\n'); /* in none of them */
}

static enum status
make_key(struct connector *all, const struct image_store *at, struct buf *b)
{
	const struct image *im = all->role.image;
	size_t n;
	const struct image_connector *k = &image_connectors(im, &n)[at->connector];

	put_key(b, image_str(im, at->name));
	put_key(b, image_str(im, k->upstream_host));
	put_key(b, image_str(im, at->login_mount));
	put_key(b, image_str(im, at->role));
	put_key(b, image_str(im, at->space));
	put_key(b, image_str(im, k->auth.secret));
	buf_putf(b, "%u %u", k->upstream_port, at->login);
	return b->st;
}

static void
store_free(struct store *s)
{
	store_call_stop(s);
	store_drop_token(s);
	s->found.failed = ST_RELOADED;
	store_tell_waits(s);
	list_remove(&s->link);
	arena_done(&s->arena);
	loop_defer(s->all->loop, free, s);
}

static struct store *
store_new(struct connector *all, struct str key, struct str name)
{
	struct store *s = calloc(1, sizeof *s);

	if (s == NULL)
		return NULL;
	s->all = all;
	list_init(&s->waits);
	arena_init(&s->arena, ARENA_MAX);
	loop_timer_init(&s->timer, all->loop, on_timer, s);
	s->key = arena_copy(&s->arena, key);
	s->name = arena_copy(&s->arena, name);
	if (s->key.p == NULL || s->name.p == NULL) {
		arena_done(&s->arena);
		free(s);
		return NULL;
	}
	list_append(&all->stores, &s->link);
	return s;
}

static struct store *
find(struct connector *all, struct str key)
{
	list_each (it, &all->stores) {
		struct store *s = LIST_OF(it, struct store, link);
		if (str_eq(s->key, key))
			return s;
	}
	return NULL;
}

/* With the token that it has, if what it logs in with is the same. */
static void
renew_one(struct connector *all, const struct image_store *at)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str key;

	buf_init(&b, KEY_MAX);
	enum status st = make_key(all, at, &b);
	struct store *s = NULL;
	if (st == ST_OK && buf_finish(&b, &key) == ST_OK) {
		s = find(all, key);
		if (s == NULL)
			s = store_new(all, key, image_str(all->role.image, at->name));
	}
	if (s == NULL) {
		log_error(&all->role.log, "a source of secrets: %s",
			  status_code(ST_NOMEM));
		return;
	}
	s->at = at;
	s->round_ms = 0;
	s->pause_ms = 0;
	store_go_on(s, 0);
}

static bool
is_ours(const struct connector *all, const struct image_store *at)
{
	size_t n;
	const struct image_connector *k = image_connectors(all->role.image, &n);

	return str_eq(image_str(all->role.image, k[at->connector].group),
		      str_from(all->group));
}

void
stores_renew(struct connector *all)
{
	size_t n;
	const struct image_store *of = image_stores(all->role.image, &n);

	list_each (it, &all->stores)
		LIST_OF(it, struct store, link)->at = NULL;
	for (size_t i = 0; i < n; i++)
		if (is_ours(all, &of[i]))
			renew_one(all, &of[i]);
	list_each_safe (it, &all->stores) {
		struct store *s = LIST_OF(it, struct store, link);
		if (s->at == NULL)
			store_free(s);
	}
}

void
stores_revoke(struct connector *all, bool (*fn)(const void *ctx, uint32_t connector),
	      const void *ctx)
{
	list_each (it, &all->stores) {
		struct store *s = LIST_OF(it, struct store, link);
		if (s->is_over || !fn(ctx, s->at->connector))
			continue;
		store_drop_token(s);
		s->round_ms = 0;
		s->pause_ms = 0;
		store_go_on(s, 0);
	}
}

void
stores_drain(struct connector *all)
{
	list_each (it, &all->stores) {
		struct store *s = LIST_OF(it, struct store, link);
		store_call_stop(s);
		s->state = STORE_IDLE;
		s->is_over = true;
		/* What an operator made is an operator's to take back. */
		if (s->has_token && s->at->login != STORE_TOKEN)
			store_call(s, STORE_REVOKE);
	}
}

bool
stores_are_drained(const struct connector *all)
{
	list_each (it, &all->stores)
		if (LIST_OF(it, struct store, link)->state != STORE_IDLE)
			return false;
	return true;
}

void
stores_done(struct connector *all)
{
	list_each_safe (it, &all->stores)
		store_free(LIST_OF(it, struct store, link));
}

enum status
store_probe(struct connector *all, uint32_t connector, store_fn fn, void *ctx,
	    struct store_wait **ret_w)
{
	list_each (it, &all->stores) {
		struct store *s = LIST_OF(it, struct store, link);
		if (s->at->connector != connector)
			continue;
		struct store_wait *w = calloc(1, sizeof *w);
		if (w == NULL)
			return ST_NOMEM;
		*w = (struct store_wait){ .all = all, .fn = fn, .ctx = ctx };
		list_append(&s->waits, &w->link);
		if (s->state == STORE_IDLE) {
			s->round_ms = 0;
			store_go_on(s, 0);
		}
		*ret_w = w;
		return ST_OK;
	}
	return ST_NOT_FOUND;
}

void
store_cancel(struct store_wait *w)
{
	if (w == NULL)
		return;
	list_remove(&w->link);
	loop_defer(w->all->loop, free, w);
}

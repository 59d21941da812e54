#include "vault/supplies.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/base/clock.h"

void
supplies_done(struct supplies *s)
{
	for (size_t i = 0; i < s->n; i++)
		secret_done(&s->of[i].value);
	free(s->of);
	*s = (struct supplies){ NULL, 0 };
}

struct supplied *
supplies_find(const struct supplies *s, struct str name)
{
	for (size_t i = 0; i < s->n; i++)
		if (str_eq(str_from(s->of[i].name), name))
			return &s->of[i];
	return NULL;
}

/* A change of the configuration. */

static bool
same(const struct image *a, struct image_ref x, const struct image *b,
     struct image_ref y)
{
	return str_eq(image_str(a, x), image_str(b, y));
}

static bool
is_same_store(const struct image *a, const struct image_store *x, const struct image *b,
	      const struct image_store *y)
{
	size_t n;
	const struct image_connector *k = &image_connectors(a, &n)[x->connector];
	const struct image_connector *l = &image_connectors(b, &n)[y->connector];

	return same(a, k->upstream_host, b, l->upstream_host) &&
	       k->upstream_port == l->upstream_port &&
	       same(a, k->tenant, b, l->tenant) && same(a, x->space, b, y->space) &&
	       x->login == y->login && same(a, x->role, b, y->role) &&
	       same(a, k->auth.secret, b, l->auth.secret);
}

/* What was read elsewhere, or as somebody else, is another secret. */
static bool
is_same_place(const struct image *a, const struct image_store_item *x,
	      const struct image *b, const struct image_store_item *y)
{
	size_t n;

	return y != NULL && same(a, x->mount, b, y->mount) &&
	       same(a, x->path, b, y->path) && same(a, x->field, b, y->field) &&
	       x->version == y->version &&
	       is_same_store(a, &image_stores(a, &n)[x->store], b,
			     &image_stores(b, &n)[y->store]);
}

static struct supplied *
find_before(const struct supplies *s, const struct image *im,
	    const struct image_store_item *item, const struct image *old)
{
	struct str name = image_str(im, item->name);

	if (old == NULL ||
	    !is_same_place(im, item, old, image_store_item_by_name(old, name)))
		return NULL;
	return supplies_find(s, name);
}

enum status
supplies_renew(struct supplies *s, const struct image *im, const struct image *old)
{
	struct supplies next = { NULL, 0 };
	const struct image_store_item *items = image_store_items(im, &next.n);

	next.of = calloc(next.n + 1, sizeof *next.of);
	if (next.of == NULL)
		return ST_NOMEM;
	for (size_t i = 0; i < next.n; i++) {
		struct supplied *one = &next.of[i],
				*before = find_before(s, im, &items[i], old);
		struct str name = image_str(im, items[i].name);
		*one = (struct supplied){ .why = ST_SOURCE_SILENT };
		if (before != NULL) {
			*one = *before;
			before->value = (struct secret){ 0 };
		}
		memcpy(one->name, name.p,
		       name.n < VAULT_NAME_MAX ? name.n : VAULT_NAME_MAX);
	}
	supplies_done(s);
	*s = next;
	return ST_OK;
}

/* What is brought. */

static enum status
take_value(struct supplied *one, const struct supply_told *told, bool *ret_is_news)
{
	CLEANUP(secret_done) struct secret value = { 0 };
	enum status st = value_read(told->value, VAULT_VALUE_MAX, &value);

	if (st == ST_BAD_SECRET)
		st = ST_SOURCE_BAD;
	if (st == ST_OK && !value_is_good(&value, VAULT_TEXT) &&
	    !value_is_good(&value, VAULT_PEM))
		st = ST_SOURCE_BAD;
	if (st != ST_OK)
		return st;
	*ret_is_news = told->version != one->version || !secret_eq(&value, &one->value);
	secret_done(&one->value);
	one->value = value;
	value = (struct secret){ 0 };
	one->version = told->version;
	return ST_OK;
}

/* The end that comes first: ours, or the one that the source told. */
static void
set_end(struct supplied *one, const struct supply_told *told, uint64_t keep_ms)
{
	uint64_t now_s = clock_wall_us() / 1000000, left_ms = keep_ms;

	if (told->expires_s != 0) {
		uint64_t left_s = told->expires_s > now_s ? told->expires_s - now_s : 0;
		if (left_s < left_ms / 1000)
			left_ms = left_s * 1000;
	}
	one->until_ms = clock_mono_ms() + left_ms;
	one->expires_s = now_s + left_ms / 1000;
}

enum status
supply_take(struct supplied *one, const struct supply_told *told, uint64_t keep_ms,
	    bool *ret_is_news)
{
	bool had = secret_len(&one->value) > 0;
	enum status st = ST_OK;

	*ret_is_news = false;
	if (told->value >= 0)
		st = take_value(one, told, ret_is_news);
	if (st == ST_BAD_MESSAGE)
		return st;
	one->why = st != ST_OK ? st : told->why;
	if (told->value >= 0 && st == ST_OK) {
		set_end(one, told, keep_ms);
		return ST_OK;
	}
	secret_done(&one->value);
	one->version = 0;
	*ret_is_news = had;
	return st;
}

enum status
supply_is_good(const struct supplied *one)
{
	if (secret_len(&one->value) > 0)
		return one->until_ms > clock_mono_ms() ? ST_OK : ST_SOURCE_SILENT;
	return one->why == ST_OK ? ST_SOURCE_SILENT : one->why;
}

/* Ends. */

const struct supplied *
supplies_expire(struct supplies *s)
{
	uint64_t now = clock_mono_ms();

	for (size_t i = 0; i < s->n; i++) {
		struct supplied *one = &s->of[i];
		if (secret_len(&one->value) == 0 || one->until_ms > now)
			continue;
		secret_done(&one->value);
		return one;
	}
	return NULL;
}

int
supplies_wait_ms(const struct supplies *s)
{
	uint64_t now = clock_mono_ms(), least = INT_MAX;
	bool has_any = false;

	for (size_t i = 0; i < s->n; i++) {
		const struct supplied *one = &s->of[i];
		if (secret_len(&one->value) == 0)
			continue;
		uint64_t left = one->until_ms > now ? one->until_ms - now : 0;
		has_any = true;
		if (left < least)
			least = left;
	}
	return has_any ? (int)least : -1;
}

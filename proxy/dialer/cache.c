#include "proxy/dialer/cache.h"

#include <stdlib.h>
#include <string.h>

struct cache_entry {
	struct list used;
	struct cache_key key;
	uint64_t until_ms;
	enum status st;
	uint8_t n;
	struct addr addrs[];
};

static void
drop(struct cache *c, struct cache_entry *e)
{
	(void)map_take(&c->by_key, cache_key_str(&e->key));
	list_remove(&e->used);
	free(e);
	c->n--;
}

void
cache_init(struct cache *c, size_t max)
{
	map_init(&c->by_key, max);
	list_init(&c->used);
	c->n = 0;
	c->max = max;
}

void
cache_done(struct cache *c)
{
	list_each_safe (it, &c->used)
		drop(c, LIST_OF(it, struct cache_entry, used));
	map_done(&c->by_key);
}

void
cache_resize(struct cache *c, size_t max)
{
	cache_done(c);
	cache_init(c, max);
}

struct cache_key
cache_key(struct str name, uint16_t type)
{
	struct cache_key k = { .len = name.n + 2 };

	need(name.n <= CACHE_KEY_MAX - 2);
	k.b[0] = (char)(type >> 8);
	k.b[1] = (char)(type & 0xff);
	memcpy(k.b + 2, name.p, name.n);
	return k;
}

struct str
cache_key_str(const struct cache_key *k)
{
	return str_of(k->b, k->len);
}

bool
cache_get(struct cache *c, const struct cache_key *k, uint64_t now_ms,
	  struct packet_answer *ret_a)
{
	struct cache_entry *e = map_get(&c->by_key, cache_key_str(k));

	if (e == NULL)
		return false;
	if (e->until_ms <= now_ms) {
		drop(c, e);
		return false;
	}
	list_remove(&e->used);
	list_append(&c->used, &e->used);
	ret_a->st = e->st;
	ret_a->ttl = (uint32_t)((e->until_ms - now_ms + 999) / 1000);
	ret_a->n = e->n;
	memcpy(ret_a->addrs, e->addrs, e->n * sizeof(e->addrs[0]));
	return true;
}

void
cache_put(struct cache *c, const struct cache_key *k, uint64_t now_ms,
	  const struct packet_answer *a)
{
	struct cache_entry *old = map_get(&c->by_key, cache_key_str(k));

	if (old != NULL)
		drop(c, old);
	if (c->max == 0 || a->ttl == 0)
		return;
	if (c->n == c->max)
		drop(c, LIST_OF(c->used.next, struct cache_entry, used));
	struct cache_entry *e = malloc(sizeof(*e) + a->n * sizeof(e->addrs[0]));
	if (e == NULL)
		return;
	e->key = *k;
	e->until_ms = now_ms + (uint64_t)a->ttl * 1000;
	e->st = a->st;
	e->n = a->n;
	memcpy(e->addrs, a->addrs, a->n * sizeof(e->addrs[0]));
	if (map_put(&c->by_key, cache_key_str(k), e) != ST_OK) {
		free(e);
		return;
	}
	list_append(&c->used, &e->used);
	c->n++;
}

#include "proxy/dialer/resolve.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/base/num.h"

enum { FLIGHTS = UPSTREAM_WAITING + UPSTREAM_CHANNELS };

struct flight { /* one question on its way, and who waits for it */
	struct resolve *resolve;
	struct list link; /* in resolve->all */
	struct cache_key key;
	struct list waits;
	uint64_t epoch;
};

struct resolve {
	struct loop *loop;
	struct upstream *up;
	struct stats *stats;
	const struct image *image;
	struct cache cache;
	struct map flights; /* by key: those that may be joined */
	struct list all;
	uint64_t epoch; /* of the resolvers and bounds in force */
	uint64_t fingerprint;
	uint32_t ttl_min, ttl_max;
};

enum status
resolve_new(struct loop *l, struct upstream *u, struct resolve **ret_r)
{
	struct resolve *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return ST_NOMEM;
	r->loop = l;
	r->up = u;
	cache_init(&r->cache, 0);
	map_init(&r->flights, FLIGHTS);
	list_init(&r->all);
	*ret_r = r;
	return ST_OK;
}

void
resolve_free(struct resolve *r)
{
	if (r == NULL)
		return;
	list_each_safe (it, &r->all)
		free(LIST_OF(it, struct flight, link));
	map_done(&r->flights);
	cache_done(&r->cache);
	free(r);
}

void
resolve_set_stats(struct resolve *r, struct stats *stats)
{
	r->stats = stats;
	upstream_set_stats(r->up, stats);
}

/* Changes when an old answer may no longer be what would be answered now. */
static uint64_t
fingerprint(const struct image *im)
{
	static const enum option bounds[] = { OPT_RESOLVER_TTL_MIN,
					      OPT_RESOLVER_TTL_MAX,
					      OPT_RESOLVER_CACHE };
	uint64_t h = 0;
	size_t n = 0;
	const struct image_server *servers = image_resolvers(im, &n);

	for (size_t i = 0; i < n; i++) {
		const struct image_server *s = &servers[i];
		h = num_hash(str_of(s->addr.b, sizeof(s->addr.b)), h + s->addr.family);
		h = num_hash(str_of(&s->port, sizeof(s->port)), h);
	}
	for (size_t i = 0; i < COUNT_OF(bounds); i++) {
		uint64_t v = image_number(im, bounds[i]);
		h = num_hash(str_of(&v, sizeof(v)), h);
	}
	return h;
}

void
resolve_set_image(struct resolve *r, const struct image *im)
{
	uint64_t h = fingerprint(im);

	upstream_set_image(r->up, im);
	r->image = im;
	r->ttl_min = (uint32_t)((image_number(im, OPT_RESOLVER_TTL_MIN) + 999) / 1000);
	r->ttl_max = (uint32_t)(image_number(im, OPT_RESOLVER_TTL_MAX) / 1000);
	if (r->epoch > 0 && h == r->fingerprint)
		return;
	r->fingerprint = h;
	r->epoch++;
	cache_resize(&r->cache, (size_t)image_number(im, OPT_RESOLVER_CACHE));
}

static uint32_t
clamp_ttl(const struct resolve *r, const struct packet_answer *a)
{
	if (a->n == 0)
		return RESOLVE_NEGATIVE_S;
	uint32_t ttl = a->ttl > r->ttl_max ? r->ttl_max : a->ttl;
	return ttl < r->ttl_min ? r->ttl_min : ttl;
}

/* Nobody joins it any more; a newer one may have taken its place already. */
static void
leave(struct flight *f)
{
	struct map *flights = &f->resolve->flights;

	list_remove(&f->link);
	if (map_get(flights, cache_key_str(&f->key)) == f)
		(void)map_take(flights, cache_key_str(&f->key));
}

static void
on_upstream(void *ctx, enum status st, const struct packet_answer *got)
{
	struct flight *f = ctx;
	struct resolve *r = f->resolve;
	struct packet_answer a = { .st = st };

	if (st == ST_OK) {
		a = *got;
		a.ttl = clamp_ttl(r, &a);
		if (f->epoch == r->epoch)
			cache_put(&r->cache, &f->key, loop_now_ms(r->loop), &a);
	}
	leave(f);
	/* One by one: who is told may stop others that wait here. */
	while (!list_is_empty(&f->waits)) {
		struct resolve_wait *w =
			LIST_OF(f->waits.next, struct resolve_wait, link);
		resolve_stop(w);
		w->fn(w->ctx, &a);
	}
	free(f);
}

static bool
answer_from_hosts(const struct resolve *r, const struct resolve_question *q,
		  struct packet_answer *a)
{
	uint8_t family = q->type == PACKET_TYPE_A ? 4 : 6;
	size_t n = 0;
	const struct addr *addrs = image_host_addrs(r->image, q->name, &n);

	if (n == 0)
		return false;
	a->st = ST_OK;
	a->ttl = RESOLVE_NEGATIVE_S;
	a->n = 0;
	for (size_t i = 0; i < n && a->n < PACKET_ADDRS_MAX; i++)
		if (addrs[i].family == family)
			a->addrs[a->n++] = addrs[i];
	return true;
}

static enum status
flight_new(struct resolve *r, const struct resolve_question *q,
	   const struct cache_key *key, struct flight **ret_f)
{
	struct flight *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return ST_NOMEM;
	f->resolve = r;
	f->key = *key;
	f->epoch = r->epoch;
	list_init(&f->waits);
	list_append(&r->all, &f->link);
	enum status st = map_put(&r->flights, cache_key_str(key), f);
	if (st == ST_OK) {
		struct upstream_question uq = { .name = q->name,
						.starter = q->sandbox,
						.type = q->type,
						.fn = on_upstream,
						.ctx = f };
		st = upstream_ask(r->up, &uq);
	}
	if (st != ST_OK) {
		leave(f);
		free(f);
		return st;
	}
	*ret_f = f;
	return ST_OK;
}

enum status
resolve_ask(struct resolve *r, const struct resolve_question *q, struct resolve_wait *w,
	    struct packet_answer *ret_a)
{
	struct cache_key key = cache_key(q->name, q->type);

	w->flight = NULL;
	list_init(&w->link);
	if (answer_from_hosts(r, q, ret_a))
		return ST_OK;
	if (cache_get(&r->cache, &key, loop_now_ms(r->loop), ret_a)) {
		stats_add(r->stats, STAT_LOOKUPS_CACHED, 1);
		return ST_OK;
	}
	struct flight *f = map_get(&r->flights, cache_key_str(&key));
	/* A question to resolvers that are no longer in force is not joined. */
	if (f != NULL && f->epoch != r->epoch)
		f = NULL;
	if (f == NULL) {
		enum status st = flight_new(r, q, &key, &f);
		if (st != ST_OK)
			return st;
	}
	w->flight = f;
	list_append(&f->waits, &w->link);
	return ST_AGAIN;
}

void
resolve_stop(struct resolve_wait *w)
{
	if (w->flight == NULL)
		return;
	list_remove(&w->link);
	w->flight = NULL;
}

#include "proxy/worker/limit.h"

#include <stdlib.h>
#include <string.h>

#include "conf/placeholder.h"
#include "proxy/base/num.h"

enum { LIMIT_RECORDS_MAX = 65536, MILLI = 1000 };

void
limits_init(struct limits *all)
{
	*all = (struct limits){ 0 };
	map_init(&all->by_id, LIMIT_RECORDS_MAX);
	list_init(&all->records);
}

static void
limit_free(struct limits *all, struct limit *l)
{
	(void)map_take(&all->by_id, str_from(l->id));
	list_remove(&l->link);
	placeholders_free(l->placeholders);
	free(l->id);
	free(l);
}

void
limits_done(struct limits *all)
{
	list_each_safe (it, &all->records)
		limit_free(all, LIST_OF(it, struct limit, link));
	map_done(&all->by_id);
}

bool
limits_admit(struct limits *all, size_t max)
{
	if (all->open >= max)
		return false;
	all->open++;
	return true;
}

void
limits_leave(struct limits *all)
{
	need(all->open > 0);
	all->open--;
}

static void
limit_fill(struct limit *l, const struct image *im, const struct who *w)
{
	l->handle = w->handle;
	l->max = *image_limits(im, w->limits);
}

/* Whoever has one address of 127.0.0.0/8 has all of them. */
static size_t
net_of(const struct addr *a)
{
	if (a->family != 4)
		return 8;
	return addr_classify(a) == ADDR_LOOPBACK ? 1 : 4;
}

static size_t
slot_of(const struct limits *all, const struct addr *a)
{
	struct str net = str_of(a->b, net_of(a));
	/* Where we lie in memory is nobody's to know. */
	uint64_t salt = (uint64_t)(uintptr_t)all;

	return num_hash(net, salt) % LIMIT_STRANGERS;
}

struct limit_bucket *
limits_stranger(struct limits *all, const struct addr *a)
{
	return &all->strangers[slot_of(all, a)];
}

bool
limit_peer_admit(struct limits *all, const struct addr *a, size_t max,
		 struct limit_peer **ret_p)
{
	struct limit_peer *p = &all->peers[slot_of(all, a)];

	if (p->open >= max)
		return false;
	p->open++;
	*ret_p = p;
	return true;
}

void
limit_peer_leave(struct limit_peer *p)
{
	if (p != NULL)
		p->open--;
}

enum status
limit_of(struct limits *all, const struct image *im, const struct who *w,
	 struct limit **ret_l)
{
	struct limit *l = map_get(&all->by_id, w->id);
	enum status st;

	if (l == NULL) {
		l = calloc(1, sizeof(*l));
		if (l == NULL)
			return ST_NOMEM;
		list_init(&l->link);
		l->id = strndup(w->id.p, w->id.n);
		st = l->id == NULL ? ST_NOMEM : map_put(&all->by_id, w->id, l);
		if (st != ST_OK) {
			free(l->id);
			free(l);
			return st;
		}
		list_append(&all->records, &l->link);
	}
	limit_fill(l, im, w);
	l->users++;
	*ret_l = l;
	return ST_OK;
}

void
limit_release(struct limits *all, struct limit *l)
{
	need(l->users > 0);
	l->users--;
	if (l->users == 0 && l->handle == HANDLE_NONE)
		limit_free(all, l);
}

bool
limit_bucket_take(struct limit_bucket *b, uint64_t now_ms, uint32_t rate,
		  uint32_t burst)
{
	uint64_t full = (uint64_t)burst * MILLI, room, gained;

	if (b->at_ms == 0)
		b->milli = full;
	if (b->milli > full)
		b->milli = full;
	room = full - b->milli;
	/* rate tokens a second are rate thousandths a millisecond; a long pause fills
	 * the bucket, whatever the product would be. */
	gained = now_ms > b->at_ms ? now_ms - b->at_ms : 0;
	gained = rate != 0 && gained > room / rate ? room : gained * rate;
	b->milli += gained < room ? gained : room;
	b->at_ms = now_ms;
	if (b->milli < MILLI)
		return false;
	b->milli -= MILLI;
	return true;
}

enum status
limit_open(struct limit *l, uint64_t now_ms)
{
	if (l->max.bytes != 0 && l->bytes >= l->max.bytes)
		return ST_LIMIT_BYTES;
	if (l->open >= l->max.connections)
		return ST_LIMIT_CONNECTIONS;
	if (!limit_bucket_take(&l->connections, now_ms, l->max.connections_per_second,
			       l->max.connections_burst))
		return ST_LIMIT_RATE;
	l->open++;
	return ST_OK;
}

void
limit_close(struct limit *l)
{
	need(l->open > 0);
	l->open--;
}

enum status
limit_pending(struct limit *l, uint64_t max)
{
	if (l->pending >= max)
		return ST_LIMIT_PENDING;
	l->pending++;
	return ST_OK;
}

void
limit_speaks(struct limit *l)
{
	need(l->pending > 0);
	l->pending--;
}

enum status
limit_request(struct limit *l, uint64_t now_ms)
{
	if (l->max.bytes != 0 && l->bytes >= l->max.bytes)
		return ST_LIMIT_BYTES;
	return limit_bucket_take(&l->requests, now_ms, l->max.requests_per_second,
				 l->max.requests_burst)
		       ? ST_OK
		       : ST_LIMIT_RATE;
}

enum status
limit_bytes(struct limit *l, uint64_t n)
{
	l->bytes = n > UINT64_MAX - l->bytes ? UINT64_MAX : l->bytes + n;
	return l->max.bytes != 0 && l->bytes >= l->max.bytes ? ST_LIMIT_BYTES : ST_OK;
}

/* Nobody of this id any more: the record goes with its last connection. */
static void
limit_orphan(struct limits *all, struct limit *l)
{
	l->handle = HANDLE_NONE;
	if (l->users == 0)
		limit_free(all, l);
}

void
limits_renew(struct limits *all, const struct image *im, struct who_table *t)
{
	list_each_safe (it, &all->records) {
		struct limit *l = LIST_OF(it, struct limit, link);
		const struct who *w = who_by_id(t, str_from(l->id));

		if (w != NULL)
			limit_fill(l, im, w);
		else
			limit_orphan(all, l);
	}
}

void
limits_forget(struct limits *all, uint32_t handle)
{
	list_each_safe (it, &all->records) {
		struct limit *l = LIST_OF(it, struct limit, link);

		if (l->handle == handle)
			limit_orphan(all, l);
	}
}

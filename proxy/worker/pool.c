#include "proxy/worker/pool.h"

#include <stdlib.h>
#include <unistd.h>

struct pool {
	struct flow *flow;
	struct list ready; /* may be asked; oldest first */
	struct list busy;  /* may not, now or ever */
	size_t idle;       /* of ready: without a side */
	uint64_t generation;
};

enum status
pool_new(struct flow *f, struct pool **ret_p)
{
	struct pool *p = calloc(1, sizeof *p);

	if (p == NULL)
		return ST_NOMEM;
	p->flow = f;
	list_init(&p->ready);
	list_init(&p->busy);
	*ret_p = p;
	return ST_OK;
}

/* since_ms says whether it is counted in p->idle. */
static void
set_idle(struct kept *k, uint64_t since_ms)
{
	k->pool->idle += (since_ms != 0);
	k->pool->idle -= (k->since_ms != 0);
	k->since_ms = since_ms;
}

static void
drop(struct kept *k)
{
	set_idle(k, 0);
	list_remove(&k->link);
	leg_free(k->leg);
	free(k);
}

static void
drop_oldest(struct pool *p)
{
	list_each (it, &p->ready) {
		struct kept *k = LIST_OF(it, struct kept, link);
		if (k->since_ms == 0)
			continue;
		drop(k);
		return;
	}
}

static void
on_settled(void *ctx, struct leg *g)
{
	struct kept *k = ctx;
	struct pool *p = k->pool;
	bool is_old = g->is_over || k->generation != p->generation;

	if (is_old && g->sides == 0) {
		drop(k);
		return;
	}
	list_remove(&k->link);
	list_append(is_old || g->is_full ? &p->busy : &p->ready, &k->link);
	if (g->sides > 0)
		return;
	if (k->since_ms == 0 && p->idle == POOL_MAX)
		drop_oldest(p);
	set_idle(k, loop_now_ms(p->flow->loop));
}

static const struct leg_hooks hooks = { .settled = on_settled };

static void
drop_idle(struct list *of)
{
	list_each_safe (it, of) {
		struct kept *k = LIST_OF(it, struct kept, link);
		if (k->leg->sides == 0)
			drop(k);
	}
}

void
pool_flush(struct pool *p, uint64_t generation)
{
	p->generation = generation;
	drop_idle(&p->ready);
}

void
pool_free(struct pool *p)
{
	if (p == NULL)
		return;
	drop_idle(&p->ready);
	drop_idle(&p->busy);
	free(p);
}

static bool
fits(const struct kept *k, const struct pool_key *key)
{
	if (k->handle != key->handle || k->generation != key->generation ||
	    k->revision != key->revision || k->connector != key->connector)
		return false;
	if (k->is_exec != key->is_exec || (k->is_exec && k->conn != key->conn))
		return false;
	if (k->connector != CONNECTOR_NONE)
		return k->conn == key->conn;
	if (key->is_ws && !k->leg->takes_ws)
		return false;
	return k->is_https == key->is_https && k->dest.port == key->dest->port &&
	       dest_same_host(&k->dest, key->dest);
}

static void
taken(struct kept *k)
{
	set_idle(k, 0);
	if (!k->leg->is_full)
		return;
	list_remove(&k->link);
	list_append(&k->pool->busy, &k->link);
}

struct kept *
pool_take(struct pool *p, const struct pool_key *key, bool is_careful,
	  struct side **ret_s)
{
	struct list *before;

	/* Newest first: the least likely to have been closed by its host. */
	for (struct list *it = p->ready.prev; it != &p->ready; it = before) {
		struct kept *k = LIST_OF(it, struct kept, link);
		before = it->prev;
		if (!fits(k, key))
			continue;
		if (is_careful && k->leg->sides == 0 &&
		    !k->leg->class->is_quiet(k->leg)) {
			drop(k);
			continue;
		}
		if (leg_ask(k->leg, ret_s) != ST_OK)
			continue;
		taken(k);
		return k;
	}
	return NULL;
}

static struct kept *
make_kept(pool_make_fn make, struct leg_start *start)
{
	struct kept *k = calloc(1, sizeof *k);

	if (k == NULL)
		return NULL;
	start->hooks = &hooks;
	start->ctx = k;
	k->leg = make(start);
	if (k->leg == NULL) {
		free(k);
		return NULL;
	}
	list_init(&k->link);
	return k;
}

struct kept *
pool_add(struct pool *p, const struct pool_key *key, pool_make_fn make,
	 struct leg_start *start, struct side **ret_s)
{
	int fd = start->stream->fd;
	struct kept *k = make_kept(make, start);

	if (k == NULL) {
		stream_done(start->stream);
		(void)close(fd);
		return NULL;
	}
	k->pool = p;
	k->handle = key->handle;
	k->generation = key->generation;
	k->revision = key->revision;
	k->dest = *key->dest;
	k->is_https = key->is_https;
	k->is_exec = key->is_exec;
	k->connector = key->connector;
	k->conn = key->conn;
	list_append(&p->ready, &k->link);
	if (leg_ask(k->leg, ret_s) != ST_OK) {
		drop(k);
		return NULL;
	}
	taken(k);
	return k;
}

void
pool_tick(struct pool *p, uint64_t now_ms)
{
	list_each_safe (it, &p->ready) {
		struct kept *k = LIST_OF(it, struct kept, link);
		if (k->since_ms != 0 && now_ms - k->since_ms > POOL_IDLE_MS)
			drop(k);
	}
}

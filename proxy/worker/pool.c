#include "proxy/worker/pool.h"

#include <stdlib.h>

struct pool {
	struct loop *loop;
	struct list idle; /* oldest first */
	size_t n;
};

enum status
pool_new(struct loop *l, struct pool **ret_p)
{
	struct pool *p = calloc(1, sizeof *p);

	if (p == NULL)
		return ST_NOMEM;
	p->loop = l;
	list_init(&p->idle);
	*ret_p = p;
	return ST_OK;
}

static void
drop(struct pool *p, struct leg *g)
{
	p->n--;
	leg_free(g, p->loop);
}

void
pool_flush(struct pool *p)
{
	list_each_safe (it, &p->idle)
		drop(p, LIST_OF(it, struct leg, link));
}

void
pool_free(struct pool *p)
{
	if (p == NULL)
		return;
	pool_flush(p);
	free(p);
}

struct leg *
pool_take(struct pool *p, uint32_t handle, const struct dest *d)
{
	/* Newest first: the least likely to have been closed by its host. */
	for (struct list *it = p->idle.prev; it != &p->idle; it = it->prev) {
		struct leg *g = LIST_OF(it, struct leg, link);
		if (!g->is_clean || g->handle != handle || g->dest.port != d->port ||
		    !dest_same_host(&g->dest, d))
			continue;
		list_remove(&g->link);
		p->n--;
		return g;
	}
	return NULL;
}

/* EOF, a reset, or bytes out of turn: in each case it can't be used again. */
static void
idle_event(void *ctx, unsigned events)
{
	struct leg *g = ctx;

	(void)events;
	g->is_clean = false;
	loop_io_want(&g->io, 0); /* swept by the next take or tick */
}

void
pool_give(struct pool *p, struct leg *g, uint64_t now_ms)
{
	if (p->n == POOL_MAX)
		drop(p, LIST_OF(p->idle.next, struct leg, link));
	g->since_ms = now_ms;
	g->io.fn = idle_event;
	g->io.ctx = g;
	list_append(&p->idle, &g->link);
	p->n++;
	loop_io_want(&g->io, LOOP_READ);
}

void
pool_tick(struct pool *p, uint64_t now_ms)
{
	list_each_safe (it, &p->idle) {
		struct leg *g = LIST_OF(it, struct leg, link);
		if (!g->is_clean || now_ms - g->since_ms > POOL_IDLE_MS)
			drop(p, g);
	}
}

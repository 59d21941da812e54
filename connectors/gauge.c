#include "connectors/gauge.h"

#include <stdlib.h>

static uint32_t
place_of(const struct image *im, const struct image *old, size_t index)
{
	size_t n;
	const struct image_connector *all = image_connectors(old, &n);

	return image_connector_by_name(im, image_str(old, all[index].name));
}

enum status
gauges_renew(struct connector *all, const struct image *old)
{
	size_t n = 0;

	(void)image_connectors(all->role.image, &n);
	struct gauge *next = calloc(n + 1, sizeof *next);
	if (next == NULL)
		return ST_NOMEM;
	for (size_t i = 0; old != NULL && i < all->gauges_n; i++) {
		uint32_t at = place_of(all->role.image, old, i);
		if (at != CONNECTOR_NONE)
			next[at] = all->gauges[i];
	}
	free(all->gauges);
	all->gauges = next;
	all->gauges_n = n;
	return ST_OK;
}

static bool
take(struct gauge *g, const struct image_connector *c, uint64_t now_ms)
{
	uint64_t burst =
		c->requests_burst > 0 ? c->requests_burst : c->requests_per_second;
	uint64_t most = burst * 1000, past = now_ms - g->at_ms;

	if (c->requests_per_second == 0)
		return true;
	/* A rate of r a second fills r thousandths a millisecond. */
	if (g->at_ms == 0 || past > most / c->requests_per_second)
		g->milli = most;
	else
		g->milli += past * c->requests_per_second;
	if (g->milli > most)
		g->milli = most;
	g->at_ms = now_ms;
	if (g->milli < 1000)
		return false;
	g->milli -= 1000;
	return true;
}

enum status
gauge_enter(struct connector *all, uint32_t index)
{
	const struct image_connector *c = connector_at(all, index);
	struct gauge *g;

	if (c == NULL || index >= all->gauges_n)
		return ST_RELOADED;
	g = &all->gauges[index];
	if (c->concurrent > 0 && g->running >= c->concurrent)
		return ST_LIMIT_CONNECTIONS;
	if (!take(g, c, loop_now_ms(all->loop)))
		return ST_LIMIT_RATE;
	g->running++;
	return ST_OK;
}

void
gauge_leave(struct connector *all, uint32_t index)
{
	/* A connector that a reload took away left with its numbers. */
	if (index < all->gauges_n && all->gauges[index].running > 0)
		all->gauges[index].running--;
}

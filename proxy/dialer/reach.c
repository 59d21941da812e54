#include "proxy/dialer/reach.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_FIXED = 8 + 2 + 1, KEY_MAX = KEY_FIXED + STR_NAME_MAX + REACH_HOST_MAX };

struct key {
	size_t n;
	char b[KEY_MAX];
};

struct grant {
	struct list link; /* in reach->granted */
	size_t key_n;
	char key[];
};

void
reach_init(struct reach *r, size_t max)
{
	*r = (struct reach){ .max = max };
	map_init(&r->by_key, max);
	list_init(&r->granted);
}

void
reach_done(struct reach *r)
{
	list_each_safe (it, &r->granted)
		free(LIST_OF(it, struct grant, link));
	map_done(&r->by_key);
}

/* The server's length stands in it, so that no two endpoints have one key. */
static bool
make_key(const struct reach_point *p, struct key *ret_k)
{
	char *at = ret_k->b;

	if (p->cookie == 0 || p->port == 0 || p->server.n == 0 ||
	    p->server.n > STR_NAME_MAX || p->host.n == 0 || p->host.n > REACH_HOST_MAX)
		return false;
	memcpy(at, &p->cookie, 8);
	memcpy(at + 8, &p->port, 2);
	at[10] = (char)p->server.n;
	memcpy(at + KEY_FIXED, p->server.p, p->server.n);
	memcpy(at + KEY_FIXED + p->server.n, p->host.p, p->host.n);
	ret_k->n = KEY_FIXED + p->server.n + p->host.n;
	return true;
}

static void
drop(struct reach *r, struct grant *g)
{
	(void)map_take(&r->by_key, str_of(g->key, g->key_n));
	list_remove(&g->link);
	r->n--;
	free(g);
}

static enum status
add(struct reach *r, const struct key *k)
{
	struct grant *g = calloc(1, sizeof *g + k->n);

	if (g == NULL)
		return ST_NOMEM;
	memcpy(g->key, k->b, k->n);
	g->key_n = k->n;
	if (r->n == r->max)
		drop(r, LIST_OF(r->granted.next, struct grant, link));
	enum status st = map_put(&r->by_key, str_of(k->b, k->n), g);
	if (st != ST_OK) {
		free(g);
		return st;
	}
	list_append(&r->granted, &g->link);
	r->n++;
	return ST_OK;
}

enum status
reach_grant(struct reach *r, const struct reach_point *p)
{
	struct key k;

	if (!make_key(p, &k))
		return ST_BAD_MESSAGE;
	struct grant *g = map_get(&r->by_key, str_of(k.b, k.n));
	if (g == NULL)
		return add(r, &k);
	list_remove(&g->link);
	list_append(&r->granted, &g->link);
	return ST_OK;
}

bool
reach_is_granted(const struct reach *r, const struct reach_point *p)
{
	struct key k;

	return make_key(p, &k) && map_get(&r->by_key, str_of(k.b, k.n)) != NULL;
}

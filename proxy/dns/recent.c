#include "proxy/dns/recent.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/base/buf.h"

enum { SECOND_MS = 1000 };

struct entry {
	struct list link;
	uint64_t until_ms, rowed_ms; /* rowed_ms: when its last row was written */
	uint32_t handle, repeats;    /* repeats: since then, not told yet */
	uint16_t type;
	size_t n, key_n;
	struct addr *addrs;       /* n of them */
	char key[RECENT_KEY_MAX]; /* key_n octets, the name from KEY_NAME on */
};

enum { KEY_NAME = 6 };

/* 0: the name is too long to be one. */
static size_t
put_key(char key[RECENT_KEY_MAX], const struct recent_question *q)
{
	if (q->name.n > RECENT_KEY_MAX - KEY_NAME)
		return 0;
	memcpy(key, &q->handle, sizeof(q->handle));
	memcpy(key + sizeof(q->handle), &q->type, sizeof(q->type));
	memcpy(key + KEY_NAME, q->name.p, q->name.n);
	return KEY_NAME + q->name.n;
}

/* How many were answered without a row of their own.  The ring may be full: then they
 * wait, and the next question that wants a row is refused. */
static void
tell_repeats(struct recent *r, struct entry *e)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct row row;

	buf_init(&b, 64);
	if (e->repeats == 0)
		return;
	row = role_row_begin(r->role, ROW_DNS, who_by_handle(r->role->who, e->handle));
	buf_putf(&b, "%s, asked %u times more within a second",
		 e->type == DNSMSG_A ? "A" : "AAAA", e->repeats);
	row.host = str_of(e->key + KEY_NAME, e->key_n - KEY_NAME);
	if (buf_finish(&b, &row.detail) == ST_OK && role_row(r->role, &row) == ST_OK)
		e->repeats = 0;
}

static void
drop(struct recent *r, struct entry *e)
{
	tell_repeats(r, e);
	(void)map_take(&r->by_key, str_of(e->key, e->key_n));
	list_remove(&e->link);
	free(e->addrs);
	free(e);
}

static void
on_tick(void *ctx)
{
	struct recent *r = ctx;
	uint64_t now = loop_now_ms(r->tick.loop);

	list_each_safe (it, &r->all) {
		struct entry *e = LIST_OF(it, struct entry, link);

		if (e->until_ms <= now)
			drop(r, e);
		else if (now - e->rowed_ms >= SECOND_MS)
			tell_repeats(r, e);
	}
	if (!list_is_empty(&r->all))
		loop_timer_set(&r->tick, SECOND_MS);
}

void
recent_init(struct recent *r, struct role_self *role, struct loop *l)
{
	r->role = role;
	loop_timer_init(&r->tick, l, on_tick, r);
	map_init(&r->by_key, RECENT_MAX);
	list_init(&r->all);
}

void
recent_done(struct recent *r)
{
	recent_forget(r, HANDLE_NONE);
	map_done(&r->by_key);
	loop_timer_clear(&r->tick);
}

bool
recent_find(struct recent *r, const struct recent_question *q,
	    struct recent_answer *ret_a, bool *ret_row)
{
	char key[RECENT_KEY_MAX];
	size_t n = put_key(key, q);
	struct entry *e = map_get(&r->by_key, str_of(key, n));
	uint64_t now = loop_now_ms(r->tick.loop);

	if (e == NULL || e->until_ms <= now)
		return false;
	*ret_row = now - e->rowed_ms >= SECOND_MS;
	if (*ret_row) {
		tell_repeats(r, e);
		e->rowed_ms = now;
	} else {
		e->repeats++;
	}
	memcpy(ret_a->addrs, e->addrs, e->n * sizeof(*e->addrs));
	ret_a->n = e->n;
	ret_a->ttl = (uint32_t)((e->until_ms - now + SECOND_MS - 1) / SECOND_MS);
	return true;
}

static struct entry *
entry_new(const struct recent_question *q, const struct recent_answer *a)
{
	struct entry *e = calloc(1, sizeof(*e));

	if (e == NULL)
		return NULL;
	e->addrs = calloc(a->n + 1, sizeof(*e->addrs));
	e->key_n = put_key(e->key, q);
	if (e->addrs == NULL || e->key_n == 0) {
		free(e->addrs);
		free(e);
		return NULL;
	}
	memcpy(e->addrs, a->addrs, a->n * sizeof(*a->addrs));
	e->n = a->n;
	e->handle = q->handle;
	e->type = q->type;
	return e;
}

void
recent_keep(struct recent *r, const struct recent_question *q,
	    const struct recent_answer *a)
{
	uint64_t now = loop_now_ms(r->tick.loop);
	struct entry *e = a->ttl == 0 ? NULL : entry_new(q, a), *old;

	if (e == NULL)
		return;
	e->until_ms = now + (uint64_t)a->ttl * SECOND_MS;
	e->rowed_ms = now; /* the question that led here has a row */
	old = map_get(&r->by_key, str_of(e->key, e->key_n));
	if (old == NULL && r->by_key.len == RECENT_MAX)
		old = LIST_OF(r->all.next, struct entry, link);
	if (old != NULL)
		drop(r, old);
	if (map_put(&r->by_key, str_of(e->key, e->key_n), e) != ST_OK) {
		free(e->addrs);
		free(e);
		return;
	}
	list_append(&r->all, &e->link);
	if (!loop_timer_is_set(&r->tick))
		loop_timer_set(&r->tick, SECOND_MS);
}

void
recent_forget(struct recent *r, uint32_t handle)
{
	list_each_safe (it, &r->all) {
		struct entry *e = LIST_OF(it, struct entry, link);

		if (handle == HANDLE_NONE || e->handle == handle)
			drop(r, e);
	}
}

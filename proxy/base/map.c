#include "proxy/base/map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "proxy/base/num.h"

enum { FIRST_CAP = 16 };

struct map_slot {
	char *key;
	uint32_t key_len, hash;
	void *value; /* NULL: empty */
};

void
map_init(struct map *m, size_t max)
{
	*m = (struct map){ .max = max };
	need(getrandom(&m->salt, sizeof m->salt, 0) == (ssize_t)sizeof m->salt);
}

void
map_done(struct map *m)
{
	for (size_t i = 0; i < m->cap; i++)
		free(m->slots[i].key);
	free(m->slots);
	*m = (struct map){ .max = m->max, .salt = m->salt };
}

static uint32_t
hash_of(const struct map *m, struct str key)
{
	return (uint32_t)num_hash(key, m->salt);
}

/* The slot that holds key, or the empty one where it belongs.  cap > len holds.  Keys
 * lie elsewhere in memory: one is looked at only where the hash is the same. */
static size_t
find(const struct map *m, struct str key, uint32_t hash)
{
	size_t i = hash & (m->cap - 1);

	while (m->slots[i].value != NULL &&
	       (m->slots[i].hash != hash ||
		!str_eq(str_of(m->slots[i].key, m->slots[i].key_len), key)))
		i = (i + 1) & (m->cap - 1);
	return i;
}

/* A key that is nowhere in it goes to the first empty slot from its place on. */
static void
place(struct map *m, const struct map_slot *s)
{
	size_t i = s->hash & (m->cap - 1);

	while (m->slots[i].value != NULL)
		i = (i + 1) & (m->cap - 1);
	m->slots[i] = *s;
}

void *
map_get(const struct map *m, struct str key)
{
	if (m->len == 0)
		return NULL;
	return m->slots[find(m, key, hash_of(m, key))].value;
}

static bool
grow(struct map *m)
{
	struct map bigger = *m;

	bigger.cap = m->cap == 0 ? FIRST_CAP : m->cap * 2;
	bigger.slots = calloc(bigger.cap, sizeof *bigger.slots);
	if (bigger.slots == NULL)
		return false;
	for (size_t i = 0; i < m->cap; i++)
		if (m->slots[i].value != NULL)
			place(&bigger, &m->slots[i]);
	free(m->slots);
	*m = bigger;
	return true;
}

enum status
map_put(struct map *m, struct str key, void *value)
{
	need(value != NULL && key.n <= UINT32_MAX);
	uint32_t hash = hash_of(m, key);
	if (m->cap > 0) {
		struct map_slot *have = &m->slots[find(m, key, hash)];
		if (have->value != NULL) {
			have->value = value;
			return ST_OK;
		}
	}
	if (m->len >= m->max)
		return ST_TOO_BIG;
	if (m->len + 1 > m->cap / 4 * 3 && !grow(m))
		return ST_NOMEM;
	char *copy = malloc(key.n + (key.n == 0));
	if (copy == NULL)
		return ST_NOMEM;
	if (key.n > 0)
		memcpy(copy, key.p, key.n);
	place(m, &(struct map_slot){ copy, (uint32_t)key.n, hash, value });
	m->len++;
	return ST_OK;
}

void *
map_take(struct map *m, struct str key)
{
	if (m->len == 0)
		return NULL;
	size_t i = find(m, key, hash_of(m, key));
	void *value = m->slots[i].value;
	if (value == NULL)
		return NULL;
	free(m->slots[i].key);
	m->slots[i] = (struct map_slot){ 0 };
	m->len--;
	/* Later slots of the same run may now be unreachable: put them in again. */
	for (size_t j = (i + 1) & (m->cap - 1); m->slots[j].value != NULL;
	     j = (j + 1) & (m->cap - 1)) {
		struct map_slot s = m->slots[j];
		m->slots[j] = (struct map_slot){ 0 };
		place(m, &s);
	}
	return value;
}

bool
map_next(const struct map *m, size_t *at, struct str *ret_key, void **ret_value)
{
	while (*at < m->cap && m->slots[*at].value == NULL)
		(*at)++;
	if (*at >= m->cap)
		return false;
	const struct map_slot *s = &m->slots[(*at)++];
	*ret_key = str_of(s->key, s->key_len);
	*ret_value = s->value;
	return true;
}

#include "proxy/base/arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/base/num.h"

enum { BLOCK = 4096 };

struct arena_block {
	struct arena_block *next;
	size_t len, cap;
	alignas(max_align_t) char bytes[];
};

void
arena_init(struct arena *a, size_t max)
{
	*a = (struct arena){ .max = max };
}

void
arena_done(struct arena *a)
{
	while (a->blocks != NULL) {
		struct arena_block *next = a->blocks->next;
		free(a->blocks);
		a->blocks = next;
	}
	*a = (struct arena){ .max = a->max };
}

static struct arena_block *
add_block(struct arena *a, size_t n)
{
	size_t cap = num_max(n, BLOCK - sizeof(struct arena_block));

	if (cap > a->max - a->used)
		cap = n;
	if (cap > a->max - a->used)
		return NULL;
	struct arena_block *b = malloc(sizeof *b + cap);
	if (b == NULL)
		return NULL;
	b->len = 0;
	b->cap = cap;
	b->next = a->blocks;
	a->blocks = b;
	a->used += cap;
	return b;
}

void *
arena_alloc(struct arena *a, size_t n)
{
	size_t unit = alignof(max_align_t), want = 0;
	struct arena_block *b = a->blocks;

	if (!num_add(n, unit - 1, &want)) {
		a->is_over = true;
		return NULL;
	}
	want -= want % unit;
	if (b == NULL || want > b->cap - b->len)
		b = add_block(a, want);
	if (b == NULL) {
		a->is_over = true;
		return NULL;
	}
	/* Here and not the block: most of one is never used. */
	void *p = memset(b->bytes + b->len, 0, want);
	b->len += want;
	return p;
}

struct str
arena_copy(struct arena *a, struct str s)
{
	char *p = arena_alloc(a, s.n + (s.n == 0));

	if (p == NULL)
		return (struct str){ NULL, 0 };
	if (s.n > 0)
		memcpy(p, s.p, s.n);
	return (struct str){ p, s.n };
}

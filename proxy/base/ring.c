#include "proxy/base/ring.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/base/num.h"

static void
check(const struct ring *r)
{
	need(r->cap > 0 && r->len <= r->cap && r->head < r->cap);
	need(r->p != NULL || r->len == 0);
}

void
ring_init(struct ring *r, size_t cap)
{
	need(cap > 0);
	*r = (struct ring){ .cap = cap };
}

void
ring_done(struct ring *r)
{
	free(r->p);
	*r = (struct ring){ .cap = r->cap };
}

void
ring_trim(struct ring *r)
{
	if (r->len == 0)
		ring_done(r);
}

size_t
ring_space(const struct ring *r)
{
	check(r);
	return r->cap - r->len;
}

bool
ring_is_empty(const struct ring *r)
{
	return r->len == 0;
}

size_t
ring_write(struct ring *r, struct str s)
{
	check(r);
	if (s.n == 0) /* an empty view may have no address */
		return 0;
	if (r->p == NULL)
		r->p = malloc(r->cap);
	if (r->p == NULL)
		return 0;
	size_t n = num_min(s.n, r->cap - r->len);
	size_t tail = (r->head + r->len) % r->cap;
	size_t first = num_min(n, r->cap - tail);
	memcpy(r->p + tail, s.p, first);
	memcpy(r->p, s.p + first, n - first);
	r->len += n;
	return n;
}

struct str
ring_peek(const struct ring *r)
{
	check(r);
	if (r->len == 0)
		return (struct str){ "", 0 };
	return (struct str){ r->p + r->head, num_min(r->len, r->cap - r->head) };
}

void
ring_consume(struct ring *r, size_t n)
{
	check(r);
	need(n <= r->len);
	r->len -= n;
	r->head = r->len == 0 ? 0 : (r->head + n) % r->cap;
}

static void
reverse(char *p, size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		char c = p[i];
		p[i] = p[n - 1 - i];
		p[n - 1 - i] = c;
	}
}

struct str
ring_linear(struct ring *r)
{
	check(r);
	if (r->len > 0 &&
	    r->len > r->cap - r->head) { /* rotate in place: three reversals */
		reverse(r->p, r->head);
		reverse(r->p + r->head, r->cap - r->head);
		reverse(r->p, r->cap);
		r->head = 0;
	}
	return ring_peek(r);
}

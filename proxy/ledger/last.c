#include "proxy/ledger/last.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/base/clock.h"
#include "proxy/base/enc.h"
#include "proxy/base/num.h"

enum { HOST_MAX = 280, RULE_MAX = 200 };

struct refusal {
	uint64_t id, time_us;
	enum status reason;
	uint16_t host_n, rule_n;
	char host[HOST_MAX], rule[RULE_MAX];
};

struct last_of {
	struct list link;
	size_t next, count; /* a ring of refusals */
	struct refusal rows[LAST_ROWS];
	size_t n;
	char sandbox[];
};

void
last_init(struct last *l)
{
	map_init(&l->by_sandbox, LAST_SANDBOXES);
	list_init(&l->by_age);
}

static void
forget(struct last *l, struct last_of *x)
{
	(void)map_take(&l->by_sandbox, str_of(x->sandbox, x->n));
	list_remove(&x->link);
	free(x);
}

void
last_done(struct last *l)
{
	list_each_safe (it, &l->by_age)
		forget(l, LIST_OF(it, struct last_of, link));
	map_done(&l->by_sandbox);
}

static struct last_of *
make(struct last *l, struct str sandbox)
{
	struct last_of *x = calloc(1, sizeof *x + sandbox.n);

	if (x == NULL)
		return NULL;
	x->n = sandbox.n;
	if (sandbox.n > 0)
		memcpy(x->sandbox, sandbox.p, sandbox.n);
	if (l->by_sandbox.len == LAST_SANDBOXES)
		forget(l, LIST_OF(l->by_age.next, struct last_of, link));
	if (map_put(&l->by_sandbox, sandbox, x) != ST_OK) {
		free(x);
		return NULL;
	}
	list_init(&x->link);
	return x;
}

static uint16_t
copy(char *to, size_t room, struct str s)
{
	size_t n = num_min(room, s.n);

	if (n > 0)
		memcpy(to, s.p, n);
	return (uint16_t)n;
}

/* A batch that failed to commit comes again. */
static bool
has(const struct last_of *x, uint64_t id)
{
	for (size_t i = 0; i < x->count; i++)
		if (x->rows[i].id == id)
			return true;
	return false;
}

void
last_add(struct last *l, const struct row *r)
{
	if (!row_is_refusal(r))
		return;
	struct last_of *x = map_get(&l->by_sandbox, r->sandbox);
	if (x == NULL)
		x = make(l, r->sandbox);
	if (x == NULL || has(x, r->id))
		return;
	list_remove(&x->link);
	list_append(&l->by_age, &x->link);
	struct refusal *f = &x->rows[x->next];
	x->next = (x->next + 1) % LAST_ROWS;
	x->count = num_min(x->count + 1, LAST_ROWS);
	f->id = r->id;
	f->time_us = r->time_us;
	f->reason = r->reason;
	f->host_n = copy(f->host, sizeof f->host, r->host);
	f->rule_n = copy(f->rule, sizeof f->rule, r->rule);
}

static void
put_refusal(struct buf *b, const struct refusal *f)
{
	const struct status_words *w = status_words(f->reason);

	buf_put(b, STR("{\"id\":\""));
	enc_put_id(b, f->id);
	buf_put(b, STR("\",\"time\":\""));
	clock_put(b, f->time_us);
	buf_put(b, STR("\",\"code\":"));
	buf_put_json(b, str_from(w->code));
	buf_put(b, STR(",\"host\":"));
	buf_put_json(b, str_of(f->host, f->host_n));
	buf_put(b, STR(",\"message\":"));
	buf_put_json(b, str_from(w->sentence));
	buf_put(b, STR(",\"hint\":"));
	buf_put_json(b, str_from(w->hint));
	buf_put(b, STR(",\"rule\":"));
	buf_put_json(b, str_of(f->rule, f->rule_n));
	buf_putc(b, '}');
}

void
last_put_json(const struct last *l, struct str sandbox, size_t most, struct buf *b)
{
	const struct last_of *x = map_get(&l->by_sandbox, sandbox);

	buf_putc(b, '[');
	for (size_t i = 1; x != NULL && i <= num_min(x->count, most); i++) {
		if (i > 1)
			buf_putc(b, ',');
		put_refusal(b, &x->rows[(x->next + LAST_ROWS - i) % LAST_ROWS]);
	}
	buf_putc(b, ']');
}

#include "conf/placeholder.h"

#include <stdlib.h>

#include "proxy/base/num.h"

/* sets[i] looks for NEEDLES_MAX of them. */
struct placeholders {
	struct placeholder *list;
	struct needle_set **sets;
	size_t n, sets_n;
};

static bool
may_use(const struct image *im, uint32_t connector, const struct who *w)
{
	const struct image_sandbox *s = image_sandbox_by_id(im, w->id);
	struct str tenant = s != NULL ? image_str(im, s->tenant) : str_of(NULL, 0);

	return w->may.policy != POLICY_NONE &&
	       policy_may_use(im, connector, w->may.policy, tenant, w->user);
}

static enum status
add(struct placeholders *p, const struct shape_owner *o, uint32_t connector,
    struct str shape)
{
	char *text = malloc(shape.n);

	if (text == NULL)
		return ST_NOMEM;
	shape_fill(o, shape, text);
	p->list[p->n++] = (struct placeholder){ connector, str_of(text, shape.n) };
	return ST_OK;
}

static enum status
add_all(struct placeholders *p, const struct image *im, const struct sip_key *key,
	const struct who *w)
{
	size_t n;
	const struct image_connector *all = image_connectors(im, &n);
	enum status st = ST_OK;

	p->list = calloc(n + 1, sizeof(*p->list));
	if (p->list == NULL)
		return ST_NOMEM;
	for (uint32_t i = 0; i < n && st == ST_OK; i++) {
		struct str shape = image_str(im, all[i].auth.placeholder);
		const struct shape_owner o = { key, w->id, image_str(im, all[i].name) };

		if (shape_is_good(shape) && may_use(im, i, w))
			st = add(p, &o, i, shape);
	}
	return st;
}

static enum status
add_set(struct placeholders *p, size_t from, size_t n)
{
	struct needle needles[NEEDLES_MAX];
	enum status st;

	for (size_t i = 0; i < n; i++)
		needles[i] = (struct needle){ .text = p->list[from + i].text };
	st = needle_set_new(needles, n, &p->sets[p->sets_n]);
	p->sets_n += st == ST_OK;
	return st;
}

static enum status
add_sets(struct placeholders *p)
{
	enum status st = ST_OK;

	p->sets = calloc(p->n / NEEDLES_MAX + 1, sizeof(struct needle_set *));
	if (p->sets == NULL)
		return ST_NOMEM;
	for (size_t at = 0; at < p->n && st == ST_OK; at += NEEDLES_MAX)
		st = add_set(p, at, num_min(p->n - at, NEEDLES_MAX));
	return st;
}

enum status
placeholders_new(const struct image *im, const struct sip_key *key, const struct who *w,
		 struct placeholders **ret_p)
{
	struct placeholders *p = calloc(1, sizeof(*p));
	enum status st;

	if (p == NULL)
		return ST_NOMEM;
	st = add_all(p, im, key, w);
	if (st == ST_OK)
		st = add_sets(p);
	if (st == ST_OK)
		*ret_p = p;
	else
		placeholders_free(p);
	return st;
}

void
placeholders_free(struct placeholders *p)
{
	if (p == NULL)
		return;
	for (size_t i = 0; i < p->sets_n; i++)
		needle_set_free(p->sets[i]);
	for (size_t i = 0; i < p->n; i++) {
		union {
			const char *in;
			char *out;
		} own = { .in = p->list[i].text.p };
		free(own.out);
	}
	free(p->sets);
	free(p->list);
	free(p);
}

const struct placeholder *
placeholders_all(const struct placeholders *p, size_t *ret_n)
{
	*ret_n = p->n;
	return p->list;
}

/* One set over the view.  True: *ret_at is the end of the first match; else what may be
 * passed on, for all that this set knows. */
static bool
look(const struct needle_set *set, struct str view, size_t *ret_needle, size_t *ret_at)
{
	struct needle_run run = { 0 };
	struct needle_thread match = { 0 };

	/* What repeats itself so much that threads run out is taken for one. */
	if (needle_read(set, &run, view, &match) || run.st != ST_OK) {
		*ret_needle = match.needle;
		*ret_at = (size_t)run.pos;
		return true;
	}
	*ret_at = (size_t)needle_first(&run);
	return false;
}

const struct placeholder *
placeholders_sift(const struct placeholders *p, struct str view, bool is_last,
		  size_t *ret_pass)
{
	const struct placeholder *found = NULL;
	size_t pass = view.n, end = view.n + 1;

	for (size_t i = 0; i < p->sets_n; i++) {
		size_t needle = 0, at = 0;
		bool is_hit = look(p->sets[i], view, &needle, &at);

		if (is_hit && at < end) {
			found = &p->list[i * NEEDLES_MAX + needle];
			end = at;
		} else if (!is_hit) {
			pass = num_min(pass, at);
		}
	}
	if (found != NULL)
		*ret_pass = end;
	else
		*ret_pass = is_last ? view.n : pass;
	return found;
}

const struct placeholder *
placeholders_find(const struct placeholders *p, struct str text)
{
	size_t pass;

	return placeholders_sift(p, text, true, &pass);
}

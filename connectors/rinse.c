#include "connectors/rinse.h"

#include <string.h>

#include "connectors/scrub_head.h"

enum { INFLATED = 32 * 1024, TEXTS_MAX = 3 * 8192 };

void
rinse_init(struct rinse *f)
{
	*f = (struct rinse){ .needles_n = 0 };
	ring_init(&f->coded, RINSE_RING);
}

void
rinse_done(struct rinse *f)
{
	scrub_done(&f->scrub);
	needle_set_free(f->set);
	inflate_free(f->inflate);
	ring_done(&f->coded);
	cred_done(&f->text);
	cred_done(&f->mask);
	f->set = NULL;
	f->inflate = NULL;
	f->needles_n = 0;
}

void
rinse_own(struct rinse *f, const struct shape_owner *o, struct str shape)
{
	f->owner = *o;
	f->shape = shape;
}

/* What stands for the text: this sandbox's placeholder, if that is as long; else what
 * looks like the text, as a placeholder would. */
static void
put_mask(struct rinse *f, struct str text)
{
	char mask[NEEDLE_MAX];

	if (f->owner.key == NULL)
		memset(mask, '*', text.n);
	else if (f->shape.n == text.n && shape_is_good(f->shape))
		shape_fill(&f->owner, f->shape, mask);
	else
		shape_like(&f->owner, text, mask);
	cred_put(&f->mask, str_of(mask, text.n));
	explicit_bzero(mask, text.n);
}

void
rinse_add(struct rinse *f, struct str text)
{
	size_t mark;

	if (f->text.p == NULL) {
		cred_init(&f->text, (size_t)RINSE_TEXTS * TEXTS_MAX);
		cred_init(&f->mask, (size_t)RINSE_TEXTS * TEXTS_MAX);
	}
	if (text.n < NEEDLE_MIN || text.n > NEEDLE_MAX || f->needles_n == RINSE_TEXTS)
		return;
	mark = cred_mark(&f->text);
	cred_put(&f->text, text);
	put_mask(f, text);
	if (f->text.st != ST_OK || f->mask.st != ST_OK)
		return;
	f->needle[f->needles_n++] = (struct needle){ cred_since(&f->text, mark),
						     str_of(f->mask.p + mark, text.n) };
}

enum status
rinse_begin(struct rinse *f)
{
	enum status st = f->text.p == NULL ? ST_OK : f->text.st;

	if (st == ST_OK && f->needles_n > 0)
		st = needle_set_new(f->needle, f->needles_n, &f->set);
	/* One that repeats itself so much that no stream can be searched for it. */
	if (st == ST_CONFLICT)
		st = ST_BAD_SECRET;
	if (st == ST_OK && f->set != NULL)
		scrub_init(&f->scrub, f->set);
	return st;
}

bool
rinse_is_on(const struct rinse *f)
{
	return f->set != NULL;
}

enum status
rinse_fields(struct rinse *f, struct head *h)
{
	return f->set == NULL ? ST_OK : scrub_fields(f->set, h, &f->count);
}

enum status
rinse_decode(struct rinse *f, struct str codings)
{
	static const struct inflate_limits limits = { INFLATE_MOST, INFLATE_RATIO };

	return inflate_new(codings, &limits, &f->inflate);
}

/* One plain piece, searched, to the other side. */
static enum status
put_plain(struct rinse *f, struct str in, bool is_last, const struct rinse_space *space,
	  struct side *to)
{
	struct str out = in;
	enum status st = ST_OK;

	if (f->set != NULL) {
		if (in.n + scrub_room(&f->scrub) > space->n)
			return ST_INTERNAL;
		st = scrub_feed(&f->scrub, in, is_last, space->p, &out);
	}
	if (st != ST_OK)
		return st;
	if (out.n == 0)
		return ST_OK;
	/* A view of what came stays until the batch; our own space does not. */
	if (out.p >= in.p && out.p <= in.p + in.n && f->inflate == NULL)
		side_put_body(to, out);
	else
		side_put_copy(to, out);
	return ST_OK;
}

/* Decoded a piece at a time, as long as the client takes it. */
static enum status
put_coded(struct rinse *f, const struct rinse_space *space, struct side *to)
{
	char plain[INFLATED];
	enum status st = ST_OK;

	while (st == ST_OK) {
		struct str in = ring_peek(&f->coded);
		size_t all = in.n, n = 0;
		bool is_last = f->is_last && in.n == f->coded.len;
		enum status got =
			inflate_feed(f->inflate, &in, is_last, plain, sizeof plain, &n);
		ring_consume(&f->coded, all - in.n);
		if (got != ST_OK && got != ST_END)
			return got;
		st = put_plain(f, str_of(plain, n), got == ST_END, space, to);
		if (st != ST_OK || got == ST_END)
			return st;
		if (n == 0 && all == in.n)
			return ST_OK; /* more must come first */
		st = side_flush(to);
	}
	return st;
}

enum status
rinse_put(struct rinse *f, struct str in, bool is_last, const struct rinse_space *space,
	  struct side *to)
{
	f->is_last = f->is_last || is_last;
	if (f->inflate == NULL)
		return put_plain(f, in, is_last, space, to);
	if (in.n > 0 && ring_write(&f->coded, in) != in.n)
		return ST_UPSTREAM_BAD;
	return put_coded(f, space, to);
}

#include "connectors/rinse.h"

#include <string.h>

#include "connectors/scrub_head.h"
#include "proxy/base/num.h"

enum { INFLATED = 32 * 1024 };

void
rinse_init(struct rinse *f)
{
	*f = (struct rinse){ .count = 0 };
	ring_init(&f->coded, RINSE_RING);
}

void
rinse_done(struct rinse *f)
{
	scrub_done(&f->scrub);
	words_unref(f->words);
	inflate_free(f->inflate);
	ring_done(&f->coded);
	f->words = NULL;
	f->inflate = NULL;
}

void
rinse_use(struct rinse *f, struct words *w)
{
	need(f->words == NULL);
	f->words = w;
	if (w->set != NULL)
		scrub_init(&f->scrub, w->set);
}

bool
rinse_is_on(const struct rinse *f)
{
	return f->words != NULL && f->words->set != NULL;
}

enum status
rinse_fields(struct rinse *f, struct head *h)
{
	return rinse_is_on(f) ? scrub_fields(f->words->set, h, &f->count) : ST_OK;
}

enum status
rinse_decode(struct rinse *f, struct str codings)
{
	static const struct inflate_limits limits = { INFLATE_MOST, INFLATE_RATIO };

	return inflate_new(codings, &limits, &f->inflate);
}

/* As much as space has room for, searched. */
static enum status
put_piece(struct rinse *f, struct str in, bool is_last, const struct rinse_space *space,
	  struct side *to)
{
	struct str out = in;
	enum status st = ST_OK;

	if (rinse_is_on(f))
		st = scrub_feed(&f->scrub, in, is_last, space->p, &out);
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

/* What came while the client took nothing is given at once, up to a whole window. */
static enum status
put_plain(struct rinse *f, struct str in, bool is_last, const struct rinse_space *space,
	  struct side *to)
{
	enum status st;

	do {
		size_t n = rinse_is_on(f)
				   ? num_min(in.n, space->n - scrub_room(&f->scrub))
				   : in.n;
		st = put_piece(f, str_head(in, n), is_last && n == in.n, space, to);
		in = str_skip(in, n);
	} while (st == ST_OK && in.n > 0);
	return st;
}

/* Decoded a piece at a time, as long as the client takes it. */
static enum status
put_decoded(struct rinse *f, char plain[INFLATED], const struct rinse_space *space,
	    struct side *to)
{
	enum status st = ST_OK;

	while (st == ST_OK) {
		struct str in = ring_peek(&f->coded);
		size_t all = in.n, n = 0;
		bool is_last = f->is_last && in.n == f->coded.len;
		enum status got =
			inflate_feed(f->inflate, &in, is_last, plain, INFLATED, &n);
		ring_consume(&f->coded, all - in.n);
		if (got != ST_OK && got != ST_END)
			return got;
		st = put_plain(f, str_of(plain, n), got == ST_END, space, to);
		f->is_over = got == ST_END;
		if (st != ST_OK || got == ST_END)
			return st;
		if (n == 0 && all == in.n)
			return ST_OK; /* more must come first */
		st = side_flush(to);
	}
	return st;
}

static enum status
put_coded(struct rinse *f, const struct rinse_space *space, struct side *to)
{
	char plain[INFLATED];
	enum status st = put_decoded(f, plain, space, to);

	explicit_bzero(plain, sizeof plain); /* echoes, perhaps */
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

bool
rinse_is_drained(const struct rinse *f)
{
	return f->inflate == NULL || f->is_over;
}

#include "connectors/inflate.h"

#include <stdlib.h>
#include <string.h>

#include "connectors/inflate_layer.h"
#include "proxy/base/num.h"

enum { MID = 16384 };

/*
 * layers: as they are taken off; layer 0 reads what came, each other the `mid` of the one
 * before it, the last writes to the caller.
 */
struct inflate {
	struct layer layers[INFLATE_DEEP];
	struct inflate_limits limits;
	struct str mids[INFLATE_DEEP - 1]; /* unread part of space[k] */
	char *spaces[INFLATE_DEEP - 1];
	size_t layers_n;
	struct str *in; /* of the present call */
	enum status st;
};

/* The codings in the order in which they are taken off: the last named is outermost. */
static enum status
read_codings(struct str list, struct inflate *i)
{
	const struct inflate_codec *found[INFLATE_DEEP];
	size_t n = 0;

	while (list.p != NULL) {
		struct str word = str_trim(str_cut(&list, ','));
		const struct inflate_codec *codec;

		if (word.n == 0 || str_ieq(word, STR("identity")))
			continue;
		codec = inflate_codec_of(word);
		if (codec == NULL || n == INFLATE_DEEP)
			return ST_UPSTREAM_BAD;
		found[n++] = codec;
	}
	for (size_t k = 0; k < n; k++)
		i->layers[k].codec = found[n - 1 - k];
	i->layers_n = n;
	return n > 0 ? ST_OK : ST_END;
}

enum status
inflate_new(struct str codings, const struct inflate_limits *limits,
	    struct inflate **ret_i)
{
	struct inflate *i = calloc(1, sizeof(*i));
	enum status st;

	if (i == NULL)
		return ST_NOMEM;
	i->limits = *limits;
	st = read_codings(codings, i);
	for (size_t k = 0; st == ST_OK && k + 1 < i->layers_n; k++) {
		i->spaces[k] = malloc(MID);
		if (i->spaces[k] == NULL)
			st = ST_NOMEM;
	}
	if (st == ST_OK)
		*ret_i = i;
	else
		inflate_free(i);
	return st;
}

void
inflate_free(struct inflate *i)
{
	if (i == NULL)
		return;
	for (size_t k = 0; k < INFLATE_DEEP; k++)
		layer_done(&i->layers[k]);
	/* What was decoded may be an echo of a secret. */
	for (size_t k = 0; k < COUNT_OF(i->spaces); k++) {
		if (i->spaces[k] != NULL)
			explicit_bzero(i->spaces[k], MID);
		free(i->spaces[k]);
	}
	free(i);
}

/* Each layer is held to the limits by itself: a bomb inside is one as well. */
static enum status
check_limits(const struct inflate *i, const struct layer *l)
{
	uint64_t free_part = INFLATE_FREE;

	if (l->out > i->limits.most)
		return ST_TOO_BIG;
	if (l->out > free_part && l->out / i->limits.ratio > l->in)
		return ST_TOO_BIG;
	return ST_OK;
}

static enum status
run_layer(struct inflate *i, size_t k, char *space, size_t n, size_t *ret_n)
{
	struct str *in = k == 0 ? i->in : &i->mids[k - 1];
	enum status st = layer_run(&i->layers[k], in, space, n, ret_n);

	/* A decoder that neither reads nor writes will not do so later. */
	if (st == ST_OK && *ret_n < n && in->n > 0)
		return ST_UPSTREAM_BAD;
	return st == ST_OK ? check_limits(i, &i->layers[k]) : st;
}

/* Fill space from layer k; *ret_n < n: more must come first. */
static enum status
pull(struct inflate *i, size_t k, char *space, size_t n, size_t *ret_n)
{
	size_t got = 0, below = 0;
	enum status st;

	do {
		size_t m = 0;

		st = run_layer(i, k, space + got, n - got, &m);
		got += m;
		if (st != ST_OK || got == n || k == 0)
			break;
		below = 0;
		st = pull(i, k - 1, i->spaces[k - 1], MID, &below);
		i->mids[k - 1] = str_of(i->spaces[k - 1], below);
	} while (st == ST_OK && below > 0);
	*ret_n = got;
	return st;
}

static enum status
at_end(const struct inflate *i)
{
	for (size_t k = 0; k < i->layers_n; k++)
		if (i->layers[k].is_inside)
			return ST_UPSTREAM_BAD;
	/* A body of no octets is what some send with the header field all the same. */
	return ST_END;
}

enum status
inflate_feed(struct inflate *i, struct str *in, bool is_last, char *space, size_t n,
	     size_t *ret_n)
{
	size_t got = 0;

	need(n > 0);
	if (i->st != ST_OK)
		return i->st;
	i->in = in;
	i->st = pull(i, i->layers_n - 1, space, n, &got);
	i->in = NULL;
	if (i->st == ST_OK && got < n && is_last)
		i->st = at_end(i);
	if (i->st == ST_OK || i->st == ST_END)
		*ret_n = got;
	return i->st;
}

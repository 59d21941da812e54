#include "proxy/base/num.h"
#include "proxy/flow/lane.h"
#include "proxy/worker/turn_in.h"

/* What isn't a number is not one of ours. */
static uint32_t
number(const struct field *f)
{
	uint64_t v = 0;

	return f != NULL && num_parse_strict(f->value, UINT32_MAX, &v) ? (uint32_t)v
								       : 0;
}

static void
remove_own(struct head *h)
{
	size_t kept = 0;

	for (size_t i = 0; i < h->fields_len; i++)
		if (!lane_is_own(h->fields[i].name))
			h->fields[kept++] = h->fields[i];
	h->fields_len = kept;
}

enum status
turn_lane_head(struct turn *t, struct head *h)
{
	const struct field *reason = head_find(h, STR(LANE_REASON));
	enum status st = ST_OK;

	t->x.secret_version = number(head_find(h, STR(LANE_VERSION)));
	/* A code that we don't know, or one of a success, is no answer either. */
	if (reason != NULL && (!status_by_code(reason->value.p, reason->value.n, &st) ||
			       status_words(st)->http < 400))
		st = ST_UPSTREAM_BAD;
	remove_own(h);
	return st;
}

const struct head *
turn_lane_trailers(struct turn *t, const struct head *trailers)
{
	struct head *out = &t->lane_trailers;

	if (trailers == NULL)
		return NULL;
	t->x.scrubbed = number(head_find(trailers, STR(LANE_SCRUBBED)));
	head_init(out, &t->arena);
	for (size_t i = 0; i < trailers->fields_len; i++) {
		const struct field *f = &trailers->fields[i];
		if (!lane_is_own(f->name) &&
		    head_add_view(out, f->token, f->name, f->value) != ST_OK)
			break; /* no memory: the rest is left out, as any hop may */
	}
	return out;
}

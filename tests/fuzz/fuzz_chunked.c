/*
 * Split invariance: payload, trailers and the end are the same however a chunked body
 * arrives.  Round trip: the payload written as chunks reads back, with the trailers
 * that may go on.
 */
#include "proxy/http/h1_body.h"
#include "proxy/http/h1_write.h"

static const struct h1_limits limits = { 10, 300, 600 };
/* Written anew each field has a blank behind its colon. */
static const struct h1_limits wider = { 10, 400, 1200 };

struct result {
	enum status st;
	size_t used;
	struct head trailers; /* in the arena given to feed() */
	struct buf payload;
};

static void
feed(struct arena *a, const struct h1_limits *lim, struct str in, size_t piece,
     struct result *r)
{
	struct head h;
	struct h1_body b;

	head_init(&h, a);
	h.body = BODY_CHUNKED;
	h1_body_init(&b, &h, lim);
	*r = (struct result){ .st = ST_AGAIN };
	buf_init(&r->payload, 1 << 20);
	while (r->st == ST_AGAIN && in.n > 0) {
		struct str data = { NULL, 0 };
		size_t used = 0;
		r->st = h1_body_feed(&b, str_head(in, piece), &used, &data);
		if (r->st != ST_OK && r->st != ST_AGAIN && r->st != ST_END)
			break;
		need(r->st != ST_OK || (data.n > 0 && data.n <= used));
		buf_put(&r->payload, data);
		in = str_skip(in, used);
		r->used += used;
		r->st = r->st == ST_OK ? ST_AGAIN : r->st;
	}
	r->trailers = b.trailers;
	h1_body_done(&b);
}

static void
need_round_trip(struct str payload, const struct head *trailers, size_t piece)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct arena a;
	struct head of;
	struct result r;
	struct str in;
	size_t passed = 0;

	arena_init(&a, 1 << 16);
	head_init(&of, &a);
	buf_init(&b, 1 << 22);
	for (struct str rest = payload; rest.n > 0; rest = str_skip(rest, piece)) {
		struct str chunk = str_head(rest, piece);
		h1_write_chunk_head(&b, chunk.n);
		buf_put(&b, chunk);
		buf_put(&b, STR("\r\n"));
	}
	h1_write_last_chunk(&b, &of, trailers);
	for (size_t i = 0; i < trailers->fields_len; i++)
		passed += head_trailer_passes(&of, &trailers->fields[i]);
	need(buf_finish(&b, &in) == ST_OK);
	feed(&a, &wider, in, SIZE_MAX, &r);
	need(r.st == ST_END && r.used == in.n && r.trailers.fields_len == passed);
	need(str_eq(str_of(r.payload.p, r.payload.len), payload));
	buf_done(&r.payload);
	arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a, b;
	struct result whole, split;

	if (size == 0)
		return 0;
	size_t piece = data[0] % 64 + 1;
	struct str in = str_of(data + 1, size - 1);
	arena_init(&a, 1 << 16);
	arena_init(&b, 1 << 16);
	feed(&a, &limits, in, SIZE_MAX, &whole);
	feed(&b, &limits, in, piece, &split);
	need(whole.st == split.st);
	struct str payload = str_of(whole.payload.p, whole.payload.len);
	if (whole.st == ST_END || whole.st == ST_AGAIN) {
		need(whole.used == split.used &&
		     whole.trailers.fields_len == split.trailers.fields_len);
		need(str_eq(payload, str_of(split.payload.p, split.payload.len)));
	}
	if (whole.st == ST_END)
		need_round_trip(payload, &whole.trailers, piece);
	buf_done(&whole.payload);
	buf_done(&split.payload);
	arena_done(&a);
	arena_done(&b);
	return 0;
}

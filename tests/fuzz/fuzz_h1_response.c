/*
 * Split invariance, and round trip: a response that is written on reads back with the
 * same status and the same end, and writing that again changes nothing.
 */
#include "proxy/http/h1_write.h"
#include "tests/fuzz/h1_feed.h"

static const struct h1_limits limits = { 20, 400, 1000 };
static const struct h1_limits wide = { 40, 4000, 8000 };

static enum status
read_one(struct arena *a, const struct h1_limits *lim, enum method asked, struct str in,
	 size_t piece, struct head *h)
{
	struct h1_read r;
	size_t used = 0;

	h1_read_response(&r, a, lim, asked, true);
	enum status st = h1_feed(&r, in, piece, &used, h);
	need(st == ST_OK || st == ST_AGAIN || st == ST_UPSTREAM_BAD);
	need(st != ST_OK || used <= in.n);
	return st;
}

static void
write_one(struct buf *b, const struct head *h)
{
	struct h1_frame f = h1_frame_of(h);

	f.is_upgrade = h->status == 101;
	f.is_close = h->body == BODY_UNTIL_CLOSE;
	h1_write_response(b, h, &f);
}

static void
need_round_trip(const struct head *h, enum method asked)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	CLEANUP(buf_done) struct buf c = { 0 };
	struct arena a;
	struct head again;
	struct str first, second;

	buf_init(&b, 8000);
	buf_init(&c, 8000);
	arena_init(&a, 1 << 20);
	write_one(&b, h);
	need(buf_finish(&b, &first) == ST_OK);
	need(read_one(&a, &wide, asked, first, SIZE_MAX, &again) == ST_OK);
	need(h->status == again.status && h->body == again.body);
	need(h->body != BODY_LENGTH || h->length == again.length);
	need(head_get(&again, TOKEN_ALT_SVC) == NULL);
	write_one(&c, &again);
	need(buf_finish(&c, &second) == ST_OK && str_eq(first, second));
	arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum method methods[] = { METHOD_GET, METHOD_HEAD, METHOD_CONNECT,
					       METHOD_POST };
	struct arena a, b;
	struct head whole, split;

	if (size < 2)
		return 0;
	size_t piece = data[0] % 64 + 1;
	enum method asked = methods[data[1] % COUNT_OF(methods)];
	struct str in = str_of(data + 2, size - 2);
	arena_init(&a, 1 << 16);
	arena_init(&b, 1 << 16);
	enum status st = read_one(&a, &limits, asked, in, SIZE_MAX, &whole);
	need(read_one(&b, &limits, asked, in, piece, &split) == st);
	if (st == ST_OK) {
		need(h1_same_head(&whole, &split));
		need_round_trip(&whole, asked);
	}
	arena_done(&a);
	arena_done(&b);
	return 0;
}

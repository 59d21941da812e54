/*
 * Split invariance: a request means the same however its octets arrive.  Round trip:
 * what is written upstream reads back with the same method, destination and framing,
 * and writing that again changes nothing.
 */
#include "proxy/http/h1_write.h"
#include "tests/fuzz/h1_feed.h"

static const struct h1_limits limits = { 20, 400, 1000 };

static enum status
read_one(struct arena *a, struct str in, size_t piece, size_t *ret_used, struct head *h)
{
	struct h1_limits wide = { 40, 4000, 8000 };
	struct h1_read r;

	h1_read_request(&r, a, piece == 0 ? &wide : &limits);
	return h1_feed(&r, in, piece == 0 ? SIZE_MAX : piece, ret_used, h);
}

static void
write_one(struct buf *b, const struct head *h, const struct uri *u)
{
	struct h1_frame f = h1_frame_of(h);

	f.keeps_expect = true;
	h1_write_request(b, h, u, 80, &f);
}

static void
need_round_trip(const struct head *h)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	CLEANUP(buf_done) struct buf c = { 0 };
	struct arena a;
	struct head again;
	struct uri u, v;
	struct str first, second;
	size_t used = 0;

	buf_init(&b, 8000);
	buf_init(&c, 8000);
	if (uri_of_request(h, 80, &u) != ST_OK)
		return;
	arena_init(&a, 1 << 20);
	write_one(&b, h, &u);
	need(buf_finish(&b, &first) == ST_OK);
	need(read_one(&a, first, 0, &used, &again) == ST_OK && used == first.n);
	need(uri_of_request(&again, 80, &v) == ST_OK);
	need(str_eq(h->method, again.method) && h->body == again.body &&
	     h->length == again.length);
	need(dest_same_host(&u.dest, &v.dest) && u.dest.port == v.dest.port);
	need(str_eq(u.path, v.path) && str_eq(u.query, v.query));
	write_one(&c, &again, &v);
	need(buf_finish(&c, &second) == ST_OK && str_eq(first, second));
	arena_done(&a);
}

/* What a parent proxy gets names the same destination in its target. */
static void
need_same_at_parent(const struct head *h)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct arena a;
	struct head again;
	struct h1_frame f = h1_frame_of(h);
	struct uri u, v;
	size_t used = 0;

	buf_init(&b, 8000);
	if (uri_of_request(h, 80, &u) != ST_OK || u.form == URI_AUTHORITY)
		return;
	arena_init(&a, 1 << 20);
	f.is_absolute = f.is_close = true;
	h1_write_request(&b, h, &u, 80, &f);
	need(b.st == ST_OK);
	need(read_one(&a, str_of(b.p, b.len), 0, &used, &again) == ST_OK);
	need(uri_of_request(&again, 80, &v) == ST_OK && v.form == URI_ABSOLUTE);
	need(dest_same_host(&u.dest, &v.dest) && u.dest.port == v.dest.port);
	need(str_eq(u.query, v.query) && !again.is_persistent);
	arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a, b;
	struct head whole, split;
	size_t used = 0, used_split = 0;

	if (size == 0)
		return 0;
	size_t piece = data[0] % 64 + 1;
	struct str in = str_of(data + 1, size - 1);
	arena_init(&a, 1 << 16);
	arena_init(&b, 1 << 16);
	enum status st = read_one(&a, in, SIZE_MAX, &used, &whole);
	need(read_one(&b, in, piece, &used_split, &split) == st);
	if (st == ST_OK) {
		need(used == used_split && h1_same_head(&whole, &split));
		need_round_trip(&whole);
		need_same_at_parent(&whole);
	}
	arena_done(&a);
	arena_done(&b);
	return 0;
}

/*
 * What is found in an event stream is the same however it is cut.  And what it says is
 * right: any text, written as events, is counted and digested as that text.
 *
 * Input: an octet for the size of pieces, then the stream.
 */
#include <string.h>

#include "proxy/base/buf.h"
#include "proxy/flow/exec_tap.h"

enum { TEXT_MAX = 1000 };

_Static_assert(sizeof(struct exec_tap) <= 4096, "a tap stays small");

static void
feed(struct exec_tap *t, struct str in, size_t piece)
{
	need(exec_tap_init(t) == ST_OK);
	for (; in.n > 0; in = str_skip(in, piece))
		exec_tap_put(t, str_head(in, piece));
	exec_tap_end(t);
}

static void
need_same_tally(const struct tally *a, const struct tally *b)
{
	uint8_t x[TALLY_HASH], y[TALLY_HASH];

	need(tally_sum(a, x) == ST_OK && tally_sum(b, y) == ST_OK);
	need(a->octets == b->octets && a->texts == b->texts);
	need(memcmp(x, y, sizeof x) == 0);
}

static void
need_same_held(const struct held *a, const struct held *b)
{
	need(a->is_cut == b->is_cut && str_eq(held_str(a), held_str(b)));
}

static void
need_same(const struct exec_tap *a, const struct exec_tap *b)
{
	int64_t x = 0, y = 0;
	struct str k, l;
	size_t i = 0;

	for (int out = 0; out < EXEC_OUTS; out++)
		need_same_tally(&a->out[out], &b->out[out]);
	need(a->events == b->events && a->unreadable == b->unreadable);
	need(a->is_complete == b->is_complete && a->has_error == b->has_error);
	need(a->has_ms == b->has_ms && a->ms == b->ms);
	need(exec_tap_exit(a, &x) == exec_tap_exit(b, &y) && x == y);
	need_same_held(&a->id, &b->id);
	need_same_held(&a->ename, &b->ename);
	need(a->kinds_count == b->kinds_count && a->is_kinds_cut == b->is_kinds_cut);
	for (; exec_tap_kind(a, i, &k); i++)
		need(exec_tap_kind(b, i, &l) && str_eq(k, l));
}

/* As events of up to `piece` octets, with their type before or behind the text. */
static void
put_events(struct buf *b, struct str text, size_t piece, bool is_type_last)
{
	for (; text.n > 0; text = str_skip(text, piece)) {
		buf_put(b,
			is_type_last ? STR("data: {") : STR("{\"type\":\"stdout\","));
		buf_put(b, STR("\"text\":"));
		buf_put_json(b, str_head(text, piece));
		buf_put(b, is_type_last ? STR(",\"type\":\"stdout\"}\r\n\r\n")
					: STR(",\"timestamp\":1}\n\n"));
	}
}

static void
need_right(const uint8_t *data, size_t size, size_t piece)
{
	CLEANUP(buf_done) struct buf text = { 0 }, b = { 0 };
	struct tally want;
	struct exec_tap t;

	buf_init(&text, 1 << 20);
	buf_init(&b, 1 << 24);
	for (size_t i = 0; i < size; i++)
		buf_putc(&text, (char)(data[i] & 0x7f));
	put_events(&b, str_of(text.p, text.len), piece, size % 2 == 0);
	need(text.st == ST_OK && b.st == ST_OK && tally_init(&want) == ST_OK);
	tally_put(&want, str_of(text.p, text.len));
	want.texts = (size + piece - 1) / piece;
	feed(&t, str_of(b.p, b.len), piece + 1);
	need(t.unreadable == 0 && t.events == want.texts);
	need_same_tally(&t.out[EXEC_STDOUT], &want);
	exec_tap_done(&t);
	tally_done(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct exec_tap whole, split;

	if (size == 0)
		return 0;
	size_t piece = data[0] % 32 + 1;
	struct str in = str_of(data + 1, size - 1);
	feed(&whole, in, SIZE_MAX);
	feed(&split, in, piece);
	need_same(&whole, &split);
	exec_tap_done(&whole);
	exec_tap_done(&split);
	need_right(data + 1, size < TEXT_MAX ? size - 1 : TEXT_MAX, piece * 8);
	return 0;
}

/*
 * What is found in a terminal's two streams is the same however they are cut.  And what
 * it says is right: any octets, sent as frames, masked or not, are counted and digested
 * as those octets.
 *
 * Input: an octet for the size of pieces and the side, then that side's stream.
 */
#include <string.h>

#include "proxy/base/buf.h"
#include "proxy/flow/pty_tap.h"

_Static_assert(sizeof(struct pty_tap) <= 4096, "a tap stays small");

static void
feed(struct pty_tap *t, enum pty_side from, struct str in, size_t piece)
{
	need(pty_tap_init(t) == ST_OK);
	for (; in.n > 0; in = str_skip(in, piece))
		pty_tap_put(t, from, str_head(in, piece));
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
need_same(const struct pty_tap *a, const struct pty_tap *b)
{
	for (int c = 0; c < PTY_CHANNELS; c++)
		need_same_tally(&a->channels[c], &b->channels[c]);
	need(a->has_code == b->has_code && (!a->has_code || a->code == b->code));
	need(a->is_tty == b->is_tty);
	for (int i = 0; i < PTY_SIDES; i++) {
		const struct pty_side_tap *s = &a->sides[i], *r = &b->sides[i];
		need(s->messages == r->messages && s->unreadable == r->unreadable);
		need(s->is_blind == r->is_blind && s->is_closed == r->is_closed);
		need(s->is_hidden == r->is_hidden);
	}
}

/* The frames of one message: channel and part of the text in each. */
static void
put_frame(struct buf *b, enum pty_side from, uint8_t first, struct str s)
{
	static const uint8_t mask[4] = { 0x5a, 0, 0xc3, 1 };
	uint8_t masked = from == PTY_CLIENT ? 0x80 : 0;

	buf_put_u8(b, first);
	if (s.n < 126) {
		buf_put_u8(b, (uint8_t)(masked | s.n));
	} else {
		buf_put_u8(b, masked | 126);
		buf_put_u16(b, (uint16_t)s.n);
	}
	if (masked != 0)
		buf_put(b, str_of(mask, sizeof mask));
	for (size_t i = 0; i < s.n; i++)
		buf_put_u8(b, (uint8_t)((uint8_t)s.p[i] ^ (masked ? mask[i % 4] : 0)));
}

static void
need_right(enum pty_side from, struct str text, size_t piece)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct str channel = from == PTY_CLIENT ? STR("\0") : STR("\2");
	enum pty_channel c = from == PTY_CLIENT ? PTY_STDIN : PTY_STDERR;
	struct tally want;
	struct pty_tap t;

	buf_init(&b, 1 << 22);
	need(tally_init(&want) == ST_OK);
	tally_put(&want, text);
	want.texts = 1;
	put_frame(&b, from, 2, channel);
	for (size_t n = piece * 5; text.n > n; text = str_skip(text, n)) {
		put_frame(&b, from, 0, str_head(text, n));
		put_frame(&b, from, 0x89, str_head(text, n % 125));
	}
	put_frame(&b, from, 0x80, text);
	need(b.st == ST_OK);
	feed(&t, from, str_of(b.p, b.len), piece);
	need(t.sides[from].messages == 1 && t.sides[from].unreadable == 0 &&
	     !t.sides[from].is_blind);
	need_same_tally(&t.channels[c], &want);
	pty_tap_done(&t);
	tally_done(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pty_tap whole, split;

	if (size == 0)
		return 0;
	size_t piece = data[0] % 32 + 1;
	enum pty_side from = data[0] >= 0x80 ? PTY_SERVER : PTY_CLIENT;
	struct str in = str_of(data + 1, size - 1);
	feed(&whole, from, in, SIZE_MAX);
	feed(&split, from, in, piece);
	need_same(&whole, &split);
	pty_tap_done(&whole);
	pty_tap_done(&split);
	need_right(from, in, piece);
	return 0;
}

/*
 * Properties: the same octets and the same end however the input is cut and however much
 * room there is; what zlib, brotli and zstd make of a text comes back as that text.
 *
 * Input: codings (three bits), sizes, then a body, or with the top bit a text to be encoded
 * with gzip or deflate first, or with the next one the value of a Content-Encoding.
 */
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "connectors/inflate.h"
#include "proxy/base/buf.h"

enum { OUT_MAX = 1 << 17 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str
codings_of(unsigned pick)
{
	static const char *const lists[] = { "gzip",     "deflate",
					     "br",       "zstd",
					     "gzip, br", "deflate,gzip",
					     "zstd, br", "gzip,gzip,gzip" };

	return str_from(lists[pick % COUNT_OF(lists)]);
}

static enum status
run(struct str codings, struct str body, size_t piece, size_t room, struct buf *out)
{
	static const struct inflate_limits limits = { OUT_MAX, INFLATE_RATIO };
	struct inflate *i;
	enum status st = inflate_new(codings, &limits, &i);
	size_t at = 0;

	need(st == ST_OK);
	while (st == ST_OK) {
		struct str in = str_head(str_skip(body, at), piece);
		size_t had = in.n, got = 0;
		bool is_last = body.n - at <= piece;
		char *space = malloc(room);

		need(space != NULL);
		st = inflate_feed(i, &in, is_last, space, room, &got);
		need(got <= room && in.n <= had);
		buf_put(out, str_of(space, got));
		free(space);
		at += had - in.n;
		need(st != ST_OK || !is_last || got == room || had > in.n);
	}
	if (st == ST_END)
		need(at == body.n);
	inflate_free(i);
	return st;
}

static void
check_same(struct str codings, struct str body, size_t piece, size_t room)
{
	CLEANUP(buf_done) struct buf whole = { 0 }, cut = { 0 };
	enum status a, b;

	buf_init(&whole, 4 * OUT_MAX);
	buf_init(&cut, 4 * OUT_MAX);
	a = run(codings, body, body.n + 1, 32768, &whole);
	b = run(codings, body, piece, room, &cut);
	/* Which limit is met first depends on how much is decoded at once. */
	if (a == ST_TOO_BIG || b == ST_TOO_BIG)
		return;
	/* libzstd looks at the size that a frame states only where the whole frame lies
	 * before it, if the frame's last block is empty. */
	if (memmem(codings.p, codings.n, "zstd", 4) != NULL && a != b)
		return;
	need(a == b);
	if (a == ST_END)
		need(whole.len == cut.len &&
		     (whole.len == 0 || memcmp(whole.p, cut.p, whole.len) == 0));
}

static void
check_round(struct str text, int bits, struct str codings, size_t piece)
{
	CLEANUP(buf_done) struct buf out = { 0 };
	char packed[8192];
	union {
		const char *in;
		unsigned char *out;
	} from = { .in = text.p }, to = { .in = packed };
	z_stream z = { .next_in = from.out,
		       .avail_in = (unsigned)text.n,
		       .next_out = to.out,
		       .avail_out = sizeof(packed) };

	need(deflateInit2(&z, 6, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	need(deflate(&z, Z_FINISH) == Z_STREAM_END);
	buf_init(&out, OUT_MAX);
	need(run(codings, str_of(packed, sizeof(packed) - z.avail_out), piece, 100,
		 &out) == ST_END);
	need(out.len == text.n && (text.n == 0 || memcmp(out.p, text.p, text.n) == 0));
	need(deflateEnd(&z) == Z_OK);
}

static void
check_codings(struct str value)
{
	static const struct inflate_limits limits = { OUT_MAX, INFLATE_RATIO };
	struct inflate *i = NULL;
	enum status st = inflate_new(value, &limits, &i);

	need(st == ST_OK || st == ST_END || st == ST_UPSTREAM_BAD);
	need((i != NULL) == (st == ST_OK));
	inflate_free(i);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3 || size > 4096)
		return 0;
	struct str body = str_of(data + 3, size - 3);
	size_t piece = 1 + data[1] % 64u, room = 1 + data[2] % 64u;

	if (data[0] & 0x40) {
		check_codings(body);
	} else if (data[0] & 0x80) {
		check_round(body, 15, STR("deflate"), piece);
		check_round(body, -15, STR("deflate"), piece);
		check_round(body, 31, STR("gzip"), piece);
	} else {
		check_same(codings_of(data[0]), body, piece, room);
	}
	return 0;
}

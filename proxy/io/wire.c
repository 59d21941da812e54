#include "proxy/io/wire.h"

#include "proxy/base/num.h"

struct wire
wire_from(struct str body)
{
	return (struct wire){ .rest = body };
}

static inline struct str
take(struct wire *w, size_t n)
{
	if (w->is_bad || n > w->rest.n) {
		w->is_bad = true;
		return STR("");
	}
	struct str got = { w->rest.p, n };
	w->rest = (struct str){ n == 0 ? got.p : got.p + n, w->rest.n - n };
	return got;
}

struct str
wire_bytes(struct wire *w, size_t n)
{
	return take(w, n);
}

uint8_t
wire_u8(struct wire *w)
{
	struct str s = take(w, 1);

	return s.n == 1 ? (uint8_t)s.p[0] : 0;
}

uint16_t
wire_u16(struct wire *w)
{
	struct str s = take(w, 2);

	return s.n == 2 ? num_be16(s.p) : 0;
}

uint32_t
wire_u32(struct wire *w)
{
	struct str s = take(w, 4);

	return s.n == 4 ? num_be32(s.p) : 0;
}

uint64_t
wire_u64(struct wire *w)
{
	struct str s = take(w, 8);

	return s.n == 8 ? num_be64(s.p) : 0;
}

struct str
wire_str(struct wire *w)
{
	struct str n = take(w, 2);

	return take(w, n.n == 2 ? num_be16(n.p) : 0);
}

enum status
wire_end(const struct wire *w)
{
	return w->is_bad || w->rest.n > 0 ? ST_BAD_MESSAGE : ST_OK;
}

void
wire_put_str(struct buf *b, struct str s)
{
	if (s.n > UINT16_MAX) {
		b->st = b->st == ST_OK ? ST_TOO_BIG : b->st;
		return;
	}
	buf_put_u16(b, (uint16_t)s.n);
	buf_put(b, s);
}

/*
 * A message between processes, read by a script of fields: each read gives what a plain
 * index into the bytes gives, the first one that doesn't fit spoils all later ones, and
 * what is written reads back.
 */
#include <stdlib.h>

#include "proxy/base/num.h"
#include "proxy/io/wire.h"

struct model {
	struct str rest;
	bool is_bad;
};

static struct str
model_take(struct model *m, size_t n)
{
	if (m->is_bad || m->rest.n < n) {
		m->is_bad = true;
		return STR("");
	}
	struct str got = str_head(m->rest, n);
	m->rest = str_skip(m->rest, n);
	return got;
}

static uint64_t
model_number(struct model *m, size_t n)
{
	struct str s = model_take(m, n);
	uint64_t v = 0;

	for (size_t i = 0; i < s.n; i++)
		v = v << 8 | (uint8_t)s.p[i];
	return v;
}

static void
read_one(struct wire *w, struct model *m, uint8_t kind)
{
	switch (kind % 6) {
	case 0:
		need(wire_u8(w) == model_number(m, 1));
		break;
	case 1:
		need(wire_u16(w) == model_number(m, 2));
		break;
	case 2:
		need(wire_u32(w) == model_number(m, 4));
		break;
	case 3:
		need(wire_u64(w) == model_number(m, 8));
		break;
	case 4:
		need(str_eq(wire_bytes(w, kind / 6), model_take(m, kind / 6)));
		break;
	default:
		need(str_eq(wire_str(w), model_take(m, (size_t)model_number(m, 2))));
		break;
	}
}

static void
round_trip(struct str s)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str body;

	buf_init(&b, 1 << 17);
	wire_put_str(&b, s);
	buf_put_u64(&b, s.n);
	need(buf_finish(&b, &body) == ST_OK);
	struct wire w = wire_from(body);
	need(str_eq(wire_str(&w), s) && wire_u64(&w) == s.n && wire_end(&w) == ST_OK);
	wire_put_str(&b, (struct str){ s.p, (size_t)UINT16_MAX + 1 });
	need(b.st == ST_TOO_BIG);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t script = size > 0 ? num_min(data[0] % 32, size - 1) : 0;
	struct str body = str_skip(str_of(data, size), 1 + script);
	struct wire w = wire_from(body);
	struct model m = { body, false };

	for (size_t i = 0; i < script; i++)
		read_one(&w, &m, data[1 + i]);
	need((wire_end(&w) == ST_OK) == (!m.is_bad && m.rest.n == 0));
	if (body.n <= UINT16_MAX)
		round_trip(body);
	return 0;
}

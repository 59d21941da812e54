/*
 * An answer is read as a whole or not at all: of one that is taken no shorter part is,
 * and none with a byte behind; what it shows lies inside.
 */
#include <string.h>

#include "proxy/http/dnsmsg.h"

static bool
lies_within(struct str part, struct str whole)
{
	return part.n == 0 ||
	       (part.p >= whole.p && part.p + part.n <= whole.p + whole.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str packet = str_of(data, size);
	struct dnsmsg_reply r, other;
	enum status st = dnsmsg_read_answer(packet, &r);
	size_t step = size / 64 + 1;

	need(st == ST_OK || st == ST_BAD_QUERY);
	if (st != ST_OK)
		return 0;
	need(r.addrs_n <= DNSMSG_ADDRS_MAX);
	need(lies_within(r.question, packet) && lies_within(r.ede_text, packet));
	need(r.has_opt || !r.has_ede);
	for (size_t n = 0; n < size; n += step)
		need(dnsmsg_read_answer(str_head(packet, n), &other) == ST_BAD_QUERY);
	buf_init(&b, size + 1);
	buf_put(&b, packet);
	buf_put_u8(&b, 0);
	need(dnsmsg_read_answer(str_of(b.p, b.len), &other) == ST_BAD_QUERY);
	return 0;
}

/*
 * Two properties of the peeker.  However a hello is split into segments, the outcome is
 * the same: waiting, then one verdict that more bytes don't change.  And however its
 * message is cut into records, it says the same.
 */
#include <string.h>

#include "proxy/base/num.h"
#include "proxy/http/hello.h"

static enum status
peek(struct str wire, struct buf *scratch, struct hello *h)
{
	enum status st = hello_peek(wire, scratch, h);

	need(st == ST_OK || st == ST_AGAIN || st == ST_HELLO_BAD ||
	     st == ST_HELLO_TOO_LARGE);
	if (st == ST_OK) {
		need(h->has_name == (h->name.n > 0) && h->name.n <= 255);
		need(h->wire_size <= wire.n && hello_could_be(wire));
		need(hello_alpn_check(h) == ST_OK || h->has_alpn);
	}
	return st;
}

static void
segments_do_not_matter(struct str wire)
{
	CLEANUP(buf_done) struct buf scratch = { 0 };
	struct hello whole, part;
	enum status want, got = ST_AGAIN;
	size_t step = wire.n < 600 ? 1 : wire.n / 97 + 1;

	buf_init(&scratch, HELLO_MAX);
	want = peek(wire, &scratch, &whole);
	for (size_t n = 0; n < wire.n && got == ST_AGAIN; n += step)
		got = peek(str_head(wire, n), &scratch, &part);
	need(got == ST_AGAIN || got == want);
	need(got != ST_OK || part.wire_size == whole.wire_size);
}

static struct str
cut_into_records(struct buf *b, struct str message, size_t record)
{
	while (message.n > 0) {
		struct str content = str_head(message, record);

		buf_put(b, STR("\x16\x03\x01"));
		buf_put_u16(b, (uint16_t)content.n);
		buf_put(b, content);
		message = str_skip(message, content.n);
	}
	need(b->st == ST_OK);
	return str_of(b->p, b->len);
}

static void
need_same(const struct hello *a, const struct hello *b)
{
	need(str_eq(a->name, b->name) && str_eq(a->alpn, b->alpn));
	need(a->has_name == b->has_name && a->has_alpn == b->has_alpn);
	need(a->has_ech == b->has_ech && a->has_early_data == b->has_early_data);
	need(a->offers_tls13 == b->offers_tls13);
}

static void
records_do_not_matter(struct str message, size_t record)
{
	CLEANUP(buf_done) struct buf one = { 0 };
	CLEANUP(buf_done) struct buf many = { 0 };
	CLEANUP(buf_done) struct buf scratch1 = { 0 };
	CLEANUP(buf_done) struct buf scratch2 = { 0 };
	struct hello a, b;
	enum status st;

	buf_init(&one, 2 * HELLO_WIRE_MAX);
	buf_init(&many, 2 * HELLO_WIRE_MAX);
	buf_init(&scratch1, HELLO_MAX);
	buf_init(&scratch2, HELLO_MAX);
	st = peek(cut_into_records(&one, message, 16384), &scratch1, &a);
	need(st == peek(cut_into_records(&many, message, record), &scratch2, &b));
	if (st == ST_OK)
		need_same(&a, &b);
}

/* Exactly the message, if its header is there and it is whole. */
static struct str
one_message(struct str s)
{
	size_t n = s.n < 4 ? 0 : 4 + (num_be32(s.p) & 0xffffff);

	return n > 0 && n <= s.n ? str_head(s, n) : s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str s = str_of(data, size);

	if (size > HELLO_MAX)
		return 0;
	segments_do_not_matter(s);
	if (size > 5) {
		struct str message = one_message(str_skip(s, 5));
		size_t least = message.n / HELLO_RECORDS_MAX + 1;

		records_do_not_matter(message, least + data[size - 1]);
	}
	return 0;
}

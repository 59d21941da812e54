/*
 * However the bytes of a SOCKS message are split, the outcome is the same; what was
 * read, written again, gives the bytes back.
 */
#include <string.h>

#include "proxy/http/socks.h"

/* Status and size of one of the three messages. */
static enum status
read_one(int which, struct str s, size_t *ret_size)
{
	struct socks_greeting g = { 0 };
	struct socks_login l = { 0 };
	struct socks_request r = { 0 };
	enum status st;

	if (which == 0)
		st = socks_read_greeting(s, &g);
	else if (which == 1)
		st = socks_read_login(s, &l);
	else
		st = socks_read_request(s, &r);
	*ret_size = g.size + l.size + r.size;
	need(st == ST_OK || *ret_size == 0);
	return st;
}

static void
splits_do_not_matter(int which, struct str s)
{
	size_t size, part_size = 0;
	enum status want = read_one(which, s, &size), got = ST_AGAIN;

	need(size <= s.n);
	for (size_t n = 0; n < s.n && got == ST_AGAIN; n++) {
		got = read_one(which, str_head(s, n), &part_size);
		need(got != ST_OK || part_size == n);
	}
	need(got == ST_AGAIN || (got == want && part_size == size));
	/* No message is longer than its maximum: a caller's buffer of that size does.
	 */
	need(want != ST_AGAIN || s.n < SOCKS_LOGIN_MAX);
}

static void
put_string(struct buf *b, struct str s)
{
	buf_put_u8(b, (uint8_t)s.n);
	buf_put(b, s);
}

static void
need_bytes(const struct buf *b, struct str s, size_t size)
{
	need(b->st == ST_OK && b->len == size && memcmp(b->p, s.p, size) == 0);
}

static void
login_round_trip(struct str s)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct socks_login l;

	buf_init(&b, 1000);
	if (socks_read_login(s, &l) != ST_OK)
		return;
	buf_put_u8(&b, 1);
	put_string(&b, l.user);
	put_string(&b, l.password);
	need_bytes(&b, s, l.size);
}

static void
request_round_trip(struct str s)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct socks_request r;

	buf_init(&b, 1000);
	if (socks_read_request(s, &r) != ST_OK)
		return;
	need(r.port != 0 && (r.addr.family == 0) == (r.name.n > 0));
	buf_put(&b, STR("\x05\x01\x00"));
	buf_put_u8(&b, r.addr.family == 0 ? 3 : r.addr.family == 4 ? 1 : 4);
	if (r.addr.family == 0)
		put_string(&b, r.name);
	else
		buf_put(&b, str_of(r.addr.b, r.addr.family == 4 ? 4 : 16));
	buf_put_u16(&b, r.port);
	need_bytes(&b, s, r.size);
}

/* Only success reads as success. */
static void
reply_is_honest(enum status st)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 100);
	socks_put_reply(&b, st);
	need(b.len == 10 && (b.p[1] == 0) == (st == ST_OK));
	socks_put_login(&b, st == ST_OK);
	need((b.p[11] == 0) == (st == ST_OK));
	socks_put_method(&b, SOCKS_NO_METHOD);
	need(b.len == 14 && b.st == ST_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str s = str_of(data, size);

	for (int which = 0; which < 3; which++)
		splits_do_not_matter(which, s);
	if (size > 0)
		reply_is_honest((enum status)(data[0] % ST_COUNT));
	login_round_trip(s);
	request_round_trip(s);
	return 0;
}

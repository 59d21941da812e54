/*
 * The ways in agree.  A host with a port makes the same destination, or none, as the
 * target of CONNECT, in an absolute-form target, in Host, as a SOCKS name and as the
 * name in a ClientHello: two that take it take it for the same, and a name that one
 * takes all take.  And a target that is accepted is accepted again as it is sent on.
 */
#include <string.h>

#include "proxy/http/hello.h"
#include "proxy/http/socks.h"
#include "proxy/http/uri.h"

enum { PORT = 443, NAME_MAX = 255 };

typedef enum status (*way_fn)(struct str host, struct buf *b, struct dest *ret_d);

static enum status
by_connect(struct str host, struct buf *b, struct dest *ret_d)
{
	struct uri u;

	buf_put(b, host);
	buf_putf(b, ":%d", PORT);
	enum status st = uri_parse(METHOD_CONNECT, str_of(b->p, b->len), &u);
	if (st == ST_OK)
		*ret_d = u.dest;
	return st;
}

static enum status
by_absolute_form(struct str host, struct buf *b, struct dest *ret_d)
{
	struct uri u;

	/* Here these end the authority: another text than the others get. */
	if (str_has(host, '/') || str_has(host, '?'))
		return ST_BAD_TARGET;
	buf_put(b, STR("http://"));
	buf_put(b, host);
	buf_putf(b, ":%d/", PORT);
	enum status st = uri_parse(METHOD_GET, str_of(b->p, b->len), &u);
	if (st == ST_OK)
		*ret_d = u.dest;
	return st;
}

static enum status
by_host_field(struct str host, struct buf *b, struct dest *ret_d)
{
	struct arena a;
	struct head h;
	struct uri u;

	buf_put(b, host);
	buf_putf(b, ":%d", PORT);
	arena_init(&a, 1 << 16);
	head_init(&h, &a);
	h.method = STR("GET");
	h.target = STR("/");
	h.method_id = METHOD_GET;
	h.minor = 1;
	need(head_add(&h, STR("Host"), str_of(b->p, b->len)) == ST_OK);
	enum status st = uri_of_request(&h, 80, &u);
	if (st == ST_OK)
		*ret_d = u.dest;
	arena_done(&a);
	return st;
}

static enum status
by_socks(struct str host, struct buf *b, struct dest *ret_d)
{
	struct socks_request r;

	buf_put(b, str_of("\x05\x01\x00\x03", 4));
	buf_put_u8(b, (uint8_t)host.n);
	buf_put(b, host);
	buf_put_u16(b, PORT);
	enum status st = socks_read_request(str_of(b->p, b->len), &r);
	return st != ST_OK ? st : dest_from_host(r.name, r.port, ret_d);
}

/* The least hello that has a name: one cipher suite, one extension. */
static void
put_hello(struct buf *b, struct str name)
{
	uint16_t list = (uint16_t)(name.n + 3), exts = (uint16_t)(list + 6);
	uint16_t body = (uint16_t)(2 + 32 + 1 + 4 + 2 + 2 + exts);

	buf_put(b, STR("\x16\x03\x01"));
	buf_put_u16(b, (uint16_t)(body + 4));
	buf_put(b, str_of("\x01\x00", 2));
	buf_put_u16(b, body);
	buf_put(b, STR("\x03\x03"));
	for (int i = 0; i < 32; i++)
		buf_put_u8(b, 7);
	buf_put_u8(b, 0);
	buf_put(b, str_of("\x00\x02\x13\x01\x01\x00", 6));
	buf_put_u16(b, exts);
	buf_put_u16(b, 0);
	buf_put_u16(b, (uint16_t)(list + 2));
	buf_put_u16(b, list);
	buf_put_u8(b, 0);
	buf_put_u16(b, (uint16_t)name.n);
	buf_put(b, name);
}

static enum status
by_hello(struct str host, struct buf *b, struct dest *ret_d)
{
	CLEANUP(buf_done) struct buf scratch = { 0 };
	struct hello h;

	buf_init(&scratch, HELLO_MAX);
	put_hello(b, host);
	enum status st = hello_peek(str_of(b->p, b->len), &scratch, &h);
	need(st != ST_AGAIN);
	return st != ST_OK ? st : dest_from_host(h.name, PORT, ret_d);
}

static void
need_agreement(struct str host)
{
	static const way_fn ways[] = { by_connect, by_absolute_form, by_host_field,
				       by_socks, by_hello };
	struct dest first = { 0 }, d;
	size_t taken = 0;

	for (size_t i = 0; i < COUNT_OF(ways); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		buf_init(&b, 1 << 12);
		if (ways[i](host, &b, &d) != ST_OK)
			continue;
		need(taken == 0 ||
		     (dest_same_host(&first, &d) && first.port == d.port));
		first = d;
		taken++;
	}
	need(taken == 0 || taken == COUNT_OF(ways) || !dest_is_name(&first));
}

/* With its own port, or none. */
static void
need_same_authority(struct str in)
{
	struct uri u;
	struct dest d, bare;

	if (uri_parse(METHOD_CONNECT, in, &u) == ST_OK) {
		need(dest_from_authority(in, 80, &d) == ST_OK);
		need(dest_same_host(&u.dest, &d) && u.dest.port == d.port);
	} else if (dest_from_authority(in, 80, &d) == ST_OK) {
		need(d.port == 80 && dest_from_host(in, 80, &bare) == ST_OK);
		need(dest_same_host(&bare, &d));
	}
}

static void
need_same_when_sent(enum method m, struct str in)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str sent;
	struct uri u, again;

	buf_init(&b, in.n + 1);
	if (uri_parse(m, in, &u) != ST_OK)
		return;
	uri_put_target(&b, &u);
	need(buf_finish(&b, &sent) == ST_OK);
	need(uri_parse(m, sent, &again) == ST_OK);
	need(str_eq(u.path, again.path) && str_eq(u.query, again.query));
	need(u.has_query == again.has_query);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum method methods[] = { METHOD_GET, METHOD_OPTIONS };
	struct str in = str_of(data, size);

	if (size <= NAME_MAX)
		need_agreement(in);
	need_same_authority(in);
	for (size_t i = 0; i < COUNT_OF(methods); i++)
		need_same_when_sent(methods[i], in);
	return 0;
}

#include "proxy/http/socks.h"

#include <string.h>

#include "proxy/base/num.h"

enum {
	VERSION = 5,
	LOGIN_VERSION = 1,
	CONNECT = 1,
	ATYP_V4 = 1,
	ATYP_NAME = 3,
	ATYP_V6 = 4,
	REQUEST_HEADER = 4, /* version, command, reserved, address type */
};

static uint8_t
byte_at(struct str s, size_t i)
{
	return (uint8_t)s.p[i];
}

enum status
socks_read_greeting(struct str bytes, struct socks_greeting *ret_g)
{
	struct socks_greeting g = { 0 };
	struct str methods;

	if (bytes.n > 0 && byte_at(bytes, 0) != VERSION)
		return ST_BAD_SOCKS;
	if (bytes.n < 2)
		return ST_AGAIN;
	g.size = 2u + byte_at(bytes, 1);
	if (g.size == 2)
		return ST_BAD_SOCKS;
	if (bytes.n < g.size)
		return ST_AGAIN;
	methods = str_skip(str_head(bytes, g.size), 2);
	g.offers_none = str_has(methods, SOCKS_NONE);
	g.offers_password = str_has(methods, SOCKS_PASSWORD);
	*ret_g = g;
	return ST_OK;
}

/* The string at *at with its length in front; false while it is incomplete. */
static bool
take_string(struct str bytes, size_t *at, struct str *ret_s)
{
	size_t n;

	if (bytes.n <= *at)
		return false;
	n = byte_at(bytes, *at);
	if (bytes.n - *at - 1 < n)
		return false;
	*ret_s = str_of(bytes.p + *at + 1, n);
	*at += 1 + n;
	return true;
}

enum status
socks_read_login(struct str bytes, struct socks_login *ret_l)
{
	struct socks_login l = { .size = 1 };

	if (bytes.n > 0 && byte_at(bytes, 0) != LOGIN_VERSION)
		return ST_BAD_SOCKS;
	if (!take_string(bytes, &l.size, &l.user) ||
	    !take_string(bytes, &l.size, &l.password))
		return ST_AGAIN;
	*ret_l = l;
	return ST_OK;
}

/* The first four bytes, each checked as soon as it is there. */
static enum status
check_header(struct str bytes)
{
	if (bytes.n > 0 && byte_at(bytes, 0) != VERSION)
		return ST_BAD_SOCKS;
	if (bytes.n > 1 && byte_at(bytes, 1) != CONNECT)
		return ST_SOCKS_COMMAND;
	if (bytes.n > 2 && byte_at(bytes, 2) != 0)
		return ST_SOCKS_ADDRESS;
	if (bytes.n < REQUEST_HEADER)
		return ST_AGAIN;
	switch (byte_at(bytes, 3)) {
	case ATYP_V4:
	case ATYP_NAME:
	case ATYP_V6:
		return ST_OK;
	default:
		return ST_SOCKS_ADDRESS;
	}
}

static enum status
read_address(struct str bytes, struct socks_request *r)
{
	size_t n = byte_at(bytes, 3) == ATYP_V4 ? 4 : 16;

	if (byte_at(bytes, 3) == ATYP_NAME) {
		if (bytes.n > REQUEST_HEADER && byte_at(bytes, REQUEST_HEADER) == 0)
			return ST_BAD_HOST;
		return take_string(bytes, &r->size, &r->name) ? ST_OK : ST_AGAIN;
	}
	if (bytes.n - REQUEST_HEADER < n)
		return ST_AGAIN;
	r->addr.family = n == 4 ? 4 : 6;
	memcpy(r->addr.b, bytes.p + REQUEST_HEADER, n);
	r->size += n;
	return ST_OK;
}

enum status
socks_read_request(struct str bytes, struct socks_request *ret_r)
{
	struct socks_request r = { .size = REQUEST_HEADER };
	enum status st = check_header(bytes);

	if (st == ST_OK)
		st = read_address(bytes, &r);
	if (st != ST_OK)
		return st;
	if (bytes.n - r.size < 2)
		return ST_AGAIN;
	r.port = num_be16(bytes.p + r.size);
	if (r.port == 0)
		return ST_BAD_PORT;
	r.size += 2;
	*ret_r = r;
	return ST_OK;
}

void
socks_put_method(struct buf *b, uint8_t method)
{
	buf_put_u8(b, VERSION);
	buf_put_u8(b, method);
}

void
socks_put_login(struct buf *b, bool is_good)
{
	buf_put_u8(b, LOGIN_VERSION);
	buf_put_u8(b, is_good ? 0 : 1);
}

void
socks_put_reply(struct buf *b, enum status st)
{
	uint8_t reply = st == ST_OK ? 0 : status_words(st)->socks;

	/* A status without a SOCKS word must not read as success. */
	if (st != ST_OK && reply == 0)
		reply = 1;
	buf_put_u8(b, VERSION);
	buf_put_u8(b, reply);
	buf_put_u8(b, 0);
	buf_put_u8(b, ATYP_V4);
	buf_put_u32(b, 0);
	buf_put_u16(b, 0);
}

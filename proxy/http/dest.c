#include "proxy/http/dest.h"

#include <string.h>

#include "proxy/base/num.h"
#include "proxy/http/puny.h"

enum { LABEL_MAX = 63, PORT_DIGITS = 5 };

static bool
is_label_char(char c)
{
	return ascii_is_alpha(c) || ascii_is_digit(c) || c == '-' || c == '_';
}

/* Lower case already. */
static bool
is_label(struct str l)
{
	if (l.n == 0 || l.n > LABEL_MAX || l.p[0] == '-' || l.p[l.n - 1] == '-')
		return false;
	for (size_t i = 0; i < l.n; i++)
		if (!is_label_char(l.p[i]))
			return false;
	return !str_starts(l, STR("xn--")) || puny_is_valid(str_skip(l, 4));
}

/* What a resolver or a browser would take for a part of an IPv4 address. */
static bool
is_number(struct str l)
{
	bool is_hex = l.n >= 2 && l.p[0] == '0' && ascii_lower(l.p[1]) == 'x';

	for (size_t i = is_hex ? 2 : 0; i < l.n; i++) {
		char c = ascii_lower(l.p[i]);
		if (!ascii_is_digit(c) && !(is_hex && c >= 'a' && c <= 'f'))
			return false;
	}
	return l.n > 0;
}

static struct str
last_label(struct str name)
{
	size_t at = name.n;

	while (at > 0 && name.p[at - 1] != '.')
		at--;
	return str_skip(name, at);
}

static struct str
without_dot(struct str host)
{
	return str_ends(host, STR(".")) ? str_head(host, host.n - 1) : host;
}

static enum status
from_name(struct str host, bool may_be_single, struct dest *d)
{
	struct str name = without_dot(host), rest = { 0 };
	size_t labels = 0;

	if (name.n == 0 || name.n > DEST_NAME_MAX)
		return ST_BAD_HOST;
	for (size_t i = 0; i < name.n; i++)
		d->name[i] = ascii_lower(name.p[i]);
	d->name_len = (uint8_t)name.n;
	rest = dest_name(d);
	while (rest.p != NULL) {
		if (!is_label(str_cut(&rest, '.')))
			return ST_BAD_HOST;
		labels++;
	}
	return labels > 1 || may_be_single ? ST_OK : ST_BAD_HOST;
}

static enum status
from_ipv6(struct str host, struct dest *d)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct addr a = { 0 };

	if (host.n > 0 && host.p[0] == '[') {
		if (!str_ends(host, STR("]")))
			return ST_BAD_HOST;
		host = str_head(str_skip(host, 1), host.n - 2);
	}
	if (!addr_parse(host, &a) || a.family != 6)
		return ST_BAD_HOST;
	/* A socket takes ::ffff:a.b.c.d for a.b.c.d; other forms are other places. */
	bool is_mapped = memcmp(a.b, mapped, sizeof mapped) == 0;
	d->addr = is_mapped ? addr_unwrap(&a) : a;
	return ST_OK;
}

static enum status
from_host(struct str host, uint16_t port, bool may_be_single, struct dest *ret_d)
{
	struct dest d = { .port = port };
	enum status st = ST_OK;

	if (port == 0)
		return ST_BAD_PORT;
	if (host.n == 0)
		return ST_BAD_HOST;
	if (host.p[0] == '[' || str_has(host, ':'))
		st = from_ipv6(host, &d);
	else if (is_number(last_label(without_dot(host))))
		st = addr_parse(host, &d.addr) ? ST_OK : ST_IP_NONSTANDARD;
	else
		st = from_name(host, may_be_single, &d);
	if (st == ST_OK)
		*ret_d = d;
	return st;
}

enum status
dest_from_host(struct str host, uint16_t port, struct dest *ret_d)
{
	return from_host(host, port, false, ret_d);
}

enum status
dest_from_host_single(struct str host, uint16_t port, struct dest *ret_d)
{
	return from_host(host, port, true, ret_d);
}

static enum status
parse_port(struct str text, uint16_t *ret_port)
{
	uint64_t v = 0;

	if (text.n > PORT_DIGITS || !num_parse_strict(text, UINT16_MAX, &v) || v == 0)
		return ST_BAD_PORT;
	*ret_port = (uint16_t)v;
	return ST_OK;
}

/* Length of the host part; text.n if there is no port. */
static size_t
host_length(struct str text)
{
	const char *end = NULL;

	if (text.n > 0 && text.p[0] == '[') {
		end = memchr(text.p, ']', text.n);
		return end == NULL ? text.n : (size_t)(end - text.p) + 1;
	}
	end = text.n > 0 ? memchr(text.p, ':', text.n) : NULL;
	return end == NULL ? text.n : (size_t)(end - text.p);
}

static enum status
from_authority(struct str text, uint16_t default_port, bool may_be_single,
	       struct dest *ret_d)
{
	struct str host = str_head(text, host_length(text)),
		   rest = str_skip(text, host.n);
	uint16_t port = default_port;
	struct dest d;

	/* The host is looked at first: what is wrong with it says more than the port.
	 */
	enum status st = from_host(host, 1, may_be_single, &d);
	if (st != ST_OK)
		return st;
	if (rest.n == 0 && default_port == 0)
		return ST_BAD_TARGET;
	if (rest.n > 0 && rest.p[0] != ':')
		return ST_BAD_HOST;
	if (rest.n > 0)
		st = parse_port(str_skip(rest, 1), &port);
	if (st != ST_OK)
		return st;
	d.port = port;
	*ret_d = d;
	return ST_OK;
}

enum status
dest_from_authority(struct str text, uint16_t default_port, struct dest *ret_d)
{
	return from_authority(text, default_port, false, ret_d);
}

enum status
dest_from_authority_single(struct str text, uint16_t default_port, struct dest *ret_d)
{
	return from_authority(text, default_port, true, ret_d);
}

enum status
dest_from_addr(const struct addr *a, uint16_t port, struct dest *ret_d)
{
	if (a->family != 4 && a->family != 6)
		return ST_BAD_HOST;
	if (port == 0)
		return ST_BAD_PORT;
	*ret_d = (struct dest){ .addr = *a, .port = port };
	return ST_OK;
}

bool
dest_is_name(const struct dest *d)
{
	return d->name_len > 0;
}

struct str
dest_name(const struct dest *d)
{
	return (struct str){ d->name, d->name_len };
}

void
dest_put_host(struct buf *b, const struct dest *d)
{
	if (dest_is_name(d)) {
		buf_put(b, dest_name(d));
		return;
	}
	if (d->addr.family == 6)
		buf_putc(b, '[');
	addr_put(b, &d->addr);
	if (d->addr.family == 6)
		buf_putc(b, ']');
}

void
dest_put(struct buf *b, const struct dest *d)
{
	dest_put_host(b, d);
	buf_putc(b, ':');
	buf_put_dec(b, d->port);
}

bool
dest_same_host(const struct dest *a, const struct dest *b)
{
	return str_eq(dest_name(a), dest_name(b)) && addr_eq(&a->addr, &b->addr);
}

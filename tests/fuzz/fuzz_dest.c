/*
 * What is accepted has one spelling: written out it parses to the same destination, so
 * do other case and a trailing dot, and no octet outside a plain host is ever accepted.
 */
#include <string.h>

#include "proxy/http/dest.h"

static void
need_same(const struct dest *d, struct str host)
{
	struct dest again;

	need(dest_from_host_single(host, d->port, &again) == ST_OK);
	need(dest_same_host(d, &again) && d->port == again.port);
}

static void
need_plain(const struct dest *d)
{
	struct str name = dest_name(d);

	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		need((c >= 'a' && c <= 'z') || ascii_is_digit(c) || c == '-' ||
		     c == '_' || c == '.');
	}
	need(name.n == 0 || (name.p[0] != '.' && !str_ends(name, STR("."))));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str in = str_of(data, size), out;
	struct dest d, strict;

	buf_init(&b, 300);
	if (dest_from_host_single(in, 443, &d) != ST_OK) {
		need(dest_from_host(in, 443, &strict) != ST_OK);
		return 0;
	}
	need_plain(&d);
	dest_put_host(&b, &d);
	need(buf_finish(&b, &out) == ST_OK);
	need_same(&d, out);
	if (!dest_is_name(&d)) {
		need(addr_classify(&d.addr) <= ADDR_RESERVED);
		return 0;
	}
	buf_putc(&b, '.');
	for (size_t i = 0; i < b.len; i++)
		if (b.p[i] >= 'a' && b.p[i] <= 'z')
			b.p[i] = (char)(b.p[i] - 'a' + 'A');
	need_same(&d, str_of(b.p, b.len));
	if (dest_from_host(in, 443, &strict) == ST_OK)
		need(dest_same_host(&d, &strict));
	return 0;
}

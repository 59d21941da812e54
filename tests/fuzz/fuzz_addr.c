/*
 * Text is an address exactly when the C library says so, and the same one; written out
 * it reads back.  A range holds its own ends and nothing beside them.  Any sixteen
 * bytes survive the way through a sockaddr, and what embeds IPv4 is of its class or
 * worse.
 */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "proxy/base/addr.h"

enum { TEXT_MAX = 80 };

static void
reads_as_the_library_does(struct str in)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	char text[TEXT_MAX + 1] = { 0 };
	unsigned char want[16];
	struct addr a = { 0 }, again;
	struct str out;

	buf_init(&b, 64);
	memcpy(text, in.p, in.n);
	int family = memchr(text, ':', in.n) != NULL ? AF_INET6 : AF_INET;
	bool is_one =
		memchr(text, '\0', in.n) == NULL && inet_pton(family, text, want) == 1;
	need(addr_parse(in, &a) == is_one);
	if (!is_one)
		return;
	need(a.family == (family == AF_INET ? 4 : 6));
	need(memcmp(a.b, want, a.family == 4 ? 4 : 16) == 0);
	addr_put(&b, &a);
	need(buf_finish(&b, &out) == ST_OK);
	need(addr_parse(out, &again) && addr_eq(&a, &again));
}

static void
range_has_its_ends(struct str in)
{
	struct cidr c;

	if (!cidr_parse(in, &c))
		return;
	unsigned width = c.net.family == 4 ? 32 : 128;
	need(c.bits <= width && cidr_has(&c, &c.net));
	struct addr end = c.net;
	for (unsigned i = c.bits; i < width; i++)
		end.b[i / 8] |= (uint8_t)(0x80 >> i % 8);
	need(cidr_has(&c, &end));
	if (c.bits > 0) {
		end.b[(c.bits - 1) / 8] ^= (uint8_t)(0x80 >> (c.bits - 1) % 8);
		need(!cidr_has(&c, &end));
	}
}

static void
survives_a_sockaddr(struct addr a)
{
	struct sockaddr_storage ss;
	struct addr back;
	uint16_t port = 0;

	uint32_t n = addr_to_sockaddr(&a, 7, &ss);
	need(n <= sizeof ss &&
	     addr_from_sockaddr((struct sockaddr *)&ss, &back, &port));
	need(port == 7 && (addr_eq(&a, &back) || back.family == 4));
	ss.ss_family = AF_UNIX;
	need(!addr_from_sockaddr((struct sockaddr *)&ss, &back, &port));
}

static void
is_classed_by_what_it_embeds(struct addr a)
{
	struct addr inner = addr_unwrap(&a);
	enum addr_class outer = addr_classify(&a);

	need(addr_class_name(outer)[0] != '\0');
	need(outer != ADDR_PUBLIC || addr_classify(&inner) == ADDR_PUBLIC);
	need(addr_classify(&inner) != ADDR_METADATA || outer == ADDR_METADATA);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct addr a = { .family = 6 };

	if (size == 0 || size > TEXT_MAX)
		return 0;
	reads_as_the_library_does(str_of(data, size));
	range_has_its_ends(str_of(data, size));
	memcpy(a.b, data, size < 16 ? size : 16);
	if (size < 8) {
		a.family = 4;
		memset(a.b + 4, 0, 12);
	}
	survives_a_sockaddr(a);
	is_classed_by_what_it_embeds(a);
	return 0;
}

#include "proxy/base/addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "proxy/base/num.h"

struct range {
	uint8_t b[16];
	uint8_t bits;
	enum addr_class class;
};

/* First match wins, so metadata services come before the ranges they lie in. */
static const struct range ranges4[] = {
	{ { 169, 254, 169, 254 },
	  32,
	  ADDR_METADATA }, /* AWS, GCP, Azure and most others */
	{ { 169, 254, 170, 2 }, 32, ADDR_METADATA },  /* ECS task credentials */
	{ { 169, 254, 170, 23 }, 32, ADDR_METADATA }, /* EKS pod identity */
	{ { 169, 254, 0, 23 }, 32, ADDR_METADATA },   /* Tencent */
	{ { 169, 254, 42, 42 }, 32, ADDR_METADATA },  /* Scaleway */
	{ { 168, 63, 129, 16 },
	  32,
	  ADDR_METADATA }, /* Azure wire server; looks public */
	{ { 100, 100, 100, 200 }, 32, ADDR_METADATA }, /* Alibaba */
	{ { 192, 0, 0, 192 }, 32, ADDR_METADATA },     /* Oracle */
	{ { 0 }, 8, ADDR_RESERVED },
	{ { 10 }, 8, ADDR_PRIVATE },
	{ { 100, 64 }, 10, ADDR_CGNAT },
	{ { 127 }, 8, ADDR_LOOPBACK },
	{ { 169, 254 }, 16, ADDR_LINK_LOCAL },
	{ { 172, 16 }, 12, ADDR_PRIVATE },
	{ { 192, 0, 0 }, 24, ADDR_RESERVED },
	{ { 192, 0, 2 }, 24, ADDR_DOCUMENTATION },
	{ { 192, 88, 99 }, 24, ADDR_RESERVED }, /* 6to4 relays, RFC 7526 */
	{ { 192, 168 }, 16, ADDR_PRIVATE },
	{ { 198, 18 }, 15, ADDR_BENCHMARK },
	{ { 198, 51, 100 }, 24, ADDR_DOCUMENTATION },
	{ { 203, 0, 113 }, 24, ADDR_DOCUMENTATION },
	{ { 224 }, 4, ADDR_MULTICAST },
	{ { 240 }, 4, ADDR_RESERVED },
	{ { 0 }, 0, ADDR_PUBLIC },
};

static const struct range ranges6[] = {
	{ { 0xfd, 0, 0x0e, 0xc2, [14] = 2, [15] = 0x54 },
	  128,
	  ADDR_METADATA },                                            /* AWS */
	{ { 0xfd, 0, 0x0e, 0xc2, [15] = 0x23 }, 128, ADDR_METADATA }, /* EKS */
	{ { 0xfd, 0x20, 0, 0xce, [14] = 2, [15] = 0x54 },
	  128,
	  ADDR_METADATA },                                         /* GCP */
	{ { 0xfd, 0, 0, 0x42, [15] = 0x42 }, 128, ADDR_METADATA }, /* Scaleway */
	{ { 0xfd, 0, 0, 0xc1, [12] = 0xa9, 0xfe, 0xa9, 0xfe }, 128, ADDR_METADATA },
	{ { 0xfe, 0x80, [12] = 0xa9, 0xfe, 0xa9, 0xfe }, 128, ADDR_METADATA },
	{ { [15] = 1 }, 128, ADDR_LOOPBACK },
	{ { 0xff }, 8, ADDR_MULTICAST },
	{ { 0xfe, 0x80 }, 10, ADDR_LINK_LOCAL },
	{ { 0xfe, 0xc0 }, 10, ADDR_PRIVATE }, /* site-local, RFC 3879 */
	{ { 0xfc }, 7, ADDR_PRIVATE },
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32, ADDR_DOCUMENTATION },
	{ { 0x3f, 0xff }, 20, ADDR_DOCUMENTATION },
	{ { 0x20, 0x01, 0, 2 }, 48, ADDR_BENCHMARK },
	{ { 0x20, 0x01 }, 23, ADDR_RESERVED }, /* protocol assignments, ORCHID */
	{ { 0x20 }, 3, ADDR_PUBLIC },
	{ { 0 }, 0, ADDR_RESERVED },
};

static bool
same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole) != 0)
		return false;
	return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

bool
addr_parse(struct str text, struct addr *ret_a)
{
	char s[INET6_ADDRSTRLEN];
	struct addr a = { 0 };

	if (text.n == 0 || text.n >= sizeof s || str_has(text, '\0'))
		return false;
	memcpy(s, text.p, text.n);
	s[text.n] = '\0';
	a.family = str_has(text, ':') ? 6 : 4;
	if (inet_pton(a.family == 6 ? AF_INET6 : AF_INET, s, a.b) != 1)
		return false;
	*ret_a = a;
	return true;
}

bool
cidr_parse(struct str text, struct cidr *ret_c)
{
	struct str host = str_cut(&text, '/');
	struct cidr c = { 0 };
	uint64_t bits = 0;

	if (!addr_parse(host, &c.net))
		return false;
	unsigned width = c.net.family == 6 ? 128 : 32;
	if (text.p == NULL)
		bits = width;
	else if (!num_parse_strict(text, width, &bits))
		return false;
	for (unsigned i = (unsigned)bits; i < width; i++)
		if (c.net.b[i / 8] & 0x80 >> i % 8)
			return false;
	c.bits = (uint8_t)bits;
	*ret_c = c;
	return true;
}

void
addr_put(struct buf *b, const struct addr *a)
{
	char s[INET6_ADDRSTRLEN];

	need(a->family == 4 || a->family == 6);
	/* glibc's form of IPv6 is RFC 5952's. */
	need(inet_ntop(a->family == 6 ? AF_INET6 : AF_INET, a->b, s, sizeof s) != NULL);
	buf_put(b, str_from(s));
}

bool
addr_eq(const struct addr *a, const struct addr *b)
{
	return a->family == b->family &&
	       (a->family == 0 || memcmp(a->b, b->b, a->family == 6 ? 16 : 4) == 0);
}

bool
cidr_has(const struct cidr *c, const struct addr *a)
{
	return a->family != 0 && c->net.family == a->family &&
	       same_bits(c->net.b, a->b, c->bits);
}

static struct addr
v4_at(const uint8_t *b, uint8_t mask)
{
	struct addr a = { .family = 4 };

	for (unsigned i = 0; i < 4; i++)
		a.b[i] = b[i] ^ mask;
	return a;
}

/* 64:ff9b:1::/48 holds prefixes of any RFC 6052 length; this is the /48 form. */
static struct addr
v4_in_48(const uint8_t *b)
{
	return (struct addr){ 4, { b[6], b[7], b[9], b[10] } };
}

static bool
is_local_nat64(const uint8_t *b)
{
	static const uint8_t prefix[6] = { 0, 0x64, 0xff, 0x9b, 0, 1 };

	return same_bits(b, prefix, 48);
}

static bool
is_teredo(const uint8_t *b)
{
	static const uint8_t prefix[4] = { 0x20, 0x01, 0, 0 };

	return same_bits(b, prefix, 32);
}

static bool
is_isatap(const uint8_t *b)
{
	return (b[8] & 0xfd) == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe;
}

struct addr
addr_unwrap(const struct addr *a)
{
	static const uint8_t compatible[12] = { 0 };
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	static const uint8_t translated[12] = { [8] = 0xff, [9] = 0xff }; /* RFC 2765 */
	static const uint8_t nat64[12] = { 0, 0x64, 0xff, 0x9b };
	static const uint8_t zero[5] = { 0 };
	const uint8_t *b = a->b;

	if (a->family != 6)
		return *a;
	if (same_bits(b, compatible, 96)) /* but :: and ::1 are themselves */
		return num_be32(b + 12) <= 1 ? *a : v4_at(b + 12, 0);
	if (same_bits(b, mapped, 96) || same_bits(b, translated, 96) ||
	    same_bits(b, nat64, 96))
		return v4_at(b + 12, 0);
	if (is_local_nat64(b))
		return memcmp(b + 11, zero, 5) == 0 ? v4_in_48(b) : v4_at(b + 12, 0);
	if (b[0] == 0x20 && b[1] == 0x02)
		return v4_at(b + 2, 0);
	if (is_teredo(b))
		return v4_at(b + 12, 0xff);
	return is_isatap(b) ? v4_at(b + 12, 0) : *a;
}

static enum addr_class
look_up(const struct addr *a)
{
	const struct range *r = a->family == 6 ? ranges6 : ranges4;

	while (!same_bits(r->b, a->b, r->bits)) /* the last row matches all */
		r++;
	return r->class;
}

/* Metadata is worst, then whatever isn't public. */
static enum addr_class
worse(enum addr_class a, enum addr_class b)
{
	if (a == ADDR_METADATA || b == ADDR_METADATA)
		return ADDR_METADATA;
	return a == ADDR_PUBLIC ? b : a;
}

enum addr_class
addr_classify(const struct addr *a)
{
	struct addr in = addr_unwrap(a);
	enum addr_class class = look_up(&in);

	if (a->family == 0)
		return ADDR_RESERVED;
	if (a->family == 4 || in.family == 6)
		return class;
	if (is_isatap(a->b)) /* a link-local prefix stays link-local */
		return worse(look_up(a), class);
	if (is_teredo(a->b)) {
		struct addr server = v4_at(a->b + 4, 0);
		return worse(class, look_up(&server));
	}
	if (is_local_nat64(a->b)) {
		/* The prefix length is the network's secret; it is never global. */
		struct addr p48 = v4_in_48(a->b), p56 = v4_at(a->b + 8, 0);
		struct addr p64 = v4_at(a->b + 9, 0), p96 = v4_at(a->b + 12, 0);
		p56.b[0] = a->b[7];
		class = worse(class, worse(look_up(&p48), look_up(&p56)));
		class = worse(class, worse(look_up(&p64), look_up(&p96)));
		return worse(class, ADDR_RESERVED);
	}
	return class;
}

const char *
addr_class_name(enum addr_class c)
{
	static const char *const names[] = {
		[ADDR_PUBLIC] = "public",
		[ADDR_METADATA] = "metadata",
		[ADDR_LOOPBACK] = "loopback",
		[ADDR_PRIVATE] = "private",
		[ADDR_CGNAT] = "cgnat",
		[ADDR_LINK_LOCAL] = "link-local",
		[ADDR_MULTICAST] = "multicast",
		[ADDR_BENCHMARK] = "benchmark",
		[ADDR_DOCUMENTATION] = "documentation",
		[ADDR_RESERVED] = "reserved",
	};

	need((size_t)c < COUNT_OF(names));
	return names[c];
}

static const uint8_t mapped_prefix[12] = { [10] = 0xff, [11] = 0xff };

bool
addr_from_sockaddr(const struct sockaddr *sa, struct addr *ret_a, uint16_t *ret_port)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct addr a = { 0 };

	if (sa->sa_family == AF_INET) {
		memcpy(&in, sa, sizeof in);
		a.family = 4;
		memcpy(a.b, &in.sin_addr, 4);
		*ret_port = ntohs(in.sin_port);
	} else if (sa->sa_family == AF_INET6) {
		memcpy(&in6, sa, sizeof in6);
		a.family = 6;
		memcpy(a.b, &in6.sin6_addr, 16);
		if (memcmp(a.b, mapped_prefix, 12) == 0)
			a = v4_at(a.b + 12, 0);
		*ret_port = ntohs(in6.sin6_port);
	} else {
		return false;
	}
	*ret_a = a;
	return true;
}

uint32_t
addr_to_sockaddr(const struct addr *a, uint16_t port, struct sockaddr_storage *ret_sa)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	need(a->family == 4 || a->family == 6);
	memset(ret_sa, 0, sizeof *ret_sa);
	if (a->family == 4) {
		memcpy(&in.sin_addr, a->b, 4);
		memcpy(ret_sa, &in, sizeof in);
		return sizeof in;
	}
	memcpy(&in6.sin6_addr, a->b, 16);
	memcpy(ret_sa, &in6, sizeof in6);
	return sizeof in6;
}

#include "proxy/http/dnsmsg.h"

#include <string.h>

#include "proxy/base/num.h"

enum {
	LABEL_MAX = 63,
	EDE_OPTION = 15,
	OPT_FIXED = 11, /* root name, type, class, TTL, length */
	FLAG_QR = 0x80,
	FLAG_TC = 0x02,
	FLAG_RD = 0x01,
	OPCODE = 0x78,
	FLAG_RA = 0x80, /* of the second flag byte */
	FLAG_CD = 0x10,
};

static uint8_t
byte_at(struct str s, size_t i)
{
	return (uint8_t)s.p[i];
}

static bool
is_name_byte(char c)
{
	return ascii_is_alpha(c) || ascii_is_digit(c) || c == '-' || c == '_';
}

/* Append one label, lower-cased; false if its bytes or the whole's length are wrong. */
static bool
add_label(struct dnsmsg_query *q, struct str label)
{
	size_t at = q->name_len;

	if (label.n + (at > 0) > DNSMSG_NAME_MAX - at)
		return false;
	if (at > 0)
		q->name[at++] = '.';
	for (size_t i = 0; i < label.n; i++) {
		if (!is_name_byte(label.p[i]))
			return false;
		q->name[at++] = ascii_lower(label.p[i]);
	}
	q->name_len = (uint8_t)at;
	return true;
}

/* *at is moved behind the name. */
static bool
read_name(struct str packet, size_t *at, struct dnsmsg_query *q)
{
	while (*at < packet.n) {
		size_t n = byte_at(packet, *at);

		if (n > LABEL_MAX || packet.n - *at - 1 < n)
			return false; /* pointers and other label types too */
		*at += 1 + n;
		if (n == 0)
			return true;
		if (!add_label(q, str_of(packet.p + *at - n, n)))
			return false;
	}
	return false;
}

/* The options of an OPT record: each with a length that fits, up to the end. */
static bool
options_fit(struct str options)
{
	while (options.n > 0) {
		size_t n;

		if (options.n < 4)
			return false;
		n = num_be16(options.p + 2);
		if (n > options.n - 4)
			return false;
		options = str_skip(options, 4 + n);
	}
	return true;
}

static uint16_t
clamp_udp(uint16_t size)
{
	if (size < DNSMSG_UDP_LEAST)
		return DNSMSG_UDP_LEAST;
	return size > DNSMSG_UDP_MOST ? DNSMSG_UDP_MOST : size;
}

/* The record behind the question is OPT and the last thing in the packet. */
static bool
read_opt(struct str rest, struct dnsmsg_query *q)
{
	if (rest.n < OPT_FIXED || rest.p[0] != 0 || num_be16(rest.p + 1) != DNSMSG_OPT)
		return false;
	if (num_be16(rest.p + 9) != rest.n - OPT_FIXED)
		return false;
	q->has_opt = true;
	q->udp_size = clamp_udp(num_be16(rest.p + 3));
	q->edns_version = byte_at(rest, 6);
	return options_fit(str_skip(rest, OPT_FIXED));
}

/* One question, no answer, no authority, at most one additional record. */
static bool
counts_are_good(struct str packet)
{
	return num_be16(packet.p + 4) == 1 && num_be16(packet.p + 6) == 0 &&
	       num_be16(packet.p + 8) == 0 && num_be16(packet.p + 10) <= 1;
}

enum status
dnsmsg_read_query(struct str packet, struct dnsmsg_query *ret_q)
{
	struct dnsmsg_query q;
	size_t at = DNSMSG_HEADER;

	if (packet.n < DNSMSG_HEADER || (byte_at(packet, 2) & FLAG_QR) != 0)
		return ST_END;
	if ((byte_at(packet, 2) & OPCODE) != 0)
		return ST_METHOD_REFUSED;
	if (packet.n > DNSMSG_QUERY_MAX || !counts_are_good(packet))
		return ST_BAD_QUERY;
	q.packet = packet;
	q.has_opt = false;
	q.edns_version = 0;
	q.udp_size = DNSMSG_UDP_LEAST;
	q.name_len = 0;
	if (!read_name(packet, &at, &q) || packet.n - at < 4)
		return ST_BAD_QUERY;
	q.name[q.name_len] = '\0';
	q.type = num_be16(packet.p + at);
	q.class = num_be16(packet.p + at + 2);
	at += 4;
	q.question_size = (uint16_t)(at - DNSMSG_HEADER);
	if (num_be16(packet.p + 10) == 0 ? at != packet.n
					 : !read_opt(str_skip(packet, at), &q))
		return ST_BAD_QUERY;
	*ret_q = q;
	return ST_OK;
}

enum status
dnsmsg_cut(struct str stream, struct str *ret_packet, size_t *ret_used)
{
	size_t n;

	if (stream.n < 2)
		return ST_AGAIN;
	n = num_be16(stream.p);
	if (n < DNSMSG_HEADER || n > DNSMSG_QUERY_MAX)
		return ST_BAD_QUERY;
	if (stream.n - 2 < n)
		return ST_AGAIN;
	*ret_packet = str_of(stream.p + 2, n);
	*ret_used = 2 + n;
	return ST_OK;
}

/* Writing: the space is larger than all that can be put, so nothing can overflow;
 * need() holds us to that. */
struct out {
	char *p;
	size_t n;
};

static void
put(struct out *o, const void *p, size_t n)
{
	need(n <= DNSMSG_ANSWER_MAX - o->n);
	memcpy(o->p + o->n, p, n);
	o->n += n;
}

static void
put_u16(struct out *o, uint16_t v)
{
	uint8_t b[2] = { (uint8_t)(v >> 8), (uint8_t)v };

	put(o, b, 2);
}

static void
put_u32(struct out *o, uint32_t v)
{
	put_u16(o, (uint16_t)(v >> 16));
	put_u16(o, (uint16_t)v);
}

static void
set_u16(struct out *o, size_t at, uint16_t v)
{
	o->p[at] = (char)(v >> 8);
	o->p[at + 1] = (char)v;
}

/* Name pointer, type, class, TTL, length of what follows. */
static void
put_record(struct out *o, uint16_t name, uint16_t type, uint32_t ttl, size_t length)
{
	put_u16(o, name);
	put_u16(o, type);
	put_u16(o, DNSMSG_IN);
	put_u32(o, ttl);
	put_u16(o, (uint16_t)length);
}

static size_t
addr_size(const struct addr *a)
{
	return a->family == 4 ? 4 : 16;
}

static bool
is_asked_for(const struct dnsmsg_query *q, const struct addr *a)
{
	return (q->type == DNSMSG_A && a->family == 4) ||
	       (q->type == DNSMSG_AAAA && a->family == 6);
}

enum { AT_NAME = 0xc000 | DNSMSG_HEADER }; /* a pointer to the question's name */

static uint16_t
put_addresses(struct out *o, const struct dnsmsg_query *q,
	      const struct dnsmsg_answer *a)
{
	uint16_t n = 0;

	for (size_t i = 0; i < a->addrs_n && n < DNSMSG_ADDRS_MAX; i++) {
		if (!is_asked_for(q, &a->addrs[i]))
			continue;
		put_record(o, AT_NAME, q->type, a->ttl, addr_size(&a->addrs[i]));
		put(o, a->addrs[i].b, addr_size(&a->addrs[i]));
		n++;
	}
	return n;
}

/*
 * The zone of a negative answer (RFC 2308): the name without its first label, so that
 * it encloses the name; the root for the root.  It says how long "no" may be kept.
 */
static void
put_soa(struct out *o, const struct dnsmsg_query *q)
{
	static const char names[] =
		"\010sandgate\010internal\0\012hostmaster\010sandgate\010internal";
	static const uint32_t numbers[] = { 1, 3600, 600, 86400, DNSMSG_TTL_NEGATIVE };
	size_t first = byte_at(q->packet, DNSMSG_HEADER);
	size_t zone = q->name_len == 0 ? 0 : 1 + first;

	put_record(o, (uint16_t)(AT_NAME + zone), DNSMSG_SOA, DNSMSG_TTL_NEGATIVE,
		   sizeof(names) + sizeof(numbers));
	put(o, names, sizeof(names)); /* its NUL is the last root label */
	for (size_t i = 0; i < COUNT_OF(numbers); i++)
		put_u32(o, numbers[i]);
}

/* RFC 6891 section 6.1.2 and, with a code, RFC 8914 section 2. */
static void
put_opt(struct out *o, const struct dnsmsg_answer *a)
{
	size_t text = a->code ? strlen(a->code) : 0;
	size_t length = a->code ? 6 + text : 0;

	put(o, "", 1);
	put_u16(o, DNSMSG_OPT);
	put_u16(o, DNSMSG_UDP_MOST);
	put_u32(o, (uint32_t)a->rcode >> 4 << 24);
	put_u16(o, (uint16_t)length);
	if (!a->code)
		return;
	put_u16(o, EDE_OPTION);
	put_u16(o, (uint16_t)(2 + text));
	put_u16(o, a->ede);
	put(o, a->code, text);
}

/* Flags of an answer: as asked (RD, CD), recursion is available. */
static void
put_header(struct out *o, struct str packet, enum dnsmsg_rcode rcode)
{
	static const char none[8] = { 0 };
	uint8_t flags[2];

	flags[0] = (uint8_t)(FLAG_QR | (byte_at(packet, 2) & (OPCODE | FLAG_RD)));
	flags[1] = (uint8_t)(FLAG_RA | (byte_at(packet, 3) & FLAG_CD) | (rcode & 0x0f));
	put(o, packet.p, 2);
	put(o, flags, 2);
	put(o, none, sizeof(none));
}

static void
put_sections(struct out *o, const struct dnsmsg_query *q, const struct dnsmsg_answer *a)
{
	uint16_t answers = 0;

	put(o, q->packet.p + DNSMSG_HEADER, q->question_size);
	set_u16(o, 4, 1);
	if (a->rcode == DNSMSG_NOERROR)
		answers = put_addresses(o, q, a);
	set_u16(o, 6, answers);
	if (answers == 0 &&
	    (a->rcode == DNSMSG_NOERROR || a->rcode == DNSMSG_NXDOMAIN)) {
		put_soa(o, q);
		set_u16(o, 8, 1);
	}
	if (q->has_opt) {
		put_opt(o, a);
		set_u16(o, 10, 1);
	}
}

size_t
dnsmsg_write(const struct dnsmsg_query *q, const struct dnsmsg_answer *a, char *space)
{
	struct out o = { .p = space };

	put_header(&o, q->packet, a->rcode);
	put_sections(&o, q, a);
	if (a->is_tcp || o.n <= q->udp_size)
		return o.n;
	/* RFC 2181 section 9: with TC nothing but header, question and OPT is of use.
	 */
	o.n = 0;
	put_header(&o, q->packet, a->rcode);
	space[2] = (char)(space[2] | FLAG_TC);
	put(&o, q->packet.p + DNSMSG_HEADER, q->question_size);
	set_u16(&o, 4, 1);
	if (q->has_opt) {
		put_opt(&o, a);
		set_u16(&o, 10, 1);
	}
	return o.n;
}

size_t
dnsmsg_write_error(struct str packet, enum dnsmsg_rcode rcode, char *space)
{
	struct out o = { 0 };

	need(packet.n >= DNSMSG_HEADER);
	o.p = space;
	put_header(&o, packet, rcode);
	return o.n;
}

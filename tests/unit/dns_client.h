#ifndef TESTS_UNIT_DNS_CLIENT_H
#define TESTS_UNIT_DNS_CLIENT_H
/*
 * dns_client: the client's side of DNS, strict about what it reads, to try with what
 * sandboxes are answered.  What resolvers answer us is read by proxy/dialer/packet.c.
 */
#include <string.h>

#include "proxy/base/num.h"
#include "proxy/http/dnsmsg.h"

enum { RECORD_FIXED = 10, EDE_OPTION = 15, POINTER = 0xc0, LABEL_MAX = 63 };

struct dns_reply {
	uint16_t id;
	enum dnsmsg_rcode rcode; /* with the upper bits from OPT */
	bool is_truncated, has_soa, has_opt, has_ede;
	uint16_t ede;        /* RFC 8914 INFO-CODE */
	struct str ede_text; /* view into the packet */
	struct str question; /* wire form: name, type, class */
	uint32_t ttl;        /* least of all addresses, or the SOA's */
	size_t addrs_n;
	struct addr addrs[DNSMSG_ADDRS_MAX];
};

static inline bool
is_label(struct str label)
{
	return label.n > 0 && label.n <= LABEL_MAX;
}

static inline enum status
put_name(struct buf *b, struct str name)
{
	struct str rest = name;

	if (name.n > DNSMSG_NAME_MAX)
		return ST_BAD_HOST;
	while (rest.n > 0) {
		struct str label = str_cut(&rest, '.');

		if (!is_label(label))
			return ST_BAD_HOST;
		buf_put_u8(b, (uint8_t)label.n);
		buf_put(b, label);
	}
	buf_put_u8(b, 0);
	return ST_OK;
}

/* udp_size 0: without OPT.  ST_BAD_HOST when name is not one. */
static inline enum status
dns_put_query(struct buf *b, uint16_t id, struct str name, uint16_t type,
	      uint16_t udp_size)
{
	enum status st;

	buf_put_u16(b, id);
	buf_put_u16(b, 0x0100); /* recursion desired */
	buf_put_u16(b, 1);
	buf_put_u32(b, 0);
	buf_put_u16(b, udp_size > 0);
	st = put_name(b, name);
	if (st != ST_OK)
		return st;
	buf_put_u16(b, type);
	buf_put_u16(b, DNSMSG_IN);
	if (udp_size > 0) {
		buf_put_u8(b, 0);
		buf_put_u16(b, DNSMSG_OPT);
		buf_put_u16(b, udp_size);
		buf_put_u32(b, 0);
		buf_put_u16(b, 0);
	}
	return b->st;
}

/* Move *rest behind a name.  A pointer ends it, and where it points does not matter. */
static inline bool
skip_name(struct str *rest)
{
	while (rest->n > 0) {
		size_t n = (uint8_t)rest->p[0];

		if (n >= POINTER) {
			if (rest->n < 2)
				return false;
			*rest = str_skip(*rest, 2);
			return true;
		}
		if (n > LABEL_MAX || rest->n - 1 < n)
			return false;
		*rest = str_skip(*rest, 1 + n);
		if (n == 0)
			return true;
	}
	return false;
}

struct dns_record {
	uint16_t type, class;
	uint32_t ttl;
	struct str data;
};

static inline bool
take_record(struct str *rest, struct dns_record *ret_rec)
{
	size_t length;

	if (!skip_name(rest) || rest->n < RECORD_FIXED)
		return false;
	length = num_be16(rest->p + 8);
	if (rest->n - RECORD_FIXED < length)
		return false;
	ret_rec->type = num_be16(rest->p);
	ret_rec->class = num_be16(rest->p + 2);
	ret_rec->ttl = num_be32(rest->p + 4);
	ret_rec->data = str_of(rest->p + RECORD_FIXED, length);
	*rest = str_skip(*rest, RECORD_FIXED + length);
	return true;
}

static inline bool
keep_address(struct dns_reply *r, const struct dns_record *rec)
{
	size_t n = rec->type == DNSMSG_A ? 4 : 16;
	struct addr *a;

	if (rec->data.n != n || r->addrs_n == DNSMSG_ADDRS_MAX)
		return false;
	a = &r->addrs[r->addrs_n++];
	a->family = n == 4 ? 4 : 6;
	memcpy(a->b, rec->data.p, n);
	if (r->addrs_n == 1 || rec->ttl < r->ttl)
		r->ttl = rec->ttl;
	return true;
}

static inline bool
read_options(struct dns_reply *r, struct str options)
{
	while (options.n > 0) {
		size_t n;

		if (options.n < 4)
			return false;
		n = num_be16(options.p + 2);
		if (n > options.n - 4)
			return false;
		if (num_be16(options.p) == EDE_OPTION && n >= 2) {
			r->has_ede = true;
			r->ede = num_be16(options.p + 4);
			r->ede_text = str_of(options.p + 6, n - 2);
		}
		options = str_skip(options, 4 + n);
	}
	return true;
}

static inline bool
keep_record(struct dns_reply *r, const struct dns_record *rec)
{
	if (rec->type == DNSMSG_OPT) {
		if (r->has_opt)
			return false;
		r->has_opt = true;
		r->rcode |= (enum dnsmsg_rcode)(rec->ttl >> 24 << 4);
		return read_options(r, rec->data);
	}
	if (rec->class == DNSMSG_IN &&
	    (rec->type == DNSMSG_A || rec->type == DNSMSG_AAAA))
		return keep_address(r, rec);
	if (rec->type == DNSMSG_SOA) {
		r->has_soa = true;
		r->ttl = r->addrs_n > 0 ? r->ttl : rec->ttl;
	}
	return true;
}

static inline bool
read_question(struct str *rest, struct dns_reply *r)
{
	const char *start = rest->p;

	if (!skip_name(rest) || rest->n < 4)
		return false;
	*rest = str_skip(*rest, 4);
	r->question = str_of(start, (size_t)(rest->p - start));
	return true;
}

static inline enum status
dns_read_answer(struct str packet, struct dns_reply *ret_r)
{
	struct dns_reply r = { 0 };
	struct str rest = str_skip(packet, DNSMSG_HEADER);
	struct dns_record rec;
	size_t records;

	if (packet.n < DNSMSG_HEADER || (packet.p[2] & 0x80) == 0)
		return ST_BAD_QUERY;
	r.id = num_be16(packet.p);
	r.is_truncated = (packet.p[2] & 0x02) != 0;
	r.rcode = (enum dnsmsg_rcode)(packet.p[3] & 0x0f);
	if (num_be16(packet.p + 4) > 1)
		return ST_BAD_QUERY;
	if (num_be16(packet.p + 4) == 1 && !read_question(&rest, &r))
		return ST_BAD_QUERY;
	records = (size_t)num_be16(packet.p + 6) + num_be16(packet.p + 8) +
		  num_be16(packet.p + 10);
	for (; records > 0; records--)
		if (!take_record(&rest, &rec) || !keep_record(&r, &rec))
			return ST_BAD_QUERY;
	if (rest.n > 0)
		return ST_BAD_QUERY;
	*ret_r = r;
	return ST_OK;
}

#endif

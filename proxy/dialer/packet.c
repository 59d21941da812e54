#include "proxy/dialer/packet.h"

#include <string.h>

#include "proxy/base/num.h"

enum {
	HEADER = 12,
	NAME_MAX_WIRE = 255, /* RFC 1035 section 3.1, with lengths and root */
	LABEL_MAX = 63,
	CLASS_IN = 1,
	TYPE_CNAME = 5,
	RCODE_NXDOMAIN = 3,
};

struct name { /* in wire form, letters folded: one spelling for one name */
	uint8_t len;
	uint8_t b[NAME_MAX_WIRE];
};

struct record {
	size_t owner; /* offset of its name */
	uint16_t type, class;
	uint32_t ttl;
	size_t data; /* offset */
	uint16_t data_len;
};

struct records {
	size_t n;
	struct record r[PACKET_RECORDS_MAX];
};

static bool
put_label(struct packet_query *q, struct str label)
{
	/* The root label and type and class must still fit behind. */
	if (label.n == 0 || label.n > LABEL_MAX ||
	    label.n + 1 > HEADER + NAME_MAX_WIRE - 1 - q->len)
		return false;
	q->bytes[q->len++] = (uint8_t)label.n;
	memcpy(q->bytes + q->len, label.p, label.n);
	q->len += label.n;
	return true;
}

static void
mix_case(struct packet_query *q, const uint8_t *noise)
{
	size_t bit = 0;

	for (size_t i = HEADER; i < q->len; i++) {
		/* A length is at most 63, below every letter. */
		if (!ascii_is_alpha((char)q->bytes[i]))
			continue;
		if (noise[bit / 8 % 32] >> (bit % 8) & 1)
			q->bytes[i] ^= 0x20;
		bit++;
	}
}

static void
put_be16(struct packet_query *q, uint16_t v)
{
	q->bytes[q->len++] = (uint8_t)(v >> 8);
	q->bytes[q->len++] = (uint8_t)(v & 0xff);
}

enum status
packet_make_query(struct str name, uint16_t type, const uint8_t noise[PACKET_NOISE],
		  struct packet_query *ret_q)
{
	struct packet_query q = { .len = HEADER };

	q.bytes[0] = noise[0];
	q.bytes[1] = noise[1];
	q.bytes[2] = 1; /* recursion desired */
	q.bytes[5] = 1; /* one question */
	if (name.n == 0)
		return ST_BAD_HOST;
	for (struct str rest = name; rest.p != NULL;)
		if (!put_label(&q, str_cut(&rest, '.')))
			return ST_BAD_HOST;
	mix_case(&q, noise + 2);
	q.bytes[q.len++] = 0;
	put_be16(&q, type);
	put_be16(&q, CLASS_IN);
	*ret_q = q;
	return ST_OK;
}

/* The offset behind the name at `at`, or 0.  A pointer ends a name. */
static size_t
skip_name(struct str m, size_t at)
{
	const uint8_t *p = (const uint8_t *)m.p;

	while (at < m.n) {
		if (p[at] >= 0xc0)
			return m.n - at >= 2 ? at + 2 : 0;
		if (p[at] > LABEL_MAX)
			return 0;
		if (p[at] == 0)
			return at + 1;
		at += (size_t)p[at] + 1;
	}
	return 0;
}

/* Pointers must go backwards, each further than the last: no loop is possible. */
static bool
read_name(struct str m, size_t at, struct name *ret_name)
{
	const uint8_t *p = (const uint8_t *)m.p;
	size_t floor = at;
	struct name n = { 0 };

	while (at < m.n && p[at] != 0) {
		if (p[at] >= 0xc0) {
			if (m.n - at < 2)
				return false;
			size_t to = num_be16(p + at) & 0x3fffu;
			if (to >= floor || to < HEADER)
				return false;
			at = floor = to;
			continue;
		}
		size_t size = (size_t)p[at] + 1;
		if (p[at] > LABEL_MAX || size > m.n - at ||
		    size > (size_t)NAME_MAX_WIRE - 1 - n.len)
			return false;
		n.b[n.len++] = p[at];
		for (size_t i = 1; i < size; i++)
			n.b[n.len++] = (uint8_t)ascii_lower((char)p[at + i]);
		at += size;
	}
	if (at >= m.n)
		return false;
	*ret_name = n;
	return true;
}

static bool
name_eq(const struct name *a, const struct name *b)
{
	return a->len == b->len && memcmp(a->b, b->b, a->len) == 0;
}

static bool
read_record(struct str m, size_t *at, struct record *ret_r)
{
	const uint8_t *p = (const uint8_t *)m.p;
	size_t fixed = skip_name(m, *at);

	if (fixed == 0 || m.n - fixed < 10)
		return false;
	struct record r = {
		.owner = *at,
		.type = num_be16(p + fixed),
		.class = num_be16(p + fixed + 2),
		.ttl = num_be32(p + fixed + 4),
		.data = fixed + 10,
		.data_len = num_be16(p + fixed + 8),
	};
	if (r.data_len > m.n - r.data)
		return false;
	if (r.ttl > INT32_MAX) /* RFC 2181 section 8 */
		r.ttl = 0;
	*at = r.data + r.data_len;
	*ret_r = r;
	return true;
}

static bool
read_records(struct str m, size_t at, size_t count, struct records *ret_rs)
{
	if (count > PACKET_RECORDS_MAX)
		return false;
	for (ret_rs->n = 0; ret_rs->n < count; ret_rs->n++)
		if (!read_record(m, &at, &ret_rs->r[ret_rs->n]))
			return false;
	return true;
}

/* The alias of `name` replaces it.  ST_END: it has none. */
static enum status
follow(struct str m, const struct records *rs, struct name *name, uint32_t *ttl)
{
	struct name owner;

	for (size_t i = 0; i < rs->n; i++) {
		const struct record *r = &rs->r[i];
		if (r->type != TYPE_CNAME || r->class != CLASS_IN)
			continue;
		if (!read_name(m, r->owner, &owner))
			return ST_BAD_MESSAGE;
		if (!name_eq(&owner, name))
			continue;
		if (skip_name(m, r->data) != r->data + r->data_len ||
		    !read_name(m, r->data, name))
			return ST_BAD_MESSAGE;
		if (r->ttl < *ttl)
			*ttl = r->ttl;
		return ST_OK;
	}
	return ST_END;
}

static bool
take_address(struct str m, const struct record *r, struct packet_answer *a)
{
	bool is_v4 = r->type == PACKET_TYPE_A;

	if (r->data_len != (is_v4 ? 4 : 16))
		return false;
	if (r->ttl < a->ttl)
		a->ttl = r->ttl;
	if (a->n == PACKET_ADDRS_MAX)
		return true;
	a->addrs[a->n] = (struct addr){ .family = is_v4 ? 4 : 6 };
	memcpy(a->addrs[a->n].b, m.p + r->data, r->data_len);
	a->n++;
	return true;
}

static enum status
take_addresses(struct str m, const struct records *rs, const struct name *name,
	       uint16_t type, struct packet_answer *a)
{
	struct name owner;

	for (size_t i = 0; i < rs->n; i++) {
		const struct record *r = &rs->r[i];
		if (r->type != type || r->class != CLASS_IN)
			continue;
		if (!read_name(m, r->owner, &owner))
			return ST_BAD_MESSAGE;
		if (name_eq(&owner, name) && !take_address(m, r, a))
			return ST_BAD_MESSAGE;
	}
	return ST_OK;
}

/* An answer to our question, whatever it says? */
static enum status
check_header(const struct packet_query *q, struct str m)
{
	const uint8_t *p = (const uint8_t *)m.p;

	if (m.n < q->len)
		return ST_BAD_MESSAGE;
	/* QR set, opcode QUERY, one question. */
	if ((p[2] & 0xf8) != 0x80 || num_be16(p + 4) != 1)
		return ST_BAD_MESSAGE;
	if (memcmp(p + HEADER, q->bytes + HEADER, q->len - HEADER) != 0)
		return ST_MISMATCH;
	if ((p[2] & 0x02) != 0) /* TC, though TCP was tried */
		return ST_DNS_FAILED;
	return ST_OK;
}

static enum status
read_chain(const struct packet_query *q, struct str m, struct packet_answer *a)
{
	struct records rs;
	struct name name;
	enum status st = ST_OK;
	int hops = 0;

	if (!read_records(m, q->len, num_be16(m.p + 6), &rs) ||
	    !read_name(m, HEADER, &name))
		return ST_BAD_MESSAGE;
	while (st == ST_OK) {
		st = follow(m, &rs, &name, &a->ttl);
		if (st == ST_OK && ++hops > PACKET_CNAMES_MAX)
			return ST_DNS_FAILED;
	}
	if (st != ST_END)
		return st;
	return take_addresses(m, &rs, &name, num_be16(q->bytes + q->len - 4), a);
}

enum status
packet_read_answer(const struct packet_query *q, struct str bytes,
		   struct packet_answer *ret_a)
{
	struct packet_answer a = { .st = ST_OK, .ttl = UINT32_MAX };
	enum status st = check_header(q, bytes);

	if (st != ST_OK)
		return st;
	unsigned rcode = (uint8_t)bytes.p[3] & 0x0fu;
	if (rcode == RCODE_NXDOMAIN) {
		/* Records beside it change nothing: the name does not exist. */
		a.st = ST_DNS_NOT_FOUND;
	} else if (rcode != 0) {
		return ST_DNS_FAILED;
	} else {
		st = read_chain(q, bytes, &a);
		if (st != ST_OK)
			return st;
	}
	if (a.n == 0)
		a.ttl = 0;
	*ret_a = a;
	return ST_OK;
}

/*
 * A query that is read can be written again by our client and reads the same; every
 * answer we write to it is one that our client reads, with the question as it came, and
 * fits a datagram.  What is not read gets at most a bare header.
 */
#include <string.h>

#include "proxy/http/dnsmsg.h"
#include "tests/unit/dns_client.h"

static struct dns_reply
answer(const struct dnsmsg_query *q, const struct dnsmsg_answer *a)
{
	char space[DNSMSG_ANSWER_MAX];
	struct dns_reply r;
	size_t n = dnsmsg_write(q, a, space);

	need(dns_read_answer(str_of(space, n), &r) == ST_OK);
	need(a->is_tcp || n <= q->udp_size);
	need(memcmp(space, q->packet.p, 2) == 0);
	need(r.question.n == q->question_size &&
	     memcmp(r.question.p, q->packet.p + DNSMSG_HEADER, r.question.n) == 0);
	need(r.has_opt == q->has_opt);
	need(r.has_ede == (q->has_opt && a->code != NULL));
	r.question = r.ede_text = (struct str){ 0 }; /* the space ends here */
	return r;
}

static void
answers_are_well_formed(const struct dnsmsg_query *q)
{
	struct addr addrs[40] = { 0 };
	struct dnsmsg_answer a = { .ttl = 7, .addrs = addrs };

	for (size_t i = 0; i < COUNT_OF(addrs); i++)
		addrs[i].family = i % 2 ? 4 : 6;
	for (int i = 0; i < 4; i++) {
		struct dns_reply r;

		a.is_tcp = i % 2 != 0;
		a.addrs_n = i < 2 ? COUNT_OF(addrs) : 0;
		r = answer(q, &a);
		need(a.addrs_n > 0 || r.addrs_n == 0);
		need(r.addrs_n == 0 || q->type == DNSMSG_A || q->type == DNSMSG_AAAA);
	}
	a.rcode = DNSMSG_NXDOMAIN;
	a.ede = DNSMSG_EDE_BLOCKED;
	a.code = "denied_by_policy";
	need(answer(q, &a).addrs_n == 0);
}

static void
name_is_plain_and_comes_back(const struct dnsmsg_query *q)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str name = str_of(q->name, q->name_len);
	struct dnsmsg_query again;

	need(memchr(q->name, '\0', q->name_len) == NULL &&
	     q->name[q->name_len] == '\0');
	for (size_t i = 0; i < name.n; i++)
		need(ascii_is_digit(name.p[i]) || name.p[i] == '-' ||
		     name.p[i] == '_' || name.p[i] == '.' ||
		     (name.p[i] >= 'a' && name.p[i] <= 'z'));
	buf_init(&b, 600);
	need(dns_put_query(&b, 1, name, q->type, 0) == ST_OK);
	need(dnsmsg_read_query(str_of(b.p, b.len), &again) == ST_OK);
	need(again.type == q->type && str_eq(str_of(again.name, again.name_len), name));
}

static void
frames_are_cut_the_same_however_they_come(struct str packet)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str cut;
	size_t used = 0;
	enum status st = ST_AGAIN;

	if (packet.n < DNSMSG_HEADER || packet.n > DNSMSG_QUERY_MAX)
		return;
	buf_init(&b, 5000);
	buf_put_u16(&b, (uint16_t)packet.n);
	buf_put(&b, packet);
	for (size_t n = 0; n < b.len; n++)
		need(dnsmsg_cut(str_of(b.p, n), &cut, &used) == ST_AGAIN);
	st = dnsmsg_cut(str_of(b.p, b.len), &cut, &used);
	need(st == ST_OK && used == b.len && str_eq(cut, packet));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str packet = str_of(data, size);
	char space[DNSMSG_ANSWER_MAX];
	struct dnsmsg_query q;
	enum status st = dnsmsg_read_query(packet, &q);

	need(st == ST_OK || st == ST_END || st == ST_BAD_QUERY ||
	     st == ST_METHOD_REFUSED);
	if (st == ST_OK) {
		name_is_plain_and_comes_back(&q);
		answers_are_well_formed(&q);
	} else if (st != ST_END) {
		need(dnsmsg_write_error(packet, DNSMSG_FORMERR, space) ==
		     DNSMSG_HEADER);
	}
	frames_are_cut_the_same_however_they_come(packet);
	return 0;
}

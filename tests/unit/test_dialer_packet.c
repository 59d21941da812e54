#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/dialer/packet.c"

static const uint8_t noise[PACKET_NOISE] = { 0x12, 0x34, 0x55, 0xaa, 0x0f };

struct reply { /* an answer being written by a server in the tests */
	size_t len;
	uint8_t b[4096];
};

static void
put(struct reply *r, const void *p, size_t n)
{
	memcpy(r->b + r->len, p, n);
	r->len += n;
}

static void
put16(struct reply *r, unsigned v)
{
	uint8_t b[2] = { (uint8_t)(v >> 8), (uint8_t)v };

	put(r, b, 2);
}

static void
put_dotted(struct reply *r, const char *name)
{
	struct str rest = str_from(name);

	while (rest.p != NULL) {
		struct str label = str_cut(&rest, '.');
		uint8_t n = (uint8_t)label.n;
		put(r, &n, 1);
		put(r, label.p, label.n);
	}
	put(r, "", 1);
}

/* owner NULL: a pointer to the question. */
static void
put_record(struct reply *r, const char *owner, unsigned type, uint32_t ttl,
	   const void *data, size_t n)
{
	if (owner == NULL)
		put16(r, 0xc00c);
	else
		put_dotted(r, owner);
	put16(r, type);
	put16(r, 1);
	put16(r, ttl >> 16);
	put16(r, ttl & 0xffff);
	put16(r, (unsigned)n);
	put(r, data, n);
	r->b[7]++;
}

static void
put_cname(struct reply *r, const char *owner, const char *target, uint32_t ttl)
{
	struct reply name = { 0 };

	put_dotted(&name, target);
	put_record(r, owner, TYPE_CNAME, ttl, name.b, name.len);
}

static struct packet_query
ask(const char *name, uint16_t type)
{
	struct packet_query q;

	assert_int_equal(packet_make_query(str_from(name), type, noise, &q), ST_OK);
	return q;
}

static struct reply
reply_to(const struct packet_query *q, unsigned rcode)
{
	struct reply r = { 0 };

	put(&r, q->bytes, q->len);
	r.b[2] = 0x81;
	r.b[3] = (uint8_t)(0x80 | rcode);
	return r;
}

static enum status
take(const struct packet_query *q, const struct reply *r, struct packet_answer *a)
{
	return packet_read_answer(q, str_of(r->b, r->len), a);
}

static void
a_query_has_the_name_in_mixed_case_and_nothing_else(void **state)
{
	struct packet_query q = ask("api.example.test", PACKET_TYPE_A);
	struct packet_query plain = q;
	bool has_upper = false;

	(void)state;
	assert_int_equal(q.len, 12 + 18 + 4);
	assert_int_equal(num_be16(q.bytes), 0x1234);
	for (size_t i = 12; i < q.len - 4; i++) {
		has_upper = has_upper || (q.bytes[i] >= 'A' && q.bytes[i] <= 'Z');
		plain.bytes[i] = (uint8_t)ascii_lower((char)q.bytes[i]);
	}
	assert_true(has_upper);
	assert_memory_equal(plain.bytes + 12, "\3api\7example\4test\0\0\1\0\1", 22);
}

static void
a_name_that_fits_no_question_is_refused(void **state)
{
	struct packet_query q;
	char name[256];

	(void)state;
	memset(name, 'a', sizeof(name));
	for (size_t i = 50; i < sizeof(name); i += 50)
		name[i] = '.';
	assert_int_equal(packet_make_query(str_of(name, 253), 1, noise, &q), ST_OK);
	assert_int_equal(q.len, PACKET_QUERY_MAX);
	assert_int_equal(packet_make_query(str_of(name, 254), 1, noise, &q),
			 ST_BAD_HOST);
	assert_int_equal(packet_make_query(STR(""), 1, noise, &q), ST_BAD_HOST);
	assert_int_equal(packet_make_query(STR("a..b"), 1, noise, &q), ST_BAD_HOST);
	memset(name, 'a', 64);
	assert_int_equal(packet_make_query(str_of(name, 64), 1, noise, &q),
			 ST_BAD_HOST);
}

static void
addresses_at_the_end_of_a_chain_are_taken_in_any_order(void **state)
{
	struct packet_query q = ask("www.ok.test", PACKET_TYPE_A);
	struct reply r = reply_to(&q, 0);
	struct packet_answer a = { 0 };

	(void)state;
	put_record(&r, "b.ok.test", 1, 60, "\1\2\3\4", 4);
	put_record(&r, "evil.test", 1, 1, "\7\7\7\7", 4); /* nobody asked */
	put_cname(&r, "a.OK.test", "B.ok.test", 50);
	put_cname(&r, NULL, "a.ok.test", 70);
	put_record(&r, "b.ok.test", 28, 1, "0123456789abcdef", 16); /* another type */
	assert_int_equal(take(&q, &r, &a), ST_OK);
	assert_int_equal(a.st, ST_OK);
	assert_int_equal(a.n, 1);
	assert_int_equal(a.ttl, 50);
	assert_memory_equal(a.addrs[0].b, "\1\2\3\4", 4);
}

static void
a_question_with_other_letters_is_another_question(void **state)
{
	struct packet_query q = ask("api.ok.test", PACKET_TYPE_A);
	struct packet_answer a = { 0 };

	(void)state;
	for (size_t i = 12; i < q.len; i++) {
		struct reply r = reply_to(&q, 0);
		put_record(&r, NULL, 1, 60, "\1\2\3\4", 4);
		r.b[i] ^= 0x20;
		assert_int_equal(take(&q, &r, &a), ST_MISMATCH);
	}
}

static void
eight_aliases_are_followed_and_a_ninth_is_not(void **state)
{
	struct packet_query q = ask("n0.test", PACKET_TYPE_A);
	struct packet_answer a = { 0 };

	(void)state;
	for (int hops = 7; hops <= 9; hops++) {
		struct reply r = reply_to(&q, 0);
		char from[] = "n0.test", to[] = "n1.test";
		for (int i = 0; i < hops; i++) {
			put_cname(&r, from, to, 60);
			from[1]++;
			to[1]++;
		}
		put_record(&r, from, 1, 60, "\1\2\3\4", 4);
		assert_int_equal(take(&q, &r, &a), hops <= 8 ? ST_OK : ST_DNS_FAILED);
	}
	struct reply r = reply_to(&q, 0);
	put_cname(&r, NULL, "n0.test", 60); /* itself */
	assert_int_equal(take(&q, &r, &a), ST_DNS_FAILED);
}

static void
lengths_and_pointers_that_lie_are_malformed(void **state)
{
	struct packet_query q = ask("api.ok.test", PACKET_TYPE_A);
	struct reply good = reply_to(&q, 0), r;
	struct packet_answer a = { 0 };

	(void)state;
	put_record(&good, NULL, 1, 60, "\1\2\3\4", 4);
	for (size_t n = 0; n < good.len; n++)
		assert_int_not_equal(packet_read_answer(&q, str_of(good.b, n), &a),
				     ST_OK);
	r = reply_to(&q, 0);
	put_record(&r, NULL, 1, 60, "\1\2\3", 3); /* RDLEN 3 */
	assert_int_equal(take(&q, &r, &a), ST_BAD_MESSAGE);
	r = good;
	r.b[q.len + 1] = (uint8_t)q.len; /* the owner points to itself */
	assert_int_equal(take(&q, &r, &a), ST_BAD_MESSAGE);
	r = good;
	r.b[q.len] = 0x80; /* label type 2 */
	assert_int_equal(take(&q, &r, &a), ST_BAD_MESSAGE);
	r = good;
	r.b[6] = 0xff; /* 65,281 records */
	assert_int_equal(take(&q, &r, &a), ST_BAD_MESSAGE);
	r = good;
	r.b[2] |= 2; /* cut short, though it came by TCP */
	assert_int_equal(take(&q, &r, &a), ST_DNS_FAILED);
}

static void
what_is_not_there_is_told_from_what_failed(void **state)
{
	struct packet_query q = ask("api.ok.test", PACKET_TYPE_A);
	struct reply r = reply_to(&q, 3);
	struct packet_answer a = { 0 };

	(void)state;
	put_record(&r, NULL, 1, 60, "\1\2\3\4", 4); /* NXDOMAIN with an answer */
	assert_int_equal(take(&q, &r, &a), ST_OK);
	assert_int_equal(a.st, ST_DNS_NOT_FOUND);
	assert_int_equal(a.n, 0);
	r = reply_to(&q, 0);
	assert_int_equal(take(&q, &r, &a), ST_OK);
	assert_int_equal(a.st, ST_OK);
	assert_int_equal(a.n, 0);
	assert_int_equal(a.ttl, 0);
	r = reply_to(&q, 2);
	assert_int_equal(take(&q, &r, &a), ST_DNS_FAILED);
	r = reply_to(&q, 5);
	assert_int_equal(take(&q, &r, &a), ST_DNS_FAILED);
}

static void
many_addresses_are_cut_and_a_huge_ttl_is_none(void **state)
{
	struct packet_query q = ask("api.ok.test", PACKET_TYPE_AAAA);
	struct reply r = reply_to(&q, 0);
	struct packet_answer a = { 0 };

	(void)state;
	for (int i = 0; i < 100; i++)
		put_record(&r, NULL, 28, i == 99 ? 0x80000000u : 60, "0123456789abcdef",
			   16);
	assert_int_equal(take(&q, &r, &a), ST_OK);
	assert_int_equal(a.n, PACKET_ADDRS_MAX);
	assert_int_equal(a.ttl, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_query_has_the_name_in_mixed_case_and_nothing_else),
		cmocka_unit_test(a_name_that_fits_no_question_is_refused),
		cmocka_unit_test(
			addresses_at_the_end_of_a_chain_are_taken_in_any_order),
		cmocka_unit_test(a_question_with_other_letters_is_another_question),
		cmocka_unit_test(eight_aliases_are_followed_and_a_ninth_is_not),
		cmocka_unit_test(lengths_and_pointers_that_lie_are_malformed),
		cmocka_unit_test(what_is_not_there_is_told_from_what_failed),
		cmocka_unit_test(many_addresses_are_cut_and_a_huge_ttl_is_none),
	};

	return cmocka_run_group_tests_name("dialer packet", tests, NULL, NULL);
}

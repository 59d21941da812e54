#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/http/dnsmsg.h"
#include "tests/unit/dns_client.h"

#define HEADER     "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
#define HEADER_OPT "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01"
#define QUESTION                                                                       \
	"\x02Ok\x07"                                                                   \
	"Example\x04"                                                                  \
	"test\x00\x00\x01\x00\x01"

static enum status
parse(struct str packet)
{
	struct dnsmsg_query q;

	return dnsmsg_read_query(packet, &q);
}

/* A query as our own client writes it, read. */
static struct dnsmsg_query
query(struct buf *b, const char *name, uint16_t type, uint16_t udp_size)
{
	struct dnsmsg_query q;

	buf_init(b, 600);
	assert_int_equal(dns_put_query(b, 0x1234, str_from(name), type, udp_size),
			 ST_OK);
	assert_int_equal(dnsmsg_read_query(str_of(b->p, b->len), &q), ST_OK);
	return q;
}

static struct dns_reply
reply(const struct dnsmsg_query *q, const struct dnsmsg_answer *a, size_t *ret_size)
{
	static char space[DNSMSG_ANSWER_MAX];
	struct dns_reply r;
	size_t n = dnsmsg_write(q, a, space);

	assert_int_equal(dns_read_answer(str_of(space, n), &r), ST_OK);
	assert_int_equal(r.id, 0x1234);
	if (ret_size)
		*ret_size = n;
	return r;
}

static void
an_ordinary_query_is_read(void **state)
{
	struct dnsmsg_query q;

	(void)state;
	assert_int_equal(dnsmsg_read_query(STR(HEADER QUESTION), &q), ST_OK);
	assert_string_equal(q.name, "ok.example.test");
	assert_int_equal(q.name_len, 15);
	assert_int_equal(q.type, DNSMSG_A);
	assert_int_equal(q.class, DNSMSG_IN);
	assert_false(q.has_opt);
	assert_int_equal(q.udp_size, 512);
}

static void
edns_sizes_are_kept_within_bounds(void **state)
{
	static const struct {
		const char size[3];
		uint16_t want;
	} cases[] = { { "\x00\x00", 512 },
		      { "\x04\xd0", 1232 },
		      { "\xff\xff", 1232 },
		      { "\x02\x58", 600 } };

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		struct dnsmsg_query q;

		buf_init(&b, 200);
		buf_put(&b, STR(HEADER_OPT QUESTION "\x00\x00\x29"));
		buf_put(&b, str_of(cases[i].size, 2));
		buf_put(&b, STR("\x00\x00\x80\x00\x00\x0c\x00\x0a\x00\x08"
				"cookie!!"));
		assert_int_equal(dnsmsg_read_query(str_of(b.p, b.len), &q), ST_OK);
		assert_true(q.has_opt);
		assert_int_equal(q.udp_size, cases[i].want);
	}
}

static const struct str malformed[] = {
	/* QDCOUNT 0, 2, 65535; an answer, an authority record; two additional
	 */
	{ "\x12\x34\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", 12 },
	{ "\x12\x34\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00" QUESTION QUESTION, 54 },
	{ "\x12\x34\x01\x00\xff\xff\x00\x00\x00\x00\x00\x00" QUESTION, 33 },
	{ "\x12\x34\x01\x00\x00\x01\x00\x01\x00\x00\x00\x00" QUESTION, 33 },
	{ "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x01\x00\x00" QUESTION, 33 },
	{ "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x02" QUESTION, 33 },
	/* compression: to itself, to the header, forward; other label types */
	{ HEADER "\xc0\x0c\x00\x01\x00\x01", 18 },
	{ HEADER "\x01"
		 "a\xc0\x00\x00\x01\x00\x01",
	  20 },
	{ HEADER "\xc0\x20\x00\x01\x00\x01", 18 },
	{ HEADER "\x41"
		 "a\x00\x00\x01\x00\x01",
	  19 },
	{ HEADER "\x81"
		 "a\x00\x00\x01\x00\x01",
	  19 },
	/* bytes of a name: NUL, dot, blank, 8 bit, '*' */
	{ HEADER "\x01\x00\x00\x00\x01\x00\x01", 19 },
	{ HEADER "\x01.\x00\x00\x01\x00\x01", 19 },
	{ HEADER "\x01 \x00\x00\x01\x00\x01", 19 },
	{ HEADER "\x01\xe9\x00\x00\x01\x00\x01", 19 },
	{ HEADER "\x01*\x00\x00\x01\x00\x01", 19 },
	/* cut short; a byte behind */
	{ HEADER "\x02"
		 "a",
	  14 },
	{ HEADER "\x01"
		 "a",
	  14 },
	{ HEADER "\x01"
		 "a\x00\x00\x01\x00",
	  18 },
	{ HEADER QUESTION "!", 34 },
	/* OPT: not one, cut short, length past the end, bytes behind, bad
	   option */
	{ HEADER_OPT QUESTION, 33 },
	{ HEADER_OPT QUESTION "\x00\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00", 44 },
	{ HEADER_OPT QUESTION "\x01"
			      "a\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00",
	  46 },
	{ HEADER_OPT QUESTION "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00", 43 },
	{ HEADER_OPT QUESTION "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x01", 44 },
	{ HEADER_OPT QUESTION "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00!", 45 },
	{ HEADER_OPT QUESTION
	  "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x01",
	  48 },
};

static void
malformed_queries_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(malformed); i++)
		assert_int_equal(parse(malformed[i]), ST_BAD_QUERY);
}

static void
a_name_of_253_bytes_is_the_longest(void **state)
{
	(void)state;
	for (size_t last = 59; last <= 63; last++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		static const char label[64] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
					      "aaaaaaaaaaaaaaaaaaaaaaa";

		buf_init(&b, 600);
		buf_put(&b, STR(HEADER));
		for (int i = 0; i < 3; i++) {
			buf_put_u8(&b, 63);
			buf_put(&b, str_of(label, 63));
		}
		buf_put_u8(&b, (uint8_t)last);
		buf_put(&b, str_of(label, last));
		buf_put_u8(&b, 0);
		buf_put_u32(&b, 0x00010001);
		/* 3 * 64 + last characters */
		assert_int_equal(parse(str_of(b.p, b.len)),
				 192 + last <= 253 ? ST_OK : ST_BAD_QUERY);
	}
}

static void
what_is_no_query_gets_no_answer_and_other_opcodes_their_own(void **state)
{
	(void)state;
	assert_int_equal(parse(STR("")), ST_END);
	assert_int_equal(parse(STR("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00")),
			 ST_END);
	assert_int_equal(
		parse(STR("\x12\x34\x81\x00\x00\x01\x00\x00\x00\x00\x00\x00" QUESTION)),
		ST_END);
	assert_int_equal(
		parse(STR("\x12\x34\x28\x00\x00\x01\x00\x00\x00\x00\x00\x00" QUESTION)),
		ST_METHOD_REFUSED);
}

static void
addresses_of_the_asked_family_are_answered(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct addr addrs[] = { { 4, { 192, 0, 2, 1 } },
				      { 6, { 0x20, 1, 0x0d, 0xb8 } },
				      { 4, { 192, 0, 2, 2 } } };
	struct dnsmsg_query q = query(&b, "Ok.Example.Test", DNSMSG_A, 1232);
	struct dnsmsg_answer a = { .ttl = 60, .addrs = addrs, .addrs_n = 3 };
	struct dns_reply r = reply(&q, &a, NULL);

	(void)state;
	assert_int_equal(r.rcode, DNSMSG_NOERROR);
	assert_int_equal(r.addrs_n, 2);
	assert_int_equal(r.ttl, 60);
	assert_memory_equal(r.addrs[1].b, addrs[2].b, 4);
	assert_true(r.has_opt && !r.has_ede && !r.has_soa);
	/* The case of the letters comes back (0x20). */
	assert_memory_equal(r.question.p,
			    "\x02Ok\x07"
			    "Example\x04"
			    "Test",
			    17);
}

static void
a_refusal_says_why_if_the_query_can_hear_it(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 }, plain = { 0 };
	struct dnsmsg_query q = query(&b, "evil.test", DNSMSG_A, 1232);
	struct dnsmsg_query p = query(&plain, "evil.test", DNSMSG_A, 0);
	struct dnsmsg_answer a = { .rcode = DNSMSG_NXDOMAIN,
				   .ede = DNSMSG_EDE_BLOCKED,
				   .code = "denied_by_policy" };
	struct dns_reply r = reply(&q, &a, NULL);

	(void)state;
	assert_int_equal(r.rcode, DNSMSG_NXDOMAIN);
	assert_true(r.has_soa && r.has_ede);
	assert_int_equal(r.ttl, 5);
	assert_int_equal(r.ede, 15);
	assert_true(str_eq(r.ede_text, STR("denied_by_policy")));
	r = reply(&p, &a, NULL);
	assert_true(r.has_soa && !r.has_opt && !r.has_ede);
}

static void
nodata_has_a_soa_and_failures_do_not(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 }, root = { 0 };
	struct dnsmsg_query q = query(&b, "ok.test", DNSMSG_HTTPS, 0);
	struct dnsmsg_query dot = query(&root, "", DNSMSG_A, 0);
	struct dnsmsg_answer a = { 0 };
	struct dns_reply r = reply(&q, &a, NULL);

	(void)state;
	assert_true(r.rcode == DNSMSG_NOERROR && r.addrs_n == 0 && r.has_soa);
	assert_true(reply(&dot, &a, NULL).has_soa);
	a.rcode = DNSMSG_SERVFAIL;
	assert_false(reply(&q, &a, NULL).has_soa);
}

static void
extended_codes_come_back_whole(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct dnsmsg_query q = query(&b, "ok.test", DNSMSG_A, 600);
	struct dnsmsg_answer a = { .rcode = DNSMSG_BADVERS };

	(void)state;
	assert_int_equal(reply(&q, &a, NULL).rcode, DNSMSG_BADVERS);
}

static void
what_does_not_fit_a_datagram_is_truncated_and_whole_over_tcp(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct addr many[40];
	struct dnsmsg_query q = query(&b, "many.example.test", DNSMSG_AAAA, 600);
	struct dnsmsg_answer a = { .addrs = many, .addrs_n = COUNT_OF(many) };
	struct dns_reply r;
	size_t n;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(many); i++)
		many[i] = (struct addr){ 6, { 0x20, 1, 0x0d, 0xb8, (uint8_t)i } };
	r = reply(&q, &a, &n);
	assert_true(r.is_truncated && r.addrs_n == 0 && n <= 600);
	a.is_tcp = true;
	r = reply(&q, &a, &n);
	assert_true(!r.is_truncated && n > 600);
	assert_int_equal(r.addrs_n, DNSMSG_ADDRS_MAX);
}

static void
the_longest_name_leaves_room_for_any_answer(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	char name[254];
	struct addr many[DNSMSG_ADDRS_MAX] = { 0 };
	struct dnsmsg_query q;
	struct dnsmsg_answer a = {
		.is_tcp = true,
		.addrs = many,
		.addrs_n = 32,
		.code = "a_code_that_is_longer_than_any_of_status_def"
	};

	(void)state;
	for (size_t i = 0; i < 253; i++)
		name[i] = i % 2 ? '.' : 'a';
	name[253] = '\0';
	for (size_t i = 0; i < COUNT_OF(many); i++)
		many[i].family = 6;
	q = query(&b, name, DNSMSG_AAAA, 1232);
	assert_int_equal(reply(&q, &a, NULL).addrs_n, 32);
}

static void
a_packet_that_did_not_parse_gets_a_bare_header(void **state)
{
	char space[DNSMSG_ANSWER_MAX];
	struct dns_reply r;
	size_t n = dnsmsg_write_error(STR(HEADER "garbage"), DNSMSG_FORMERR, space);

	(void)state;
	assert_int_equal(n, DNSMSG_HEADER);
	assert_int_equal(dns_read_answer(str_of(space, n), &r), ST_OK);
	assert_int_equal(r.rcode, DNSMSG_FORMERR);
	assert_int_equal(r.id, 0x1234);
}

static void
tcp_messages_are_cut_at_their_length(void **state)
{
	static const char two[] = "\x00\x21" HEADER QUESTION "\x00\x21" HEADER QUESTION;
	struct str packet;
	size_t used;

	(void)state;
	for (size_t n = 0; n < 35; n++)
		assert_int_equal(dnsmsg_cut(str_of(two, n), &packet, &used), ST_AGAIN);
	assert_int_equal(dnsmsg_cut(str_of(two, sizeof(two) - 1), &packet, &used),
			 ST_OK);
	assert_int_equal(used, 35);
	assert_int_equal(parse(packet), ST_OK);
	assert_int_equal(dnsmsg_cut(STR("\x00\x00"), &packet, &used), ST_BAD_QUERY);
	assert_int_equal(dnsmsg_cut(STR("\x00\x0b"), &packet, &used), ST_BAD_QUERY);
	assert_int_equal(dnsmsg_cut(STR("\xff\xff"), &packet, &used), ST_BAD_QUERY);
}

static void
hostile_answers_are_refused_by_the_client_side(void **state)
{
	static const struct str bad[] = {
		{ "\x12\x34\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", 12 },
		{ "\x12\x34\x81\x80\x00\x00\x00\x01\x00\x00\x00\x00", 12 },
		{ "\x12\x34\x81\x80\x00\x00\xff\xff\xff\xff\xff\xff\x00", 13 },
		/* an A record of three bytes; one whose length passes the end */
		{ "\x12\x34\x81\x80\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01\x00\x01"
		  "\x00\x00\x00\x05\x00\x03"
		  "abc",
		  26 },
		{ "\x12\x34\x81\x80\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01\x00\x01"
		  "\x00\x00\x00\x05\x00\x04"
		  "abc",
		  26 },
	};
	struct dns_reply r;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		assert_int_equal(dns_read_answer(bad[i], &r), ST_BAD_QUERY);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ordinary_query_is_read),
		cmocka_unit_test(edns_sizes_are_kept_within_bounds),
		cmocka_unit_test(malformed_queries_are_refused),
		cmocka_unit_test(a_name_of_253_bytes_is_the_longest),
		cmocka_unit_test(
			what_is_no_query_gets_no_answer_and_other_opcodes_their_own),
		cmocka_unit_test(addresses_of_the_asked_family_are_answered),
		cmocka_unit_test(a_refusal_says_why_if_the_query_can_hear_it),
		cmocka_unit_test(nodata_has_a_soa_and_failures_do_not),
		cmocka_unit_test(extended_codes_come_back_whole),
		cmocka_unit_test(
			what_does_not_fit_a_datagram_is_truncated_and_whole_over_tcp),
		cmocka_unit_test(the_longest_name_leaves_room_for_any_answer),
		cmocka_unit_test(a_packet_that_did_not_parse_gets_a_bare_header),
		cmocka_unit_test(tcp_messages_are_cut_at_their_length),
		cmocka_unit_test(hostile_answers_are_refused_by_the_client_side),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

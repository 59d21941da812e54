#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/http/dest.h"
#include "tests/unit/status_row.h"

static void
expect_authority(const char *text, uint16_t default_port, const char *want)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct dest d;

	buf_init(&b, 300);
	expect(text, dest_from_authority(str_from(text), default_port, &d), ST_OK);
	dest_put(&b, &d);
	assert_string_equal(buf_cstr(&b), want);
}

static void
one_spelling_comes_out(void **state)
{
	(void)state;
	expect_authority("OK.Test:443", 0, "ok.test:443");
	expect_authority("ok.test.", 80, "ok.test:80");
	expect_authority("a_b.ok.test:8443", 0, "a_b.ok.test:8443");
	expect_authority("xn--bcher-kva.example", 443, "xn--bcher-kva.example:443");
	expect_authority("XN--BCHER-KVA.example", 443, "xn--bcher-kva.example:443");
	expect_authority("1.2.3.4:1", 0, "1.2.3.4:1");
	expect_authority("[2001:DB8::0:1]:65535", 0, "[2001:db8::1]:65535");
	expect_authority("[::ffff:127.0.0.1]:80", 0, "127.0.0.1:80");
	expect_authority("[::ffff:7f00:1]:80", 0, "127.0.0.1:80");
	expect_authority("4ok.7z.1a", 80, "4ok.7z.1a:80");
}

static const struct row no_hosts[] = {
	{ "", ST_BAD_HOST },
	{ ".", ST_BAD_HOST },
	{ "ok.test..", ST_BAD_HOST },
	{ ".ok.test", ST_BAD_HOST },
	{ "ok..test", ST_BAD_HOST },
	{ "*.ok.test", ST_BAD_HOST },
	{ "localhost", ST_BAD_HOST },
	{ "ok.test%00", ST_BAD_HOST },
	{ "ok%2etest", ST_BAD_HOST },
	{ "ok.test ", ST_BAD_HOST },
	{ "ok.test, evil.test", ST_BAD_HOST },
	{ "user@ok.test", ST_BAD_HOST },
	{ "evil.test\\@ok.test", ST_BAD_HOST },
	{ "ok.test/evil", ST_BAD_HOST },
	{ "ok.test#x", ST_BAD_HOST },
	{ "-ok.test", ST_BAD_HOST },
	{ "ok-.test", ST_BAD_HOST },
	{ "--ok.test", ST_BAD_HOST },
	{ "xn--.test", ST_BAD_HOST },
	{ "xn--a.com", ST_BAD_HOST },
	{ "xn--999999999.test", ST_BAD_HOST },
	{ "\xc3\xb6k.test", ST_BAD_HOST },
	{ "ok\xe3\x80\x82test", ST_BAD_HOST },
	{ "ok\xe2\x80\x8b.test", ST_BAD_HOST },
	{ "\xe2\x84\x80.com", ST_BAD_HOST },
	{ "[::1%lo]", ST_BAD_HOST },
	{ "[fe80::1%251]", ST_BAD_HOST },
	{ "[::1", ST_BAD_HOST },
	{ "[]", ST_BAD_HOST },
	{ "[", ST_BAD_HOST },
	{ "[1.2.3.4]", ST_BAD_HOST },
	{ "::ffff:203.0.113.9%x.svc.example.com", ST_BAD_HOST },
	{ "127.1", ST_IP_NONSTANDARD },
	{ "127.0.1", ST_IP_NONSTANDARD },
	{ "0177.0.0.1", ST_IP_NONSTANDARD },
	{ "0x7f.1", ST_IP_NONSTANDARD },
	{ "0x7f000001", ST_IP_NONSTANDARD },
	{ "0X7F000001", ST_IP_NONSTANDARD },
	{ "2130706433", ST_IP_NONSTANDARD },
	{ "017700000001", ST_IP_NONSTANDARD },
	{ "127.0.0.01", ST_IP_NONSTANDARD },
	{ "127.0.0.1.", ST_IP_NONSTANDARD },
	{ "4294967296", ST_IP_NONSTANDARD },
	{ "256.1", ST_IP_NONSTANDARD },
	{ "1.2.3.4.5", ST_IP_NONSTANDARD },
	{ "1.2.3", ST_IP_NONSTANDARD },
	{ "1.2.3.0x", ST_IP_NONSTANDARD },
	{ "ok.test.0xa9fea9fe", ST_IP_NONSTANDARD },
	{ "169.254.43518", ST_IP_NONSTANDARD },
};

static void
what_is_not_a_plain_host_is_refused(void **state)
{
	struct dest d = { .port = 7 };

	(void)state;
	for (size_t i = 0; i < COUNT_OF(no_hosts); i++)
		expect(no_hosts[i].text,
		       dest_from_host(str_from(no_hosts[i].text), 443, &d),
		       no_hosts[i].want);
	assert_int_equal(dest_from_host(STR("evil.test\0.ok.test"), 1, &d),
			 ST_BAD_HOST);
	assert_int_equal(dest_from_host(STR("ok.test\0"), 1, &d), ST_BAD_HOST);
	assert_int_equal(dest_from_host(STR("ok.test"), 0, &d), ST_BAD_PORT);
	assert_int_equal(d.port, 7);
}

static void
a_port_is_plain_digits(void **state)
{
	static const struct row rows[] = {
		{ "ok.test:", ST_BAD_PORT },
		{ "ok.test:0", ST_BAD_PORT },
		{ "ok.test:65536", ST_BAD_PORT },
		{ "ok.test:99999999999", ST_BAD_PORT },
		{ "ok.test:+443", ST_BAD_PORT },
		{ "ok.test:0443", ST_BAD_PORT },
		{ "ok.test:0x1bb", ST_BAD_PORT },
		{ "ok.test:443 ", ST_BAD_PORT },
		{ "ok.test:https", ST_BAD_PORT },
		{ "ok.test:-1", ST_BAD_PORT },
		{ "ok.test:443:80", ST_BAD_PORT },
		{ "ok.test:\xd9\xa4", ST_BAD_PORT },
		{ "ok.test", ST_BAD_TARGET },
		{ "[2001:db8::1]", ST_BAD_TARGET },
		{ "2001:db8::1:443", ST_IP_NONSTANDARD },
		{ "[2001:db8::1]443", ST_BAD_HOST },
		{ "evil.example.net:443.api.example.com", ST_BAD_PORT },
	};
	struct dest d;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect(rows[i].text, dest_from_authority(str_from(rows[i].text), 0, &d),
		       rows[i].want);
}

static void
lengths_are_exact(void **state)
{
	char name[256];
	struct dest d;

	(void)state;
	memset(name, 'a', sizeof name);
	for (size_t i = 63; i < sizeof name; i += 64)
		name[i] = '.';
	assert_int_equal(dest_from_host(str_of(name, 253), 1, &d), ST_OK);
	assert_int_equal(dest_name(&d).n, 253);
	assert_int_equal(dest_from_host(str_of(name, 254), 1, &d), ST_BAD_HOST);
	memset(name, 'a', 64);
	assert_int_equal(dest_from_host(str_of(name, 70), 1, &d), ST_BAD_HOST);
}

static void
one_label_is_enough_only_where_the_operator_wrote_it(void **state)
{
	struct dest d;

	(void)state;
	assert_int_equal(dest_from_host(STR("db"), 5432, &d), ST_BAD_HOST);
	assert_int_equal(dest_from_host_single(STR("DB"), 5432, &d), ST_OK);
	assert_true(str_eq(dest_name(&d), STR("db")));
	assert_int_equal(dest_from_host_single(STR("1"), 5432, &d), ST_IP_NONSTANDARD);
}

static void
names_and_literals_are_never_the_same_host(void **state)
{
	struct dest a, b;

	(void)state;
	assert_int_equal(dest_from_host(STR("ok.test"), 1, &a), ST_OK);
	assert_int_equal(dest_from_host(STR("OK.test."), 2, &b), ST_OK);
	assert_true(dest_same_host(&a, &b));
	assert_int_equal(dest_from_host(STR("::1"), 2, &b), ST_OK);
	assert_false(dest_same_host(&a, &b));
	assert_false(dest_is_name(&b));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_spelling_comes_out),
		cmocka_unit_test(what_is_not_a_plain_host_is_refused),
		cmocka_unit_test(a_port_is_plain_digits),
		cmocka_unit_test(lengths_are_exact),
		cmocka_unit_test(one_label_is_enough_only_where_the_operator_wrote_it),
		cmocka_unit_test(names_and_literals_are_never_the_same_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

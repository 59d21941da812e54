#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <netinet/in.h>

#include "proxy/base/addr.h"

static struct addr
of(const char *text)
{
	struct addr a = { 0 };

	if (!addr_parse(str_from(text), &a))
		fail_msg("%s does not parse", text);
	return a;
}

static void
expect_text(const struct addr *a, const char *want)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 64);
	addr_put(&b, a);
	assert_string_equal(buf_cstr(&b), want);
}

static void
only_canonical_text_is_an_address(void **state)
{
	static const char *const bad[] = { "",          "1.2.3",      "1.2.3.4.",
					   "01.2.3.4",  "1.2.3.256",  "0x7f.0.0.1",
					   "1.2.3.4 ",  "[::1]",      "fe80::1%lo",
					   "::1/64",    ":::",        "1::2::3",
					   "12345::",   "::1.2.3.04", "1.2.3.4.5",
					   "2130706433" };
	struct addr a = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		if (addr_parse(str_from(bad[i]), &a))
			fail_msg("%s was taken", bad[i]);
	assert_false(addr_parse(STR("1.2.3.4\0"), &a));
	assert_int_equal(a.family, 0);
}

static void
text_comes_out_as_rfc_5952_says(void **state)
{
	static const char *const rows[][2] = {
		{ "192.0.2.1", "192.0.2.1" },
		{ "2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1" },
		{ "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1" },
		{ "0:0:0:0:0:0:0:0", "::" },
		{ "::ffff:1.2.3.4", "::ffff:1.2.3.4" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct addr a = of(rows[i][0]);
		expect_text(&a, rows[i][1]);
	}
}

static void
forms_that_embed_ipv4_are_unwrapped(void **state)
{
	static const char *const rows[][2] = {
		{ "::ffff:10.0.0.1", "10.0.0.1" },
		{ "::10.0.0.1", "10.0.0.1" },
		{ "::ffff:0:10.0.0.1", "10.0.0.1" },
		{ "64:ff9b::a00:1", "10.0.0.1" },
		{ "64:ff9b:1:a00:0:100::", "10.0.0.1" },
		{ "64:ff9b:1::a00:1", "10.0.0.1" },
		{ "2002:a00:1::1", "10.0.0.1" },
		{ "2001:0:4136:e378:8000:63bf:f5ff:fffe", "10.0.0.1" },
		{ "2606:4700::5efe:10.0.0.1", "10.0.0.1" },
		{ "2606:4700::200:5efe:10.0.0.1", "10.0.0.1" },
		{ "::1", "::1" },
		{ "::", "::" },
		{ "2606:4700::1", "2606:4700::1" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct addr a = of(rows[i][0]), in = addr_unwrap(&a);
		expect_text(&in, rows[i][1]);
	}
}

static const char *const classes[][2] = {
	{ "8.8.8.8", "public" },
	{ "0.0.0.0", "reserved" },
	{ "0.255.0.1", "reserved" },
	{ "10.255.255.255", "private" },
	{ "11.0.0.0", "public" },
	{ "100.64.0.0", "cgnat" },
	{ "100.127.255.255", "cgnat" },
	{ "100.128.0.0", "public" },
	{ "127.255.255.254", "loopback" },
	{ "169.254.1.1", "link-local" },
	{ "172.15.255.255", "public" },
	{ "172.31.255.255", "private" },
	{ "172.32.0.0", "public" },
	{ "192.0.0.8", "reserved" },
	{ "192.0.2.7", "documentation" },
	{ "192.88.99.1", "reserved" },
	{ "192.168.0.1", "private" },
	{ "198.19.255.255", "benchmark" },
	{ "198.20.0.0", "public" },
	{ "198.51.100.1", "documentation" },
	{ "203.0.113.9", "documentation" },
	{ "224.0.0.1", "multicast" },
	{ "239.255.255.255", "multicast" },
	{ "240.0.0.1", "reserved" },
	{ "255.255.255.255", "reserved" },
	{ "::", "reserved" },
	{ "::1", "loopback" },
	{ "::2", "reserved" },
	{ "fe80::1", "link-local" },
	{ "febf::1", "link-local" },
	{ "fec0::1", "private" },
	{ "fc00::1", "private" },
	{ "fdff::1", "private" },
	{ "ff02::1", "multicast" },
	{ "2001:db8::1", "documentation" },
	{ "3fff:fff::1", "documentation" },
	{ "3fff:1000::1", "public" },
	{ "2001:2::1", "benchmark" },
	{ "2001:20::1", "reserved" },
	{ "2001:200::1", "public" },
	{ "100::1", "reserved" },
	{ "4000::1", "reserved" },
	{ "5f00::1", "reserved" },
	{ "2606:4700::1111", "public" },
	{ "::ffff:127.0.0.1", "loopback" },
	{ "::127.0.0.1", "loopback" },
	{ "::ffff:8.8.8.8", "public" },
	{ "64:ff9b::8.8.8.8", "public" },
	{ "64:ff9b::10.0.0.1", "private" },
	{ "64:ff9b:1::8.8.8.8", "reserved" },
	{ "2002:a00:1::1", "private" },
	{ "fe80::5efe:8.8.8.8", "link-local" },
	{ "2606:4700::5efe:10.0.0.1", "private" },
};

static void
every_range_has_its_class(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(classes); i++) {
		struct addr a = of(classes[i][0]);
		const char *got = addr_class_name(addr_classify(&a));
		if (strcmp(got, classes[i][1]) != 0)
			fail_msg("%s is %s, not %s", classes[i][0], classes[i][1], got);
	}
}

static void
metadata_services_are_known_in_every_form(void **state)
{
	static const char *const rows[] = {
		"169.254.169.254",
		"169.254.170.2",
		"169.254.170.23",
		"168.63.129.16",
		"100.100.100.200",
		"192.0.0.192",
		"169.254.0.23",
		"fd00:ec2::254",
		"fd00:ec2::23",
		"::ffff:169.254.169.254",
		"::169.254.169.254",
		"64:ff9b::169.254.169.254",
		"2002:a9fe:a9fe::1",
		"64:ff9b:1:a9fe:a9:fe00::",
		"64:ff9b:1::169.254.169.254",
		"64:ff9b:1:a9:fe:a9fe::",
		"2606:4700::5efe:169.254.169.254",
		"2001:0:808:808::5601:5601",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct addr a = of(rows[i]);
		if (addr_classify(&a) != ADDR_METADATA)
			fail_msg("%s is %s", rows[i],
				 addr_class_name(addr_classify(&a)));
	}
}

static void
a_range_contains_its_first_and_last_address(void **state)
{
	struct cidr c;
	struct addr in = of("255.255.255.255"), out = of("255.255.254.255"),
		    six = of("::");

	(void)state;
	assert_true(cidr_parse(STR("255.255.255.0/24"), &c));
	assert_true(cidr_has(&c, &in));
	assert_false(cidr_has(&c, &out));
	assert_true(cidr_parse(STR("0.0.0.0/0"), &c));
	assert_true(cidr_has(&c, &in));
	assert_false(cidr_has(&c, &six));
	assert_true(cidr_parse(STR("fe80::/10"), &c));
	in = of("febf::1");
	assert_true(cidr_has(&c, &in));
	assert_true(cidr_parse(STR("10.0.0.1"), &c));
	assert_int_equal(c.bits, 32);
}

static void
a_range_with_host_bits_or_a_bad_length_is_refused(void **state)
{
	static const char *const bad[] = { "10.0.0.1/8",  "10.0.0.0/33", "10.0.0.0/",
					   "10.0.0.0/08", "::1/64",      "::/129",
					   "10/8",        "10.0.0.0/-1" };
	struct cidr c;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		if (cidr_parse(str_from(bad[i]), &c))
			fail_msg("%s was taken", bad[i]);
}

static void
socket_addresses_go_there_and_back(void **state)
{
	static const char *const rows[] = { "192.0.2.1", "2606:4700::1" };
	struct sockaddr_storage sa;
	struct addr back;
	uint16_t port = 0;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct addr a = of(rows[i]);
		assert_true(addr_to_sockaddr(&a, 443, &sa) > 0);
		assert_true(addr_from_sockaddr((const void *)&sa, &back, &port));
		assert_true(addr_eq(&a, &back));
		assert_int_equal(port, 443);
	}
	struct addr mapped = of("::ffff:192.0.2.1");
	assert_true(addr_to_sockaddr(&mapped, 1, &sa) > 0);
	assert_true(addr_from_sockaddr((const void *)&sa, &back, &port));
	assert_int_equal(back.family, 4);
	sa.ss_family = AF_UNIX;
	assert_false(addr_from_sockaddr((const void *)&sa, &back, &port));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_canonical_text_is_an_address),
		cmocka_unit_test(text_comes_out_as_rfc_5952_says),
		cmocka_unit_test(forms_that_embed_ipv4_are_unwrapped),
		cmocka_unit_test(every_range_has_its_class),
		cmocka_unit_test(metadata_services_are_known_in_every_form),
		cmocka_unit_test(a_range_contains_its_first_and_last_address),
		cmocka_unit_test(a_range_with_host_bits_or_a_bad_length_is_refused),
		cmocka_unit_test(socket_addresses_go_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

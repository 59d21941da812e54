#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/dialer/parent.c"

static bool
covers(const char *pattern, const char *host)
{
	struct dest d;

	assert_int_equal(dest_from_host(str_from(host), 443, &d), ST_OK);
	return parent_pattern_covers(str_from(pattern), &d);
}

static void
no_proxy_takes_names_suffixes_addresses_and_networks(void **state)
{
	(void)state;
	assert_true(covers("api.corp.test", "api.corp.test"));
	assert_true(covers("API.corp.test", "api.corp.test"));
	assert_false(covers("corp.test", "api.corp.test"));
	assert_true(covers("*.corp.test", "a.b.corp.test"));
	assert_true(covers(".corp.test", "api.corp.test"));
	assert_false(covers("*.corp.test", "corp.test"));
	assert_false(covers("*.corp.test", "evilcorp.test"));
	assert_true(covers("*", "ok.test"));
	assert_true(covers("10.0.0.0/8", "10.1.2.3"));
	assert_false(covers("10.0.0.0/8", "11.1.2.3"));
	assert_true(covers("10.1.2.3", "10.1.2.3"));
	assert_false(covers("10.0.0.0/8", "ok.test"));
}

static void
the_parent_is_written_as_host_and_port(void **state)
{
	struct dest d;

	(void)state;
	assert_int_equal(parse(STR("proxy.corp.test:3128"), &d), ST_OK);
	assert_int_equal(d.port, 3128);
	assert_int_equal(parse(STR("[::1]:8080"), &d), ST_OK);
	assert_int_equal(parse(STR("proxy:3128"), &d), ST_OK);
	assert_int_equal(d.port, 3128);
	assert_int_not_equal(parse(STR("proxy.corp.test"), &d), ST_OK);
	assert_int_not_equal(parse(STR("proxy:0"), &d), ST_OK);
	assert_int_not_equal(parse(STR("proxy:65536"), &d), ST_OK);
	assert_int_not_equal(parse(STR("proxy:"), &d), ST_OK);
}

static bool
is_loopback_host(const char *host)
{
	struct dest d;

	assert_int_equal(dest_from_authority(str_from(host), 443, &d), ST_OK);
	return is_loopback(&d);
}

static void
loopback_addresses_are_ours_and_never_the_parents(void **state)
{
	(void)state;
	assert_true(is_loopback_host("127.0.0.1"));
	assert_true(is_loopback_host("127.8.9.1"));
	assert_true(is_loopback_host("[::1]"));
	assert_true(is_loopback_host("[::ffff:127.0.0.1]"));
	assert_false(is_loopback_host("10.0.0.1"));
	assert_false(is_loopback_host("api.corp.test"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_proxy_takes_names_suffixes_addresses_and_networks),
		cmocka_unit_test(the_parent_is_written_as_host_and_port),
		cmocka_unit_test(loopback_addresses_are_ours_and_never_the_parents),
	};

	return cmocka_run_group_tests_name("dialer parent", tests, NULL, NULL);
}

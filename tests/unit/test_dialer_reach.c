#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/dialer/reach.c"

static struct reach_point
point(uint64_t cookie, const char *server, const char *host, uint16_t port)
{
	return (struct reach_point){ .cookie = cookie,
				     .server = str_from(server),
				     .host = str_from(host),
				     .port = port };
}

static bool
has(const struct reach *r, struct reach_point p)
{
	return reach_is_granted(r, &p);
}

static enum status
grant(struct reach *r, struct reach_point p)
{
	return reach_grant(r, &p);
}

static void
a_grant_is_for_exactly_one_socket_server_host_and_port(void **state)
{
	struct reach r;

	(void)state;
	reach_init(&r, 8);
	assert_int_equal(grant(&r, point(7, "ab", "c.test", 80)), ST_OK);
	assert_true(has(&r, point(7, "ab", "c.test", 80)));
	assert_false(has(&r, point(8, "ab", "c.test", 80)));
	assert_false(has(&r, point(7, "abc", ".test", 80)));
	assert_false(has(&r, point(7, "a", "bc.test", 80)));
	assert_false(has(&r, point(7, "ab", "c.test", 81)));
	assert_false(has(&r, point(7, "ab", "C.test", 80)));
	reach_done(&r);
}

static void
one_socket_has_several_endpoints(void **state)
{
	struct reach r;

	(void)state;
	reach_init(&r, 8);
	for (uint16_t i = 1; i <= 8; i++)
		assert_int_equal(grant(&r, point(7, "s", "127.0.0.1", i)), ST_OK);
	for (uint16_t i = 1; i <= 8; i++)
		assert_true(has(&r, point(7, "s", "127.0.0.1", i)));
	reach_done(&r);
}

static void
the_one_granted_longest_ago_goes_first(void **state)
{
	struct reach r;

	(void)state;
	reach_init(&r, 3);
	for (uint16_t i = 1; i <= 3; i++)
		assert_int_equal(grant(&r, point(7, "s", "127.0.0.1", i)), ST_OK);
	assert_int_equal(grant(&r, point(7, "s", "127.0.0.1", 1)), ST_OK);
	assert_int_equal(grant(&r, point(7, "s", "127.0.0.1", 4)), ST_OK);
	assert_true(has(&r, point(7, "s", "127.0.0.1", 1)));
	assert_false(has(&r, point(7, "s", "127.0.0.1", 2)));
	assert_true(has(&r, point(7, "s", "127.0.0.1", 3)));
	assert_true(has(&r, point(7, "s", "127.0.0.1", 4)));
	assert_int_equal(r.n, 3);
	reach_done(&r);
}

static void
what_can_be_no_endpoint_is_refused(void **state)
{
	struct reach r;
	char lengthy[REACH_HOST_MAX + 2];

	(void)state;
	memset(lengthy, 'a', sizeof lengthy);
	lengthy[sizeof lengthy - 1] = '\0';
	reach_init(&r, 3);
	assert_int_equal(grant(&r, point(0, "s", "h", 1)), ST_BAD_MESSAGE);
	assert_int_equal(grant(&r, point(1, "", "h", 1)), ST_BAD_MESSAGE);
	assert_int_equal(grant(&r, point(1, "s", "", 1)), ST_BAD_MESSAGE);
	assert_int_equal(grant(&r, point(1, "s", "h", 0)), ST_BAD_MESSAGE);
	assert_int_equal(grant(&r, point(1, "s", lengthy, 1)), ST_BAD_MESSAGE);
	assert_int_equal(grant(&r, point(1, lengthy, "h", 1)), ST_BAD_MESSAGE);
	assert_false(has(&r, point(1, "s", lengthy, 1)));
	assert_int_equal(r.n, 0);
	reach_done(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_grant_is_for_exactly_one_socket_server_host_and_port),
		cmocka_unit_test(one_socket_has_several_endpoints),
		cmocka_unit_test(the_one_granted_longest_ago_goes_first),
		cmocka_unit_test(what_can_be_no_endpoint_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

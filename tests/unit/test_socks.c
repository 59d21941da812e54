#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/http/socks.h"

static enum status
greet(struct str s)
{
	struct socks_greeting g;

	return socks_read_greeting(s, &g);
}

static enum status
request(struct str s)
{
	struct socks_request r;

	return socks_read_request(s, &r);
}

static void
a_greeting_tells_which_methods_we_know(void **state)
{
	struct socks_greeting g;

	(void)state;
	assert_int_equal(socks_read_greeting(STR("\x05\x03\x01\x00\x02next"), &g),
			 ST_OK);
	assert_true(g.offers_none && g.offers_password);
	assert_int_equal(g.size, 5);
	assert_int_equal(socks_read_greeting(STR("\x05\x01\x01"), &g), ST_OK);
	assert_false(g.offers_none || g.offers_password);
}

static void
greetings_of_0_and_255_methods(void **state)
{
	char all[SOCKS_GREETING_MAX] = "\x05\xff";

	(void)state;
	assert_int_equal(greet(STR("\x05\x00")), ST_BAD_SOCKS);
	assert_int_equal(greet(str_of(all, sizeof(all))), ST_OK);
	assert_int_equal(greet(str_of(all, sizeof(all) - 1)), ST_AGAIN);
}

static void
socks4_and_other_protocols_are_refused_at_the_first_byte(void **state)
{
	(void)state;
	assert_int_equal(greet(STR("")), ST_AGAIN);
	assert_int_equal(greet(STR("\x04")), ST_BAD_SOCKS);
	assert_int_equal(
		greet(STR("\x04\x01\x01\xbb\x00\x00\x00\x01user\0ok.example.test")),
		ST_BAD_SOCKS);
	assert_int_equal(greet(STR("GET")), ST_BAD_SOCKS);
	assert_int_equal(request(STR("\x04")), ST_BAD_SOCKS);
}

static void
a_login_may_have_any_bytes_and_lengths(void **state)
{
	char longest[SOCKS_LOGIN_MAX];
	struct socks_login l;

	(void)state;
	assert_int_equal(socks_read_login(STR("\x01\x02id\x05t\0ken!"), &l), ST_OK);
	assert_true(str_eq(l.user, STR("id")) && str_eq(l.password, STR("t\0ken")));
	assert_int_equal(l.size, 10);
	memset(longest, 'x', sizeof(longest));
	longest[0] = 1;
	longest[1] = longest[257] = (char)255;
	assert_int_equal(socks_read_login(str_of(longest, sizeof(longest)), &l), ST_OK);
	assert_int_equal(l.size, sizeof(longest));
	assert_int_equal(socks_read_login(str_of(longest, sizeof(longest) - 1), &l),
			 ST_AGAIN);
	assert_int_equal(socks_read_login(STR("\x01\x00\x00"), &l), ST_OK);
	assert_int_equal(l.size, 3);
	assert_int_equal(socks_read_login(STR("\x05"), &l), ST_BAD_SOCKS);
}

static void
a_name_comes_as_raw_bytes(void **state)
{
	static const char nul[] = "\x05\x01\x00\x03\x21"
				  "evil.example.net\0.svc.example.com\x01\xbb";
	struct socks_request r;

	(void)state;
	assert_int_equal(socks_read_request(str_of(nul, 5 + 33 + 2), &r), ST_OK);
	assert_int_equal(r.addr.family, 0);
	assert_int_equal(r.name.n, 33);
	assert_int_equal(r.port, 443);
	assert_int_equal(r.size, sizeof(nul) - 1 - 0);
}

static void
addresses_come_as_addresses(void **state)
{
	struct socks_request r;

	(void)state;
	assert_int_equal(socks_read_request(
				 STR("\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50+"), &r),
			 ST_OK);
	assert_int_equal(r.addr.family, 4);
	assert_int_equal(r.size, 10);
	assert_int_equal(r.port, 80);
	assert_memory_equal(r.addr.b, "\x7f\0\0\x01", 4);
	assert_int_equal(
		socks_read_request(
			STR("\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x05"
			    "\x01\xbb"),
			&r),
		ST_OK);
	assert_int_equal(r.addr.family, 6);
	assert_int_equal(r.size, 22);
}

static void
what_is_not_a_connect_is_refused_with_its_own_word(void **state)
{
	(void)state;
	assert_int_equal(request(STR("\x05\x02")), ST_SOCKS_COMMAND);
	assert_int_equal(request(STR("\x05\x03\x00\x01\0\0\0\0\0\0")),
			 ST_SOCKS_COMMAND);
	assert_int_equal(request(STR("\x05\xff")), ST_SOCKS_COMMAND);
	assert_int_equal(request(STR("\x05\x01\x01")), ST_SOCKS_ADDRESS);
	assert_int_equal(request(STR("\x05\x01\x00\x02")), ST_SOCKS_ADDRESS);
	assert_int_equal(request(STR("\x05\x01\x00\x05")), ST_SOCKS_ADDRESS);
	assert_int_equal(request(STR("\x05\x01\x00\xff")), ST_SOCKS_ADDRESS);
	assert_int_equal(request(STR("\x05\x01\x00\x03\x00")), ST_BAD_HOST);
	assert_int_equal(request(STR("\x05\x01\x00\x03\x01"
				     "a\x00\x00")),
			 ST_BAD_PORT);
}

static void
every_prefix_of_a_request_waits_for_more(void **state)
{
	static const char name[] = "\x05\x01\x00\x03\x0aok.example\x01\xbb";
	static const char v4[] = "\x05\x01\x00\x01\x01\x02\x03\x04\x01\xbb";

	(void)state;
	for (size_t n = 0; n < sizeof(name) - 1; n++)
		assert_int_equal(request(str_of(name, n)), ST_AGAIN);
	for (size_t n = 0; n < sizeof(v4) - 1; n++)
		assert_int_equal(request(str_of(v4, n)), ST_AGAIN);
}

static void
replies_carry_the_word_of_the_status(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	buf_init(&b, 100);
	socks_put_method(&b, SOCKS_NO_METHOD);
	socks_put_login(&b, true);
	socks_put_login(&b, false);
	assert_memory_equal(b.p, "\x05\xff\x01\x00\x01\x01", 6);
	for (int st = 0; st < ST_COUNT; st++) {
		buf_clear(&b);
		socks_put_reply(&b, (enum status)st);
		assert_int_equal(b.len, 10);
		assert_true((b.p[1] == 0) == (st == ST_OK));
	}
	buf_clear(&b);
	socks_put_reply(&b, ST_DENIED);
	assert_memory_equal(b.p, "\x05\x02\x00\x01\0\0\0\0\0\0", 10);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_greeting_tells_which_methods_we_know),
		cmocka_unit_test(greetings_of_0_and_255_methods),
		cmocka_unit_test(
			socks4_and_other_protocols_are_refused_at_the_first_byte),
		cmocka_unit_test(a_login_may_have_any_bytes_and_lengths),
		cmocka_unit_test(a_name_comes_as_raw_bytes),
		cmocka_unit_test(addresses_come_as_addresses),
		cmocka_unit_test(what_is_not_a_connect_is_refused_with_its_own_word),
		cmocka_unit_test(every_prefix_of_a_request_waits_for_more),
		cmocka_unit_test(replies_carry_the_word_of_the_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

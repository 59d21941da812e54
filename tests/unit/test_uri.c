#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/http/uri.h"
#include "tests/unit/status_row.h"

static void
expect_target(enum method m, const char *text, enum uri_form form, const char *host,
	      const char *target)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct uri u;

	expect(text, uri_parse(m, str_from(text), &u), ST_OK);
	assert_int_equal(u.form, form);
	buf_init(&b, 256);
	if (u.dest.port != 0)
		dest_put(&b, &u.dest);
	assert_string_equal(buf_cstr(&b), host);
	buf_clear(&b);
	uri_put_target(&b, &u);
	assert_string_equal(buf_cstr(&b), target);
}

static void
each_form_goes_with_its_method(void **state)
{
	(void)state;
	expect_target(METHOD_GET, "/", URI_ORIGIN, "", "/");
	expect_target(METHOD_GET, "/a/b?c=d?e", URI_ORIGIN, "", "/a/b?c=d?e");
	expect_target(METHOD_GET, "/a?", URI_ORIGIN, "", "/a?");
	expect_target(METHOD_GET, "http://OK.test", URI_ABSOLUTE, "ok.test:80", "/");
	expect_target(METHOD_GET, "http://ok.test?q", URI_ABSOLUTE, "ok.test:80",
		      "/?q");
	expect_target(METHOD_GET, "http://ok.test:8080/a", URI_ABSOLUTE, "ok.test:8080",
		      "/a");
	expect_target(METHOD_GET, "http://[2606::1]/", URI_ABSOLUTE, "[2606::1]:80",
		      "/");
	expect_target(METHOD_OPTIONS, "*", URI_ASTERISK, "", "*");
	expect_target(METHOD_OPTIONS, "http://ok.test", URI_ABSOLUTE, "ok.test:80",
		      "*");
	expect_target(METHOD_OPTIONS, "http://ok.test/", URI_ABSOLUTE, "ok.test:80",
		      "/");
	expect_target(METHOD_CONNECT, "ok.test:443", URI_AUTHORITY, "ok.test:443", "");
}

static void
a_connect_target_is_host_and_port_only(void **state)
{
	static const struct row rows[] = {
		{ "http://ok.test:443", ST_BAD_TARGET },
		{ "/", ST_BAD_TARGET },
		{ "ok.test", ST_BAD_TARGET },
		{ "*", ST_BAD_TARGET },
		{ "ok.test:443/x", ST_BAD_TARGET },
		{ "user@ok.test:443", ST_BAD_TARGET },
		{ "ok.test:443#x", ST_BAD_TARGET },
		{ "", ST_BAD_TARGET },
		{ "localhost:443", ST_BAD_HOST },
		{ "127.1:443", ST_IP_NONSTANDARD },
		{ "ok.test:0", ST_BAD_PORT },
		{ "[fe80::1%lo]:443", ST_BAD_HOST },
	};
	struct uri u;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect(rows[i].text,
		       uri_parse(METHOD_CONNECT, str_from(rows[i].text), &u),
		       rows[i].want);
}

static void
other_schemes_and_repairs_are_refused(void **state)
{
	static const struct row rows[] = {
		{ "https://ok.test/", ST_BAD_TARGET },
		{ "HTTP://ok.test/", ST_BAD_TARGET },
		{ "ftp://ok.test/", ST_BAD_TARGET },
		{ "javascript:1", ST_BAD_TARGET },
		{ "ok.test:443", ST_BAD_TARGET },
		{ "ok.test/", ST_BAD_TARGET },
		{ "*", ST_BAD_TARGET },
		{ "http:/ok.test", ST_BAD_TARGET },
		{ "http:\\\\ok.test", ST_BAD_TARGET },
		{ "http://", ST_BAD_TARGET },
		{ "http:///a", ST_BAD_TARGET },
		{ "http://user:pw@ok.test/", ST_BAD_TARGET },
		{ "http://ok.test#@evil.test/", ST_BAD_TARGET },
		{ "http://evil.test\\@ok.test/", ST_BAD_TARGET },
		{ "http://ok.test/a b", ST_BAD_TARGET },
		{ "http://ok.test/\xc3\xb6", ST_BAD_TARGET },
		{ "/a\tb", ST_BAD_TARGET },
		{ "/a#b", ST_BAD_TARGET },
		{ "", ST_BAD_TARGET },
	};
	struct uri u;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect(rows[i].text, uri_parse(METHOD_GET, str_from(rows[i].text), &u),
		       rows[i].want);
	assert_int_equal(uri_parse(METHOD_GET, STR("/a\0b"), &u), ST_BAD_TARGET);
}

static void
ambiguous_paths_are_refused(void **state)
{
	static const char *const rows[] = {
		"/.",
		"/..",
		"/a/../b",
		"/a/./b",
		"/a/..",
		"/public/%2e%2e/secret",
		"/a/.%2E/b",
		"/%2e",
		"/a/..;x=1/b",
		"/a/.;/b",
		"/a/..%3bx/b",
		"/a%2f..%2fb",
		"/a%2f..",
		"/a/..%2fb",
		"/a/%2e%2e%2fb",
		"//public//..//secret",
		"/a\\b",
		"/a%5cb",
		"/a%5Cb",
		"/a%00",
		"/a%0d%0ab",
		"/a%7f",
		"/a%",
		"/a%4",
		"/a%zz",
		"/a%c0%af",
		"/a%c1%9c",
		"/a%e0%80%af",
		"/a%f0%80%80%af",
		"/%61dmin",
		"/admin%31",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect(rows[i], uri_check_path(str_from(rows[i])), ST_BAD_PATH);
}

static void
plain_paths_pass_byte_by_byte(void **state)
{
	static const char *const rows[] = {
		"/",
		"//",
		"/a//b",
		"/a%2fb",
		"/@scope%2fname",
		"/a%20b",
		"/...",
		"/.well-known/x",
		"/a..b",
		"/..a",
		"/a;x=1/b",
		"/%E2%82%AC",
		"/lib%2Fkey%2Erb",
		"/~u/%7Eu",
		"/a/b.c/",
		"/!$&'()*+,;=:@[]|^",
		"/%25",
		"/%252e%252e/",
		"/%e0%a4%a4",
		"/;/",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect(rows[i], uri_check_path(str_from(rows[i])), ST_OK);
}

static enum status
of_request(enum method m, const char *target, const char *host, uint16_t port,
	   struct uri *u)
{
	struct arena a;
	struct head h;

	arena_init(&a, 65536);
	head_init(&h, &a);
	h.method_id = m;
	h.target = str_from(target);
	if (host != NULL && head_add(&h, STR("Host"), str_from(host)) != ST_OK)
		fail();
	enum status st = uri_of_request(&h, port, u);
	arena_done(&a);
	return st;
}

static void
target_and_host_make_one_destination(void **state)
{
	static const struct {
		const char *target, *host;
		enum method m;
		enum status want;
	} rows[] = {
		{ "/", "ok.test", METHOD_GET, ST_OK },
		{ "/", NULL, METHOD_GET, ST_BAD_HOST },
		{ "/", "", METHOD_GET, ST_BAD_HOST },
		{ "/", "ok.test, evil.test", METHOD_GET, ST_BAD_HOST },
		{ "/", "ok.test:443:80", METHOD_GET, ST_BAD_PORT },
		{ "http://ok.test/", "OK.test:80", METHOD_GET, ST_OK },
		{ "http://ok.test/", NULL, METHOD_GET, ST_OK },
		{ "http://ok.test/", "evil.test", METHOD_GET, ST_MISMATCH },
		{ "http://ok.test/", "ok.test:81", METHOD_GET, ST_MISMATCH },
		{ "http://ok.test/", "user@ok.test", METHOD_GET, ST_BAD_HOST },
		{ "ok.test:443", "ok.test:443", METHOD_CONNECT, ST_OK },
		{ "ok.test:443", "ok.test", METHOD_CONNECT, ST_OK },
		{ "ok.test:443", NULL, METHOD_CONNECT, ST_OK },
		{ "ok.test:443", "evil.test:443", METHOD_CONNECT, ST_MISMATCH },
		{ "*", "ok.test", METHOD_OPTIONS, ST_OK },
	};
	struct uri u;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		enum status st =
			of_request(rows[i].m, rows[i].target, rows[i].host, 8080, &u);
		expect(rows[i].host == NULL ? rows[i].target : rows[i].host, st,
		       rows[i].want);
		if (st == ST_OK)
			assert_true(str_eq(dest_name(&u.dest), STR("ok.test")));
	}
	assert_int_equal(of_request(METHOD_GET, "/", "ok.test", 8080, &u), ST_OK);
	assert_int_equal(u.dest.port, 8080);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_form_goes_with_its_method),
		cmocka_unit_test(a_connect_target_is_host_and_port_only),
		cmocka_unit_test(other_schemes_and_repairs_are_refused),
		cmocka_unit_test(ambiguous_paths_are_refused),
		cmocka_unit_test(plain_paths_pass_byte_by_byte),
		cmocka_unit_test(target_and_host_make_one_destination),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

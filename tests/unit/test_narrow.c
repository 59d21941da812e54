/* narrow: against a plain reading of its own text, rule by rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf/narrow.h"

static struct dest
dest_of(const char *host)
{
	struct dest d;

	assert_int_equal(dest_from_host_single(str_from(host), 443, &d), ST_OK);
	return d;
}

static struct addr
addr_of(const char *text)
{
	struct addr a;

	assert_true(addr_parse(str_from(text), &a));
	return a;
}

static bool
allows(const char *text, const char *host)
{
	struct narrow *n = narrow_new(str_from(text));
	struct dest d = dest_of(host);
	enum status st = narrow_judge(n, &d);

	assert_true(st == ST_OK || st == ST_NARROWED);
	narrow_free(n);
	return st == ST_OK;
}

static void
the_first_rule_that_matches_decides(void **state)
{
	static const char text[] = "default deny\n"
				   "deny bad.Wild.test\n"
				   "allow *.wild.test\n"
				   "allow ok.test\n"
				   "deny ok.test\n"
				   "deny 10.0.0.1\n"
				   "allow 10.0.0.0/8\n"
				   "allow 2001:db8::/32\n";
	static const struct {
		const char *host;
		bool is_allowed;
	} cases[] = {
		{ "bad.wild.test", false }, { "a.bad.wild.test", true },
		{ "a.b.wild.test", true },  { "wild.test", false },
		{ "xwild.test", false },    { "ok.test", true },
		{ "a.ok.test", false },     { "other.test", false },
		{ "10.0.0.1", false },      { "10.0.0.2", true },
		{ "11.0.0.1", false },      { "2001:db8::5", true },
		{ "2001:db9::5", false },   { "localhost", false },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++)
		if (allows(text, cases[i].host) != cases[i].is_allowed)
			fail_msg("%s", cases[i].host);
	assert_true(allows("default allow\n", "any.test"));
	assert_false(allows("default allow\ndeny *.test\n", "any.test"));
}

static void
what_is_of_another_form_denies_everything(void **state)
{
	static const char *const broken[] = {
		"",
		"\n",
		"default\n",
		"default maybe\n",
		"allow ok.test\n",
		"default allow\nallow\n",
		"default allow\nallow ok..test\n",
		"default allow\nallow *.*.test\n",
		"default allow\nallow *\n",
		"default allow\nallow ok.test extra\n",
		"default allow\nallow  ok.test\n",
		"default allow\npermit ok.test\n",
		"default allow\nallow 10.0.0.1/8\n",
		"default allow\nallow 10.0.0.0/33\n",
		"default allow\nallow ok.test\r\n",
		" default allow\n",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(broken); i++) {
		assert_false(narrow_is_text(str_from(broken[i])));
		assert_false(allows(broken[i], "ok.test"));
		assert_false(allows(broken[i], "10.0.0.1"));
	}
	assert_true(narrow_is_text(STR("DEFAULT Allow\n\nDeny X.Test")));
	assert_false(allows("DEFAULT Allow\n\nDeny X.Test", "x.test"));
}

static void
too_many_rules_deny_everything(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	buf_init(&b, 4 * NARROW_TEXT_MAX);
	buf_put(&b, STR("default allow\n"));
	for (int i = 0; i < NARROW_RULES_MAX; i++)
		buf_putf(&b, "deny h%d.x\n", i);
	assert_true(narrow_is_text(str_of(b.p, b.len)));
	assert_true(allows(buf_cstr(&b), "ok.test"));
	assert_false(allows(buf_cstr(&b), "h511.x"));
	buf_put(&b, STR("deny one.more\n"));
	assert_false(narrow_is_text(str_of(b.p, b.len)));
	assert_false(allows(buf_cstr(&b), "ok.test"));
	for (int i = 0; i < NARROW_TEXT_MAX; i++)
		buf_putc(&b, '\n');
	assert_false(narrow_is_text(str_of(b.p, b.len)));
	assert_false(allows(buf_cstr(&b), "ok.test"));
}

static void
an_address_may_refuse_what_the_name_was_allowed(void **state)
{
	struct narrow *n = narrow_new(STR("default allow\n"
					  "deny bad.test\n"
					  "allow 10.0.0.5\n"
					  "deny 10.0.0.0/8\n"));
	static const struct {
		const char *host, *addr;
		bool is_allowed, is_fetched;
	} cases[] = {
		{ "ok.test", "192.0.2.1", true, true },
		{ "ok.test", "10.0.0.5", true, true },
		{ "ok.test", "10.0.0.6", false, false },
		{ "ok.test", "::ffff:10.0.0.6", false, false },
		{ "ok.test", "64:ff9b::10.0.0.6", false, false },
		{ "bad.test", "192.0.2.1", false, false },
		{ "bad.test", "10.0.0.5", false, false },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct dest d = dest_of(cases[i].host);
		struct addr a = addr_of(cases[i].addr);
		assert_int_equal(narrow_judge_address(n, &d, &a) == ST_OK,
				 cases[i].is_allowed);
		assert_int_equal(narrow_judge_fetch(n, &d, &a) == ST_OK,
				 cases[i].is_fetched);
	}
	narrow_free(n);
	/* Where a connector calls is not what was named: no rule is no refusal. */
	n = narrow_new(STR("default deny\nallow api.test\n"));
	struct dest d = dest_of("upstream.test");
	struct addr a = addr_of("192.0.2.1");
	assert_int_equal(narrow_judge_fetch(n, &d, &a), ST_OK);
	assert_int_equal(narrow_judge_address(n, &d, &a), ST_NARROWED);
	narrow_free(n);
	assert_int_equal(narrow_judge(NULL, &d), ST_OK);
	assert_int_equal(narrow_judge_address(NULL, &d, &a), ST_OK);
	assert_int_equal(narrow_judge_fetch(NULL, &d, &a), ST_OK);
}

static void
it_is_told_in_its_own_form_and_as_json(void **state)
{
	CLEANUP(buf_done) struct buf text = { 0 }, json = { 0 };
	struct narrow *n = narrow_new(
		STR("default deny\nallow *.A.test\n\ndeny 10.0.0.0/8\nallow ::1\n"));

	(void)state;
	buf_init(&text, 1000);
	buf_init(&json, 1000);
	narrow_put(&text, n);
	narrow_put_json(&json, n);
	narrow_free(n);
	assert_string_equal(buf_cstr(&text), "default deny\nallow *.a.test\n"
					     "deny 10.0.0.0/8\nallow ::1\n");
	assert_string_equal(buf_cstr(&json),
			    "{\"default\":\"deny\",\"rules\":[{\"allow\":\"*.a.test\"},"
			    "{\"deny\":\"10.0.0.0/8\"},{\"allow\":\"::1\"}]}");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_rule_that_matches_decides),
		cmocka_unit_test(what_is_of_another_form_denies_everything),
		cmocka_unit_test(too_many_rules_deny_everything),
		cmocka_unit_test(an_address_may_refuse_what_the_name_was_allowed),
		cmocka_unit_test(it_is_told_in_its_own_form_and_as_json),
	};

	return cmocka_run_group_tests_name("narrow", tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/base/redact.h"

struct pair {
	const char *text, *shown; /* shown NULL: stays */
};

static void
check(const char *text, const char *shown)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	CLEANUP(buf_done) struct buf again = { 0 };

	buf_init(&b, 4096);
	buf_init(&again, 4096);
	redact_put(&b, str_from(text), NULL);
	redact_put(&again, str_of(b.p, b.len), NULL);
	assert_string_equal(buf_cstr(&b), shown == NULL ? text : shown);
	assert_string_equal(buf_cstr(&again), buf_cstr(&b));
}

static void
check_all(const struct pair *pairs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check(pairs[i].text, pairs[i].shown);
}

static void
the_value_of_a_telling_name_is_replaced(void **state)
{
	static const struct pair pairs[] = {
		{ "export API_KEY=abc OTHER=1", "export API_KEY=[redacted] OTHER=1" },
		{ "password = hunter2\nuser = bob",
		  "password = [redacted]\nuser = bob" },
		{ "{\"password\": \"a b, c\", \"n\": 1}",
		  "{\"password\": \"[redacted]\", \"n\": 1}" },
		{ "{\"token\":\"it's\\\"x\",\"n\":1}",
		  "{\"token\":\"[redacted]\",\"n\":1}" },
		{ "\"{\\\"token\\\": \\\"abc\\\", \\\"n\\\": 1}\"",
		  "\"{\\\"token\\\": \\\"[redacted]\\\", \\\"n\\\": 1}\"" },
		{ "os.environ['apiKey'] = 'x y'",
		  "os.environ['apiKey'] = '[redacted]'" },
		{ "curl 'https://h/p?access_token=ab12&q=1'",
		  "curl 'https://h/p?access_token=[redacted]&q=1'" },
		{ "PASSWD=ab'c d'\"e\"f next", "PASSWD=[redacted] next" },
		{ "X-Api-Key: abc", "X-Api-Key: [redacted]" },
		{ "token=--password abc", "token=[redacted] [redacted]" },
		{ "cat private/file; echo token", NULL },
		{ "tokens of the sea", NULL },
	};

	(void)state;
	check_all(pairs, COUNT_OF(pairs));
}

static void
the_value_of_a_telling_flag_is_replaced(void **state)
{
	static const struct pair pairs[] = {
		{ "x --token abc more", "x --token [redacted] more" },
		{ "x --token=abc more", "x --token=[redacted] more" },
		{ "x -password 'a b' more", "x -password '[redacted]' more" },
		{ "run([\"x\", \"--secret\", \"abc\", \"more\"])",
		  "run([\"x\", \"--secret\", \"[redacted]\", \"more\"])" },
		{ "x --token \\\n abc", "x --token \\\n [redacted]" },
		{ "x --password-stdin --verbose", NULL },
		{ "x --token-file /run/token", NULL },
		{ "curl -u bob:abc h", "curl -u bob:[redacted] h" },
		{ "curl --user \"bob:a b\" h", "curl --user \"bob:[redacted]\" h" },
		{ "docker run -u 1000:1000 x", NULL },
	};

	(void)state;
	check_all(pairs, COUNT_OF(pairs));
}

static void
variables_stay(void **state)
{
	static const struct pair pairs[] = {
		{ "x --token $TOKEN --password ${PASS} --secret=$(cat /run/s)", NULL },
		{ "curl -u \"bob:$PASS\" https://$USER:$PASS@h/", NULL },
		{ "password=$ecret", "password=[redacted]" },
	};

	(void)state;
	check_all(pairs, COUNT_OF(pairs));
}

static void
what_a_header_logs_in_with_is_replaced(void **state)
{
	static const struct pair pairs[] = {
		{ "curl -H \"Authorization: Bearer ab.c\" h",
		  "curl -H \"Authorization: Bearer [redacted]\" h" },
		{ "Authorization: Digest username=a, response=b\nHost: h",
		  "Authorization: Digest [redacted]\nHost: h" },
		{ "\"authorization\": \"Basic dTpw\"",
		  "\"authorization\": \"Basic [redacted]\"" },
		{ "Cookie: a=b; c=d\nHost: h", "Cookie: [redacted]\nHost: h" },
		{ "say Bearer abcdef123 now", "say Bearer [redacted] now" },
		{ "say Basic dXNlcjpw now", "say Basic [redacted] now" },
		{ "some basic information", NULL },
	};

	(void)state;
	check_all(pairs, COUNT_OF(pairs));
}

static void
what_a_url_logs_in_with_is_replaced(void **state)
{
	static const struct pair pairs[] = {
		{ "git clone https://me:abc@h/x", "git clone https://[redacted]@h/x" },
		{ "git clone https://abc@h/x", "git clone https://[redacted]@h/x" },
		{ "psql postgres://me:a/b@h/x", "psql postgres://[redacted]@h/x" },
		{ "ssh://git@h/x http://h:80/a@b http://[::1]:80/a@b", NULL },
	};

	(void)state;
	check_all(pairs, COUNT_OF(pairs));
}

static void
secrets_that_are_known_by_their_heads_are_replaced(void **state)
{
	static const struct pair pairs[] = {
		{ "echo ghp_abcdefghijklmnop1234 glpat-abcdefghijklmnop12",
		  "echo [redacted] [redacted]" },
		{ "(AKIAIOSFODNN7EXAMPLE) xoxb-1234567890-a",
		  "([redacted]) [redacted]" },
		{ "sk-proj-abcdefghijkl sgk_abcdefghijklmnopq",
		  "[redacted] [redacted]" },
		{ "a\\nsk-proj-abcdefghijkl", "a\\n[redacted]" },
		{ "eyJhbGciOi.eyJzdWIi.sig", "[redacted]" },
		{ "disk-usage-of-everything ghp_short eyJust", NULL },
		{ "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n"
		  "-----END RSA PRIVATE KEY-----\nb",
		  "a\n[redacted]\nb" },
		{ "private_key=-----BEGIN PRIVATE KEY-----\nMII",
		  "private_key=[redacted]" },
		{ "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----", NULL },
	};

	(void)state;
	check_all(pairs, COUNT_OF(pairs));
}

static void
what_is_to_stay_stays(void **state)
{
	static const struct str texts[] = { { "trk_a", 5 },
					    { "ghp_abcdefghijklmnop1", 21 } };
	const struct redact_keep keep = { texts, COUNT_OF(texts) };
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	buf_init(&b, 4096);
	redact_put(&b,
		   STR("--token trk_a ghp_abcdefghijklmnop1 https://u:trk_a@h "
		       "Bearer ghp_abcdefghijklmnop1 token=trk_b"),
		   &keep);
	assert_string_equal(buf_cstr(&b),
			    "--token trk_a ghp_abcdefghijklmnop1 https://u:trk_a@h "
			    "Bearer ghp_abcdefghijklmnop1 token=[redacted]");
}

static void
an_argument_behind_its_flag_is_its_value(void **state)
{
	static const struct {
		const char *flag, *text, *shown;
	} cases[] = {
		{ "--token", "a b\"c", "[redacted]" },
		{ "--token", "--verbose", "--verbose" },
		{ "--token", "$TOKEN", "$TOKEN" },
		{ "--token=x", "abc", "abc" },
		{ "-u", "bob:a b", "bob:[redacted]" },
		{ "-u", "bob", "bob" },
		{ "--token-file", "/run/t", "/run/t" },
		{ "-H", "X-Token: abc", "X-Token: [redacted]" },
		{ "token", "abc", "abc" },
		{ "", "", "" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		buf_init(&b, 4096);
		redact_put_behind(&b, str_from(cases[i].flag), str_from(cases[i].text),
				  NULL);
		assert_string_equal(buf_cstr(&b), cases[i].shown);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_value_of_a_telling_name_is_replaced),
		cmocka_unit_test(the_value_of_a_telling_flag_is_replaced),
		cmocka_unit_test(variables_stay),
		cmocka_unit_test(what_a_header_logs_in_with_is_replaced),
		cmocka_unit_test(what_a_url_logs_in_with_is_replaced),
		cmocka_unit_test(secrets_that_are_known_by_their_heads_are_replaced),
		cmocka_unit_test(what_is_to_stay_stays),
		cmocka_unit_test(an_argument_behind_its_flag_is_its_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

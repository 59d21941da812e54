/* What OpenBao answers, and what is made of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "connectors/kv.h"

enum { NOW = 1767323045 }; /* 2026-01-02T03:04:05Z */

#define ENVELOPE(data, auth)                                                           \
	"{\"request_id\":\"r\",\"lease_id\":\"\",\"renewable\":false,"                 \
	"\"lease_duration\":0,\"data\":" data                                          \
	",\"wrap_info\":null,\"warnings\":null,\"auth\":" auth "}"
#define LOGIN(token, seconds, renewable)                                               \
	ENVELOPE("null",                                                               \
		 "{\"client_token\":" token ",\"accessor\":\"a\","                     \
		 "\"lease_duration\":" seconds ",\"renewable\":" renewable "}")
#define SECRET(data, metadata)                                                         \
	ENVELOPE("{\"data\":" data ",\"metadata\":{" metadata "}}", "null")
#define FINE                                                                           \
	"\"created_time\":\"2026-01-02T03:04:05.678901234Z\","                         \
	"\"custom_metadata\":null,\"deletion_time\":\"\",\"destroyed\":false,"         \
	"\"version\":3"

static void
a_login_is_a_token_with_its_lease(void **state)
{
	struct kv_token t = { .lease_s = 7 };

	(void)state;
	assert_int_equal(kv_parse_login(STR(LOGIN("\"hvs.x\"", "2764800", "true")), &t),
			 ST_OK);
	assert_true(str_eq(cred_since(&t.text, 0), STR("hvs.x")));
	assert_int_equal(t.lease_s, 2764800);
	assert_true(t.is_renewable);
	kv_token_done(&t);
	assert_int_equal(
		kv_parse_login(STR(LOGIN("\"t\"", "99999999999", "false")), &t), ST_OK);
	assert_int_equal(t.lease_s, KV_LEASE_MAX);
	assert_false(t.is_renewable);
	kv_token_done(&t);
}

static void
what_is_no_login_leaves_nothing(void **state)
{
	static const char *const bad[] = {
		"",
		"null",
		"[]",
		"{",
		"{}",
		ENVELOPE("null", "null"),
		LOGIN("\"\"", "1", "true"),
		LOGIN("7", "1", "true"),
		LOGIN("\"a b\"", "1", "true"),
		LOGIN("\"a\\r\\nX: 1\"", "1", "true"),
		LOGIN("\"a\\u0000\"", "1", "true"),
		LOGIN("\"a\"", "-1", "true"),
		LOGIN("\"a\"", "1.5", "true"),
		LOGIN("\"a\"", "\"1\"", "true"),
		LOGIN("\"a\"", "1", "\"true\""),
		"{\"auth\":{},\"auth\":{}}",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct kv_token t = { .lease_s = 7 };
		assert_int_equal(kv_parse_login(str_from(bad[i]), &t),
				 ST_SOURCE_SILENT);
		assert_true(t.lease_s == 7 && t.text.p == NULL);
	}
}

static void
a_token_of_an_operators_making_says_how_long_it_is_good(void **state)
{
	struct kv_token t;

	(void)state;
	assert_int_equal(
		kv_parse_self(STR(ENVELOPE("{\"ttl\":55,\"renewable\":true}", "null")),
			      &t),
		ST_OK);
	assert_true(t.lease_s == 55 && t.is_renewable && t.text.p == NULL);
	/* A root token's. */
	assert_int_equal(kv_parse_self(STR(ENVELOPE("{\"ttl\":0}", "null")), &t),
			 ST_OK);
	assert_true(t.lease_s == 0 && !t.is_renewable);
	assert_int_equal(kv_parse_self(STR(ENVELOPE("{}", "null")), &t),
			 ST_SOURCE_SILENT);
	assert_int_equal(kv_parse_self(STR(ENVELOPE("null", "null")), &t),
			 ST_SOURCE_SILENT);
}

static void
a_secret_is_a_field_of_a_version(void **state)
{
	struct kv_value v = { .version = 9 };

	(void)state;
	assert_int_equal(
		kv_parse_value(STR(SECRET("{\"a\":\"s3\\u00e9\",\"b\":1}", FINE)),
			       STR("a"), 0, NOW, &v),
		ST_OK);
	assert_true(str_eq(cred_since(&v.text, 0), STR("s3\xc3\xa9")));
	assert_true(v.version == 3 && v.expires_s == 0);
	kv_value_done(&v);
	assert_int_equal(kv_parse_value(STR(SECRET("{\"a\":\"x\"}", FINE)), STR("a"), 3,
					NOW, &v),
			 ST_OK);
	kv_value_done(&v);
	assert_int_equal(
		kv_parse_value(
			STR(SECRET("{\"a\":\"x\"}",
				   "\"version\":1,\"deletion_time\":\"2026-01-02T03:"
				   "14:05.000000001Z\"")),
			STR("a"), 0, NOW, &v),
		ST_OK);
	assert_int_equal(v.expires_s, NOW + 600);
	kv_value_done(&v);
}

static void
what_is_gone_is_told_from_what_is_not_understood(void **state)
{
	static const struct {
		const char *body;
		enum status st;
	} cases[] = {
		{ SECRET("{}", FINE), ST_NO_SECRET },
		{ SECRET("{\"A\":\"x\"}", FINE), ST_NO_SECRET },
		{ SECRET("null", FINE), ST_NO_SECRET },
		{ SECRET("{\"a\":\"x\"}", "\"version\":3,\"destroyed\":true"),
		  ST_NO_SECRET },
		{ SECRET("{\"a\":\"x\"}",
			 "\"version\":3,\"deletion_time\":\"2026-01-02T03:04:05Z\""),
		  ST_NO_SECRET },
		{ SECRET("{\"a\":7}", FINE), ST_SOURCE_BAD },
		{ SECRET("{\"a\":null}", FINE), ST_SOURCE_BAD },
		{ SECRET("{\"a\":\"\"}", FINE), ST_SOURCE_BAD },
		{ SECRET("{\"a\":\"x\\u0000y\"}", FINE), ST_SOURCE_BAD },
		{ SECRET("{\"a\":\"x\"}", "\"version\":0"), ST_SOURCE_SILENT },
		{ SECRET("{\"a\":\"x\"}", "\"version\":\"3\""), ST_SOURCE_SILENT },
		{ SECRET("{\"a\":\"x\"}", "\"version\":4294967296"), ST_SOURCE_SILENT },
		{ SECRET("{\"a\":\"x\"}", "\"version\":3,\"deletion_time\":\"soon\""),
		  ST_SOURCE_SILENT },
		{ SECRET("{\"a\":\"x\",\"a\":\"y\"}", FINE), ST_SOURCE_SILENT },
		{ ENVELOPE("null", "null"), ST_SOURCE_SILENT },
		{ ENVELOPE("{\"a\":\"x\"}", "null"), ST_SOURCE_SILENT }, /* version 1 */
		{ "{\"errors\":[\"x\"]}", ST_SOURCE_SILENT },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct kv_value v = { .version = 9 };
		assert_int_equal(
			kv_parse_value(str_from(cases[i].body), STR("a"), 0, NOW, &v),
			cases[i].st);
		assert_true(v.version == 9 && v.text.p == NULL);
	}
}

static void
another_version_than_the_pinned_one_is_no_answer(void **state)
{
	struct kv_value v;

	(void)state;
	assert_int_equal(kv_parse_value(STR(SECRET("{\"a\":\"x\"}", FINE)), STR("a"), 2,
					NOW, &v),
			 ST_SOURCE_SILENT);
}

static void
only_an_answer_that_says_no_is_a_no(void **state)
{
	static const struct {
		uint16_t http;
		enum status st;
	} cases[] = {
		{ 200, ST_OK },
		{ 204, ST_SOURCE_SILENT },
		{ 307, ST_SOURCE_SILENT },
		{ 400, ST_SOURCE_REFUSED },
		{ 403, ST_SOURCE_REFUSED },
		{ 404, ST_NO_SECRET },
		{ 412, ST_SOURCE_SILENT },
		{ 429, ST_SOURCE_SILENT },
		{ 473, ST_SOURCE_SILENT },
		{ 500, ST_SOURCE_SILENT },
		{ 503, ST_SOURCE_SILENT },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++)
		assert_int_equal(kv_status(cases[i].http), cases[i].st);
}

static void
a_login_holds_what_it_shows_whatever_is_in_it(void **state)
{
	struct cred c;

	(void)state;
	cred_init(&c, 200);
	kv_put_login(&c, true, STR("r"), STR("a\"b\\c\nd"));
	assert_true(str_eq(cred_since(&c, 0), STR("{\"role_id\":\"r\",\"secret_id\":"
						  "\"a\\u0022b\\u005cc\\u000ad\"}")));
	cred_done(&c);
	cred_init(&c, 200);
	kv_put_login(&c, false, STR("r"), STR("j.w.t"));
	assert_true(
		str_eq(cred_since(&c, 0), STR("{\"role\":\"r\",\"jwt\":\"j.w.t\"}")));
	cred_done(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_login_is_a_token_with_its_lease),
		cmocka_unit_test(what_is_no_login_leaves_nothing),
		cmocka_unit_test(
			a_token_of_an_operators_making_says_how_long_it_is_good),
		cmocka_unit_test(a_secret_is_a_field_of_a_version),
		cmocka_unit_test(what_is_gone_is_told_from_what_is_not_understood),
		cmocka_unit_test(another_version_than_the_pinned_one_is_no_answer),
		cmocka_unit_test(only_an_answer_that_says_no_is_a_no),
		cmocka_unit_test(a_login_holds_what_it_shows_whatever_is_in_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

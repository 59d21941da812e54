/* What is asked of token services, and which answers are one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "connectors/exchange.h"
#include "tests/unit/rfc7515.h"

enum { NOW = 1700000000 };

static void
an_answer_of_rfc_6749_is_a_token(void **state)
{
	/* Section 5.1; "example" is a type that nobody here can show. */
#define ANSWER(type)                                                                   \
	STR("{\n \"access_token\":\"2YotnFZFEjr1zCsicMWpAA\",\n"                       \
	    " \"token_type\":\"" type "\",\n \"expires_in\":3600,\n"                   \
	    " \"refresh_token\":\"tGzv3JOkF0XG5Qx2TlKWIA\",\n"                         \
	    " \"example_parameter\":\"example_value\"\n}")
	struct token_held t = { .expires_s = 1 };

	(void)state;
	assert_int_equal(token_parse_oauth(ANSWER("example"), NOW, &t),
			 ST_TOKEN_FAILED);
	assert_int_equal(t.expires_s, 1);
	assert_int_equal(token_parse_oauth(ANSWER("BeareR"), NOW, &t), ST_OK);
#undef ANSWER
	assert_true(str_eq(t.shown.value, STR("2YotnFZFEjr1zCsicMWpAA")));
	assert_true(str_eq(t.refresh, STR("tGzv3JOkF0XG5Qx2TlKWIA")));
	assert_int_equal(t.expires_s, NOW + 3600);
	assert_true(token_is_fresh(&t, NOW, 60));
	assert_false(token_is_fresh(&t, NOW + 3540, 60));
	assert_false(token_is_fresh(&t, NOW + 9999, 60));
	token_done(&t);
	assert_false(token_is_fresh(&t, 0, 0));
}

static void
a_life_may_be_told_as_text_or_not_at_all(void **state)
{
	static const struct {
		const char *body;
		uint64_t expires_s;
	} cases[] = {
		{ "{\"access_token\":\"a\",\"expires_in\":\"3599\"}", NOW + 3599 },
		{ "{\"access_token\":\"a\",\"expires_in\":null}", 0 },
		{ "{\"access_token\":\"a\"}", 0 },
		{ "{\"access_token\":\"a\",\"expires_in\":60.0}", NOW + 60 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct token_held t;
		assert_int_equal(token_parse_oauth(str_from(cases[i].body), NOW, &t),
				 ST_OK);
		assert_int_equal(t.expires_s, cases[i].expires_s);
		assert_int_equal(t.refresh.n, 0);
		token_done(&t);
	}
}

static void
what_is_not_quite_an_answer_is_none(void **state)
{
	static const char *const bodies[] = {
		"",
		"[]",
		"\"access_token\"",
		"{}",
		"{\"access_token\":\"\"}",
		"{\"access_token\":1}",
		"{\"access_token\":\"a b\"}",
		"{\"access_token\":\"a\\r\\nb\"}",
		"{\"access_token\":\"a\\u0000b\"}",
		"{\"access_token\":\"a\",\"access_token\":\"b\"}",
		"{\"access_token\":\"a\",\"expires_in\":-1}",
		"{\"access_token\":\"a\",\"expires_in\":true}",
		"{\"access_token\":\"a\",\"expires_in\":99999999999}",
		"{\"access_token\":\"a\",\"token_type\":\"mac\"}",
		"{\"access_token\":\"a\",\"refresh_token\":\"b\\n\"}",
		"{\"access_token\":\"a\"} x",
		"{\"error\":\"invalid_grant\"}",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bodies); i++) {
		struct token_held t;
		assert_int_equal(token_parse_oauth(str_from(bodies[i]), NOW, &t),
				 ST_TOKEN_FAILED);
	}
}

static void
an_installation_token_says_when_it_ends(void **state)
{
	struct token_held t;

	(void)state;
	assert_int_equal(
		token_parse_github(STR("{\"token\":\"ghs_1\",\"expires_at\":"
				       "\"2016-07-11T22:14:10Z\","
				       "\"permissions\":{\"issues\":\"read\"}}"),
				   &t),
		ST_OK);
	assert_true(str_eq(t.shown.value, STR("ghs_1")));
	assert_int_equal(t.expires_s, 1468275250);
	token_done(&t);
	assert_int_equal(token_parse_github(STR("{\"token\":\"ghs_1\"}"), &t),
			 ST_TOKEN_FAILED);
}

static void
times_are_utc_to_the_letter(void **state)
{
	static const char *const bad[] = {
		"",
		"2016-07-11T22:14:10",
		"2016-07-11 22:14:10Z",
		"2016-13-11T22:14:10Z",
		"2016-07-00T22:14:10Z",
		"2016-07-11T24:14:10Z",
		"2016-07-11T22:14:10+00:00",
		"2016-07-11T22:14:10.Z",
		"2016-07-11T22:14:10Zx",
		"-016-07-11T22:14:10Z",
		"1016-07-11T22:14:10Z",
	};
	uint64_t s = 0;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		assert_false(token_parse_time(str_from(bad[i]), &s));
	assert_true(token_parse_time(STR("2011-07-11T19:55:29.611Z"), &s));
	assert_int_equal(s, 1310414129);
}

#define CREDENTIALS                                                                    \
	"<Credentials><AccessKeyId>ASIAIOSFODNN7EXAMPLE</AccessKeyId>"                 \
	"<SecretAccessKey>wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY</SecretAccessKey>" \
	"<SessionToken>AQoDYXdzEPT//////////wEXAMPLE=</SessionToken>"                  \
	"<Expiration>2011-07-11T19:55:29.611Z</Expiration></Credentials>"
#define ROLE(inner)                                                                    \
	"<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n"   \
	"  <AssumeRoleResult>\n" inner "\n  </AssumeRoleResult>\n"                     \
	"  <ResponseMetadata><RequestId>c6104cbe</RequestId></ResponseMetadata>\n"     \
	"</AssumeRoleResponse>\n"

static void
credentials_of_a_role_are_read_from_their_place(void **state)
{
	static const char *const bodies[] = {
		ROLE(CREDENTIALS),
		"<?xml version=\"1.0\"?>\n" ROLE(CREDENTIALS),
		ROLE("<AssumedRoleUser><Arn>arn:x</Arn></AssumedRoleUser>" CREDENTIALS),
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bodies); i++) {
		struct token_held t;
		assert_int_equal(token_parse_sts(str_from(bodies[i]), &t), ST_OK);
		assert_true(str_eq(t.shown.id, STR("ASIAIOSFODNN7EXAMPLE")));
		assert_true(str_eq(t.shown.value,
				   STR("wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY")));
		assert_true(
			str_eq(t.shown.session, STR("AQoDYXdzEPT//////////wEXAMPLE=")));
		assert_int_equal(t.expires_s, 1310414129);
		token_done(&t);
	}
}

static void
xml_with_anything_else_in_it_is_no_answer(void **state)
{
	static const char *const bodies[] = {
		"",
		"<",
		"<a>",
		CREDENTIALS,
		ROLE(""),
		ROLE(CREDENTIALS CREDENTIALS),
		ROLE("<!-- x -->" CREDENTIALS),
		ROLE("<![CDATA[x]]>" CREDENTIALS),
		"<!DOCTYPE a [<!ENTITY x \"y\">]>" ROLE(CREDENTIALS),
		ROLE("<x>&lt;</x>" CREDENTIALS),
		ROLE("<x a=\"b\"></x>" CREDENTIALS),
		ROLE("<x>a<y>b</y></x>" CREDENTIALS),
		ROLE("<x></y>" CREDENTIALS),
		ROLE("<a><a><a><a><a><a><a></a></a></a></a></a></a></a>" CREDENTIALS),
		ROLE(CREDENTIALS) "<a></a>",
		("<ErrorResponse><Error><Code>AccessDenied</Code></Error></"
		 "ErrorResponse>"),
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bodies); i++) {
		struct token_held t;
		assert_int_equal(token_parse_sts(str_from(bodies[i]), &t),
				 ST_TOKEN_FAILED);
	}
}

struct asked {
	struct arena arena;
	struct exchange x;
};

static void
ask(struct asked *a, const struct auth_conf *c, const struct str *parts)
{
	arena_init(&a->arena, 1 << 16);
	assert_int_equal(exchange_make(&a->x, c, parts, NOW, &a->arena), ST_OK);
	assert_true(str_eq(a->x.head.method, STR("POST")));
	assert_int_equal(a->x.head.length, a->x.job.body.n);
}

static void
asked_done(struct asked *a)
{
	exchange_over(&a->x);
	arena_done(&a->arena);
}

static const struct str parts[AUTH_PARTS] = {
	{ "s3cr3t/+", 8 }, { "cl13nt:", 7 }, { "", 0 }, { "", 0 }
};

static void
client_credentials_are_asked_for_as_rfc_6749_says(void **state)
{
	struct auth_conf c = { .kind = AUTH_OAUTH2_CLIENT_CREDENTIALS,
			       .token_url = STR("https://idp.example.test:8443/t?x=1"),
			       .client_id = STR("me"),
			       .scopes = STR("a b"),
			       .style = AUTH_STYLE_BASIC };
	struct asked a;

	(void)state;
	ask(&a, &c, parts);
	assert_true(
		str_eq(a.x.job.body, STR("grant_type=client_credentials&scope=a+b")));
	assert_int_equal(a.x.job.last_n, 1);
	assert_true(str_eq(a.x.job.last[0].value, STR("Basic bWU6czNjcjN0JTJGJTJC")));
	assert_true(str_eq(dest_name(&a.x.uri.dest), STR("idp.example.test")));
	assert_int_equal(a.x.uri.dest.port, 8443);
	assert_true(str_eq(a.x.uri.path, STR("/t")) &&
		    str_eq(a.x.uri.query, STR("x=1")));
	asked_done(&a);

	c.style = AUTH_STYLE_POST;
	c.token_url = STR("https://idp.example.test");
	ask(&a, &c, parts);
	assert_true(str_eq(a.x.job.body,
			   STR("grant_type=client_credentials&scope=a+b&client_id=me&"
			       "client_secret=s3cr3t%2F%2B")));
	assert_int_equal(a.x.job.last_n, 0);
	assert_true(str_eq(a.x.uri.path, STR("/")) && !a.x.uri.has_query);
	asked_done(&a);
}

static void
a_refresh_says_whose_it_is(void **state)
{
	const struct str public_parts[AUTH_PARTS] = { parts[0] };
	struct auth_conf c = { .kind = AUTH_OAUTH2_REFRESH,
			       .token_url = STR("https://idp.example.test/t"),
			       .client_id = STR("me"),
			       .style = AUTH_STYLE_BASIC };
	struct asked a;

	(void)state;
	ask(&a, &c, parts);
	assert_true(str_eq(a.x.job.body,
			   STR("grant_type=refresh_token&refresh_token=s3cr3t%2F%2B")));
	assert_true(str_eq(a.x.job.last[0].value, STR("Basic bWU6Y2wxM250JTNB")));
	asked_done(&a);
	ask(&a, &c, public_parts);
	assert_true(str_eq(a.x.job.body,
			   STR("grant_type=refresh_token&refresh_token=s3cr3t%2F%2B&"
			       "client_id=me")));
	assert_int_equal(a.x.job.last_n, 0);
	asked_done(&a);
}

static void
a_service_account_sends_an_assertion(void **state)
{
	const struct str key[AUTH_PARTS] = { str_from(rfc7515_rsa_key) };
	const struct auth_conf c = { .kind = AUTH_JWT_BEARER,
				     .exchange = AUTH_EXCHANGE_OAUTH,
				     .algorithm = AUTH_RS256,
				     .issuer = STR("x@y.example.test"),
				     .scopes = STR("s"),
				     .token_url = STR("https://idp.example.test/t") };
	struct asked a;

	(void)state;
	ask(&a, &c, key);
	assert_true(str_starts(a.x.job.body,
			       STR("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type"
				   "%3Ajwt-bearer&assertion=eyJ")));
	assert_int_equal(a.x.job.last_n, 0);
	asked_done(&a);
}

static void
an_app_shows_its_jwt_and_sends_no_body(void **state)
{
	const struct str key[AUTH_PARTS] = { str_from(rfc7515_rsa_key) };
	const struct auth_conf c = {
		.kind = AUTH_JWT_BEARER,
		.exchange = AUTH_EXCHANGE_GITHUB_APP,
		.algorithm = AUTH_RS256,
		.issuer = STR("12345"),
		.token_url = STR("https://api.github.example.test/app/installations/7/"
				 "access_tokens"),
	};
	struct asked a;

	(void)state;
	ask(&a, &c, key);
	assert_int_equal(a.x.job.body.n, 0);
	assert_true(str_starts(a.x.job.last[0].value, STR("Bearer eyJ")));
	assert_true(str_eq(a.x.uri.path, STR("/app/installations/7/access_tokens")));
	asked_done(&a);
}

static void
a_role_is_assumed_with_a_signed_call(void **state)
{
	const struct str key[AUTH_PARTS] = { STR("AKID:key") };
	const struct auth_conf c = { .kind = AUTH_SIGV4,
				     .region = STR("eu-west-1"),
				     .service = STR("s3"),
				     .assume_role = STR("arn:aws:iam::1:role/r"),
				     .token_url = STR(
					     "https://sts.eu-west-1.amazonaws.com/") };
	struct asked a;

	(void)state;
	ask(&a, &c, key);
	assert_true(str_eq(a.x.job.body,
			   STR("Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws"
			       "%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=sandgate")));
	assert_int_equal(a.x.job.last_n, 2);
	assert_true(
		str_starts(a.x.job.last[1].value,
			   STR("AWS4-HMAC-SHA256 Credential=AKID/20231114/eu-west-1/"
			       "sts/aws4_request, SignedHeaders=content-type;host;"
			       "x-amz-date, ")));
	asked_done(&a);
}

static void
only_success_with_a_token_in_it_counts(void **state)
{
	const struct auth_conf c = { .kind = AUTH_OAUTH2_REFRESH };
	const struct str body = STR("{\"access_token\":\"a\"}");
	static const uint16_t bad[] = { 100, 302, 400, 401, 500, 0 };
	struct token_held t;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		assert_int_equal(exchange_read(&c, bad[i], body, NOW, &t),
				 ST_TOKEN_FAILED);
	assert_int_equal(exchange_read(&c, 201, body, NOW, &t), ST_OK);
	token_done(&t);
}

static void
a_jwt_that_is_shown_itself_needs_no_call(void **state)
{
	const struct str key[AUTH_PARTS] = { str_from(rfc7515_ec_key) };
	const struct auth_conf c = { .kind = AUTH_JWT_BEARER,
				     .exchange = AUTH_EXCHANGE_NONE,
				     .algorithm = AUTH_ES256,
				     .issuer = STR("me") };
	struct token_held t;

	(void)state;
	assert_true(exchange_is_local(&c));
	assert_int_equal(exchange_make_local(&c, key, NOW, &t), ST_OK);
	assert_true(str_starts(t.shown.value, STR("eyJ")));
	assert_true(token_is_fresh(&t, NOW, 60));
	token_done(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_of_rfc_6749_is_a_token),
		cmocka_unit_test(a_life_may_be_told_as_text_or_not_at_all),
		cmocka_unit_test(what_is_not_quite_an_answer_is_none),
		cmocka_unit_test(an_installation_token_says_when_it_ends),
		cmocka_unit_test(times_are_utc_to_the_letter),
		cmocka_unit_test(credentials_of_a_role_are_read_from_their_place),
		cmocka_unit_test(xml_with_anything_else_in_it_is_no_answer),
		cmocka_unit_test(client_credentials_are_asked_for_as_rfc_6749_says),
		cmocka_unit_test(a_refresh_says_whose_it_is),
		cmocka_unit_test(a_service_account_sends_an_assertion),
		cmocka_unit_test(an_app_shows_its_jwt_and_sends_no_body),
		cmocka_unit_test(a_role_is_assumed_with_a_signed_call),
		cmocka_unit_test(only_success_with_a_token_in_it_counts),
		cmocka_unit_test(a_jwt_that_is_shown_itself_needs_no_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

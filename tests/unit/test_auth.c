/* Kinds of credentials: what leaves a request, what comes in, and where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "connectors/auth.h"

#define SECRET "s3cr3t/+ value"

struct request {
	struct arena arena;
	struct head head;
	struct uri uri;
	struct auth_job job;
};

static void
request_init(struct request *r, const struct auth_conf *c, const char *target)
{
	struct str rest;

	memset(r, 0, sizeof *r);
	arena_init(&r->arena, 1 << 16);
	head_init(&r->head, &r->arena);
	r->head.method = STR("POST");
	r->head.method_id = METHOD_POST;
	r->head.target = str_from(target);
	rest = r->head.target;
	r->uri.path = str_cut(&rest, '?');
	r->uri.has_query = rest.p != NULL;
	r->uri.query = rest.p != NULL ? rest : STR("");
	assert_int_equal(
		dest_from_authority(STR("api.example.test:443"), 443, &r->uri.dest),
		ST_OK);
	auth_job_init(&r->job, c);
	r->job.head = &r->head;
	r->job.uri = &r->uri;
	r->job.is_tls = true;
	r->job.now_s = 1440938160;
	r->job.parts[AUTH_PART_SECRET] = STR(SECRET);
}

static void
request_done(struct request *r)
{
	auth_job_done(&r->job);
	arena_done(&r->arena);
}

static void
add(struct request *r, const char *name, const char *value)
{
	assert_int_equal(head_add(&r->head, str_from(name), str_from(value)), ST_OK);
}

static enum status
run(struct request *r)
{
	enum status st = auth_refuses(&r->job);

	if (st != ST_OK)
		return st;
	auth_strip(&r->job);
	return auth_write(&r->job);
}

static void
is_last(const struct request *r, size_t i, const char *name, const char *value)
{
	assert_true(i < r->job.last_n);
	assert_true(str_eq(r->job.last[i].name, str_from(name)));
	if (!str_eq(r->job.last[i].value, str_from(value)))
		print_error("%.*s\n", STR_ARG(r->job.last[i].value));
	assert_true(str_eq(r->job.last[i].value, str_from(value)));
}

static void
bearer_replaces_every_spelling_of_the_clients_own(void **state)
{
	const struct auth_conf c = { .kind = AUTH_BEARER };
	static const char *const names[] = { "Authorization",       "AUTHORIZATION",
					     "Authorization.",      "X_Api_Key",
					     "x-api-key",           "Private.Token",
					     "X-Amz-Security-Token" };
	struct request r;

	(void)state;
	request_init(&r, &c, "/a?b=c");
	for (size_t i = 0; i < COUNT_OF(names); i++)
		add(&r, names[i], "mine");
	add(&r, "cookie", "sid=1");
	add(&r, "accept", "*/*");
	assert_int_equal(run(&r), ST_OK);
	/* A name with a dot at its end is no name of a credential, whoever folds it. */
	assert_int_equal(r.head.fields_len, 3);
	assert_non_null(head_get(&r.head, TOKEN_COOKIE));
	assert_int_equal(r.job.last_n, 1);
	is_last(&r, 0, "authorization", "Bearer " SECRET);
	assert_int_equal(r.job.last[0].token, TOKEN_AUTHORIZATION);
	assert_true(str_eq(r.uri.query, STR("b=c")));
	assert_false(r.job.target_is_secret);
	request_done(&r);
}

static void
a_prefix_or_a_user_changes_how_a_bearer_is_shown(void **state)
{
	const struct auth_conf token = { .kind = AUTH_BEARER, .prefix = STR("token ") };
	const struct auth_conf user = { .kind = AUTH_BEARER,
					.user = STR("x-access-token") };
	struct request r;

	(void)state;
	request_init(&r, &token, "/");
	assert_int_equal(run(&r), ST_OK);
	is_last(&r, 0, "authorization", "token " SECRET);
	request_done(&r);
	request_init(&r, &user, "/");
	assert_int_equal(run(&r), ST_OK);
	is_last(&r, 0, "authorization",
		"Basic eC1hY2Nlc3MtdG9rZW46czNjcjN0LysgdmFsdWU=");
	request_done(&r);
}

static void
basic_takes_a_user_or_a_secret_that_holds_one(void **state)
{
	const struct auth_conf named = { .kind = AUTH_BASIC, .user = STR("Aladdin") };
	const struct auth_conf bare = { .kind = AUTH_BASIC };
	struct request r;

	(void)state;
	/* RFC 7617 section 2. */
	request_init(&r, &named, "/");
	r.job.parts[AUTH_PART_SECRET] = STR("open sesame");
	assert_int_equal(run(&r), ST_OK);
	is_last(&r, 0, "authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
	request_done(&r);
	request_init(&r, &bare, "/");
	r.job.parts[AUTH_PART_SECRET] = STR("Aladdin:open sesame");
	assert_int_equal(run(&r), ST_OK);
	is_last(&r, 0, "authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
	request_done(&r);
	request_init(&r, &bare, "/");
	assert_int_equal(run(&r), ST_BAD_SECRET);
	request_done(&r);
}

static void
a_header_of_its_own_name_is_bare_and_replaces_what_folds_to_it(void **state)
{
	const struct auth_conf c = { .kind = AUTH_HEADER, .name = STR("x-own-key") };
	struct request r;

	(void)state;
	request_init(&r, &c, "/");
	add(&r, "X_Own.Key", "mine");
	add(&r, "x-own-key", "mine");
	add(&r, "Authorization", "Basic bWluZQ==");
	add(&r, "x-own-key2", "kept");
	assert_int_equal(run(&r), ST_OK);
	assert_int_equal(r.head.fields_len, 1);
	is_last(&r, 0, "x-own-key", SECRET);
	request_done(&r);
}

static void
a_secret_that_could_end_a_field_is_never_written(void **state)
{
	const struct auth_conf c = { .kind = AUTH_BEARER };
	static const struct str bad[] = {
		{ "a\r\nb", 4 }, { "a\nb", 3 }, { "a\0b", 3 },  { "", 0 },
		{ " a", 2 },     { "a ", 2 },   { "a\x7f", 2 }, { "a\x80", 2 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct request r;
		request_init(&r, &c, "/");
		r.job.parts[AUTH_PART_SECRET] = bad[i];
		assert_int_equal(run(&r), ST_BAD_SECRET);
		assert_int_equal(r.job.last_n, 0);
		request_done(&r);
	}
}

static void
a_query_key_is_replaced_however_it_is_spelled(void **state)
{
	static const char *const own[] = {
		"key=mine",         "k%65y=mine", "%6b%65%79=mine", "key",
		"KEY=mine",         "key=",       "%4Bey=x&key=y",  "x;key=mine",
		"key=a&&key=b&kEy", "+key=mine",
	};
	const struct auth_conf c = { .kind = AUTH_QUERY, .name = STR("key") };

	(void)state;
	for (size_t i = 0; i < COUNT_OF(own); i++) {
		char target[128];
		struct request r;
		(void)snprintf(target, sizeof target, "/p?a=1&%s&b=%%2f", own[i]);
		request_init(&r, &c, target);
		assert_int_equal(run(&r), ST_OK);
		if (!str_eq(r.uri.query, STR("a=1&b=%2f&key=s3cr3t%2F%2B%20value")))
			print_error("%s: %.*s\n", own[i], STR_ARG(r.uri.query));
		assert_true(
			str_eq(r.uri.query, STR("a=1&b=%2f&key=s3cr3t%2F%2B%20value")));
		assert_true(r.job.target_is_secret && r.uri.has_query);
		assert_int_equal(r.job.last_n, 0);
		request_done(&r);
	}
}

static void
a_query_key_is_added_where_there_was_no_query(void **state)
{
	const struct auth_conf c = { .kind = AUTH_QUERY, .name = STR("key") };
	static const char *const targets[] = { "/p", "/p?", "/p?key=mine" };

	(void)state;
	for (size_t i = 0; i < COUNT_OF(targets); i++) {
		struct request r;
		request_init(&r, &c, targets[i]);
		assert_int_equal(run(&r), ST_OK);
		assert_true(r.uri.has_query);
		assert_true(str_eq(r.uri.query, STR("key=s3cr3t%2F%2B%20value")));
		request_done(&r);
	}
}

static void
a_path_segment_is_replaced_behind_its_prefix(void **state)
{
	const struct auth_conf c = { .kind = AUTH_PATH, .prefix = STR("/bot") };
	static const char *const from[] = { "/botMINE/send", "/bot/send",
					    "/%62otMINE/send", "/bot%2e%2e/send" };
	struct request r;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(from); i++) {
		request_init(&r, &c, from[i]);
		r.job.parts[AUTH_PART_SECRET] = STR("12:ab/c");
		assert_int_equal(run(&r), ST_OK);
		assert_true(str_eq(r.uri.path, STR("/bot12:ab%2Fc/send")));
		assert_true(r.job.target_is_secret);
		request_done(&r);
	}
	request_init(&r, &c, "/file/botMINE/send");
	assert_int_equal(run(&r), ST_NO_SLOT);
	request_done(&r);
}

static void
a_secret_can_not_climb_out_of_its_segment(void **state)
{
	const struct auth_conf c = { .kind = AUTH_PATH, .prefix = STR("/") };
	struct request r;

	(void)state;
	request_init(&r, &c, "/x/y");
	r.job.parts[AUTH_PART_SECRET] = STR("..");
	assert_int_equal(run(&r), ST_BAD_SECRET);
	assert_true(str_eq(r.uri.path, STR("/x/y")));
	request_done(&r);
}

static void
a_form_field_is_replaced_in_the_body(void **state)
{
	const struct auth_conf c = { .kind = AUTH_FORM, .name = STR("token") };
	struct request r;

	(void)state;
	request_init(&r, &c, "/p?tok%65n=mine&a=1");
	add(&r, "content-type", "application/x-www-form-urlencoded; charset=utf-8");
	r.head.body = BODY_CHUNKED;
	assert_int_equal(auth_refuses(&r.job), ST_OK);
	assert_int_equal(auth_body(&r.job), AUTH_BODY_WHOLE);
	r.job.body = STR("text=hi&t%6Fken=mine&x=1");
	assert_int_equal(run(&r), ST_OK);
	assert_true(str_eq(r.job.body, STR("text=hi&x=1&token=s3cr3t%2F%2B%20value")));
	assert_true(str_eq(r.uri.query, STR("a=1")));
	request_done(&r);
}

static void
what_is_no_form_has_no_slot_for_one(void **state)
{
	const struct auth_conf c = { .kind = AUTH_FORM, .name = STR("token") };
	struct request r;

	(void)state;
	request_init(&r, &c, "/");
	add(&r, "content-type", "application/json");
	r.head.body = BODY_CHUNKED;
	assert_int_equal(run(&r), ST_NO_SLOT);
	request_done(&r);
	request_init(&r, &c, "/");
	add(&r, "content-type", "application/x-www-form-urlencoded");
	assert_int_equal(run(&r), ST_NO_SLOT);
	add(&r, "content-encoding", "gzip");
	r.head.body = BODY_CHUNKED;
	assert_int_equal(run(&r), ST_NO_SLOT);
	request_done(&r);
}

static const struct auth_conf s3 = { .kind = AUTH_SIGV4,
				     .region = { "us-east-1", 9 },
				     .service = { "s3", 2 } };
static const struct auth_conf other = { .kind = AUTH_SIGV4,
					.region = { "us-east-1", 9 },
					.service = { "sqs", 3 } };
#define AWS_SECRET "AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

static void
s3_is_signed_without_reading_the_body(void **state)
{
	struct request r;

	(void)state;
	request_init(&r, &s3, "/b/key%20a?x=1");
	r.job.parts[AUTH_PART_SECRET] = STR(AWS_SECRET);
	r.head.body = BODY_LENGTH;
	add(&r, "Authorization", "AWS4-HMAC-SHA256 Credential=mine");
	add(&r, "X_Amz_Date", "19700101T000000Z");
	add(&r, "x-amz-content-sha256", "0123");
	add(&r, "x-amz-acl", "private");
	assert_int_equal(auth_body(&r.job), AUTH_BODY_STREAM);
	assert_int_equal(run(&r), ST_OK);
	assert_int_equal(r.head.fields_len, 1);
	assert_int_equal(r.job.last_n, 3);
	is_last(&r, 0, "x-amz-date", "20150830T123600Z");
	is_last(&r, 1, "x-amz-content-sha256", "UNSIGNED-PAYLOAD");
	assert_true(str_starts(
		r.job.last[2].value,
		STR("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/s3/"
		    "aws4_request, SignedHeaders=host;x-amz-acl;x-amz-content-sha256;"
		    "x-amz-date, Signature=")));
	request_done(&r);
}

static void
other_services_sign_the_body_itself(void **state)
{
	struct request r;

	(void)state;
	request_init(&r, &other, "/");
	r.job.parts[AUTH_PART_SECRET] = STR(AWS_SECRET);
	r.job.parts[AUTH_PART_SESSION_TOKEN] = STR("session");
	r.head.body = BODY_CHUNKED;
	assert_int_equal(auth_body(&r.job), AUTH_BODY_WHOLE);
	r.job.body = STR("Action=x");
	assert_int_equal(run(&r), ST_OK);
	assert_int_equal(r.job.last_n, 3);
	is_last(&r, 1, "x-amz-security-token", "session");
	request_done(&r);
}

static void
other_forms_of_aws_signatures_are_refused_by_name(void **state)
{
	static const char *const fields[][2] = {
		{ "x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" },
		{ "x-amz-content-sha256",
		  "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" },
		{ "x-amz-content-sha256", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD" },
		{ "authorization", "AWS4-ECDSA-P256-SHA256 Credential=x" },
		{ "x-amz-region-set", "*" },
	};
	struct request r;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(fields); i++) {
		request_init(&r, &s3, "/b/k");
		add(&r, fields[i][0], fields[i][1]);
		assert_int_equal(auth_refuses(&r.job), ST_SIGV4_FORM);
		request_done(&r);
	}
	/* Whatever stands in Authorization beside it. */
	request_init(&r, &s3, "/b/k?x-amz-%53ignature=00&X-Amz-Algorithm=y");
	add(&r, "authorization", "Basic eDp5");
	assert_int_equal(auth_refuses(&r.job), ST_SIGV4_FORM);
	request_done(&r);
}

static void
unsigned_chunks_of_s3_go_on_as_they_are(void **state)
{
	struct request r;

	(void)state;
	request_init(&r, &s3, "/b/k");
	r.job.parts[AUTH_PART_SECRET] = STR(AWS_SECRET);
	r.head.body = BODY_CHUNKED;
	add(&r, "x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
	assert_int_equal(run(&r), ST_OK);
	assert_int_equal(r.head.fields_len, 1);
	assert_int_equal(r.job.last_n, 2);
	request_done(&r);
}

static void
an_hmac_covers_what_its_message_names(void **state)
{
	const struct auth_conf c = {
		.kind = AUTH_HMAC,
		.name = STR("x-signature"),
		.prefix = STR("{key_id}:"),
		.key_id = STR("me"),
		.message = STR("{method}\n{host}{path}?{query}\n{timestamp}\n{body}"),
		.timestamp = STR("x-time"),
	};
	struct request r;

	(void)state;
	request_init(&r, &c, "/a?b=c");
	r.job.parts[AUTH_PART_SECRET] = STR("key");
	r.head.body = BODY_CHUNKED;
	add(&r, "X_Signature", "mine");
	add(&r, "X-Time", "0");
	assert_int_equal(auth_body(&r.job), AUTH_BODY_WHOLE);
	r.job.body = STR("payload");
	assert_int_equal(run(&r), ST_OK);
	assert_int_equal(r.head.fields_len, 0);
	is_last(&r, 0, "x-time", "1440938160");
	is_last(&r, 1, "x-signature",
		"me:"
		"6d3094ca467bdf39bc26f04bc0c419b1228694cbfc84dfd953c4af83edd8a174");
	request_done(&r);
}

static void
an_hmac_of_the_body_alone_is_rfc_2104s(void **state)
{
	const struct auth_conf c = { .kind = AUTH_HMAC,
				     .name = STR("x-hub-signature-256"),
				     .prefix = STR("sha256=") };
	struct request r;

	(void)state;
	/* RFC 4231 section 4.3. */
	request_init(&r, &c, "/");
	r.job.parts[AUTH_PART_SECRET] = STR("Jefe");
	r.head.body = BODY_CHUNKED;
	r.job.body = STR("what do ya want for nothing?");
	assert_int_equal(run(&r), ST_OK);
	is_last(&r, 0, "x-hub-signature-256",
		"sha256="
		"5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	request_done(&r);
}

static void
mtls_and_passthrough_touch_nothing(void **state)
{
	static const enum auth_kind kinds[] = { AUTH_MTLS, AUTH_PASSTHROUGH };

	(void)state;
	for (size_t i = 0; i < COUNT_OF(kinds); i++) {
		const struct auth_conf c = { .kind = kinds[i] };
		struct request r;
		request_init(&r, &c, "/a?key=mine");
		add(&r, "Authorization", "Bearer mine");
		assert_int_equal(run(&r), ST_OK);
		assert_int_equal(r.head.fields_len, 1);
		assert_int_equal(r.job.last_n, 0);
		assert_true(str_eq(r.uri.query, STR("key=mine")));
		request_done(&r);
	}
}

static void
what_a_kind_leases_is_what_it_names(void **state)
{
	struct auth_conf c = { .kind = AUTH_OAUTH2_REFRESH };

	(void)state;
	c.vault[AUTH_PART_SECRET] = STR("a/b");
	assert_int_equal(auth_needs(&c), 1 << AUTH_PART_SECRET);
	c.vault[AUTH_PART_CLIENT_SECRET] = STR("a/c");
	c.vault[AUTH_PART_CERTIFICATE] = STR("a/d");
	assert_int_equal(auth_needs(&c),
			 1 << AUTH_PART_SECRET | 1 << AUTH_PART_CLIENT_SECRET);
	assert_int_equal(auth_reads(&c), 0);
	assert_true(auth_has_exchange(&c));
	c.kind = AUTH_PASSTHROUGH;
	assert_int_equal(auth_needs(&c), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bearer_replaces_every_spelling_of_the_clients_own),
		cmocka_unit_test(a_prefix_or_a_user_changes_how_a_bearer_is_shown),
		cmocka_unit_test(basic_takes_a_user_or_a_secret_that_holds_one),
		cmocka_unit_test(
			a_header_of_its_own_name_is_bare_and_replaces_what_folds_to_it),
		cmocka_unit_test(a_secret_that_could_end_a_field_is_never_written),
		cmocka_unit_test(a_query_key_is_replaced_however_it_is_spelled),
		cmocka_unit_test(a_query_key_is_added_where_there_was_no_query),
		cmocka_unit_test(a_path_segment_is_replaced_behind_its_prefix),
		cmocka_unit_test(a_secret_can_not_climb_out_of_its_segment),
		cmocka_unit_test(a_form_field_is_replaced_in_the_body),
		cmocka_unit_test(what_is_no_form_has_no_slot_for_one),
		cmocka_unit_test(s3_is_signed_without_reading_the_body),
		cmocka_unit_test(other_services_sign_the_body_itself),
		cmocka_unit_test(other_forms_of_aws_signatures_are_refused_by_name),
		cmocka_unit_test(unsigned_chunks_of_s3_go_on_as_they_are),
		cmocka_unit_test(an_hmac_covers_what_its_message_names),
		cmocka_unit_test(an_hmac_of_the_body_alone_is_rfc_2104s),
		cmocka_unit_test(mtls_and_passthrough_touch_nothing),
		cmocka_unit_test(what_a_kind_leases_is_what_it_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

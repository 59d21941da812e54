/* Kinds of credentials that sign the request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "auth_bench.h"

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(s3_is_signed_without_reading_the_body),
		cmocka_unit_test(other_services_sign_the_body_itself),
		cmocka_unit_test(other_forms_of_aws_signatures_are_refused_by_name),
		cmocka_unit_test(unsigned_chunks_of_s3_go_on_as_they_are),
		cmocka_unit_test(an_hmac_covers_what_its_message_names),
		cmocka_unit_test(an_hmac_of_the_body_alone_is_rfc_2104s),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

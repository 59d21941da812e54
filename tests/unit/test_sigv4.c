/* Signature Version 4 against the examples that AWS publishes with its test suite: one
 * key, one day, service "service" in us-east-1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "connectors/sigv4.h"

static const struct sigv4_keys keys = { { "AKIDEXAMPLE", 11 },
					{ "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
					  40 },
					{ "", 0 } };
/* 2015-08-30T12:36:00Z */
static const struct sigv4_scope scope = { { "us-east-1", 9 },
					  { "service", 7 },
					  1440938160 };
static const char empty_hash[] =
	"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#define F(name, value)                                                                 \
	{                                                                              \
		{ name, sizeof name - 1 }, { value, sizeof value - 1 }, TOKEN_NONE     \
	}
#define HOST F("Host", "example.amazonaws.com")
#define DATE F("X-Amz-Date", "20150830T123600Z")

struct vector {
	const char *name, *method, *path, *query, *signed_names, *signature;
	struct field fields[6];
};

static const struct vector vectors[] = {
	{ "get-vanilla",
	  "GET",
	  "/",
	  "",
	  "host;x-amz-date",
	  "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
	  { HOST, DATE } },
	{ "get-vanilla-query-order-key-case",
	  "GET",
	  "/",
	  "Param2=value2&Param1=value1",
	  "host;x-amz-date",
	  "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
	  { HOST, DATE } },
	{ "get-vanilla-query-order-value",
	  "GET",
	  "/",
	  "Param1=value2&Param1=value1",
	  "host;x-amz-date",
	  "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694",
	  { HOST, DATE } },
	{ "get-vanilla-empty-query-key",
	  "GET",
	  "/",
	  "Param1=value1",
	  "host;x-amz-date",
	  "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
	  { HOST, DATE } },
	{ "get-unreserved",
	  "GET",
	  "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
	  "",
	  "host;x-amz-date",
	  "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
	  { HOST, DATE } },
	{ "get-utf8",
	  "GET",
	  "/\xe1\x88\xb4",
	  "",
	  "host;x-amz-date",
	  "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
	  { HOST, DATE } },
	{ "get-header-key-duplicate",
	  "GET",
	  "/",
	  "",
	  "host;my-header1;x-amz-date",
	  "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
	  { HOST, F("My-Header1", "value2"), F("My-Header1", "value2"),
	    F("My-Header1", "value1"), DATE } },
	{ "get-header-value-order",
	  "GET",
	  "/",
	  "",
	  "host;my-header1;x-amz-date",
	  "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
	  { HOST, F("My-Header1", "value4"), F("My-Header1", "value1"),
	    F("My-Header1", "value3"), F("My-Header1", "value2"), DATE } },
	{ "get-header-value-trim",
	  "GET",
	  "/",
	  "",
	  "host;my-header1;my-header2;x-amz-date",
	  "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
	  { HOST, F("My-Header1", " value1"), F("My-Header2", " \"a   b   c\""),
	    DATE } },
	{ "post-vanilla",
	  "POST",
	  "/",
	  "",
	  "host;x-amz-date",
	  "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
	  { HOST, DATE } },
	{ "post-vanilla-query",
	  "POST",
	  "/",
	  "Param1=value1",
	  "host;x-amz-date",
	  "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
	  { HOST, DATE } },
	{ "post-header-key-sort",
	  "POST",
	  "/",
	  "",
	  "host;my-header1;x-amz-date",
	  "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
	  { HOST, F("My-Header1", "value1"), DATE } },
	{ "get-relative",
	  "GET",
	  "/example/..",
	  "",
	  "host;x-amz-date",
	  "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
	  { HOST, DATE } },
	{ "get-slashes",
	  "GET",
	  "//example//",
	  "",
	  "host;x-amz-date",
	  "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
	  { HOST, DATE } },
	{ "get-slash-pointless-dot",
	  "GET",
	  "/./example",
	  "",
	  "host;x-amz-date",
	  "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5",
	  { HOST, DATE } },
	{ "get-space",
	  "GET",
	  "/example space/",
	  "",
	  "host;x-amz-date",
	  "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
	  { HOST, DATE } },
};

static struct canon
canon_of(const struct vector *v)
{
	struct canon c = { .method = str_from(v->method),
			   .path = str_from(v->path),
			   .query = str_from(v->query),
			   .fields = v->fields,
			   .payload = str_from(empty_hash) };

	while (c.fields_n < COUNT_OF(v->fields) && v->fields[c.fields_n].name.n > 0)
		c.fields_n++;
	return c;
}

static void
published_requests_have_their_published_signatures(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(vectors); i++) {
		CLEANUP(cred_done) struct cred out = { 0 };
		char want[512];
		struct canon c = canon_of(&vectors[i]);
		struct str got;

		cred_init(&out, 1024);
		assert_int_equal(sigv4_put_authorization(&out, &c, &scope, &keys),
				 ST_OK);
		assert_int_equal(cred_finish(&out, &got), ST_OK);
		(void)snprintf(want, sizeof want,
			       "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/"
			       "us-east-1/service/aws4_request, SignedHeaders=%s, "
			       "Signature=%s",
			       vectors[i].signed_names, vectors[i].signature);
		if (!str_eq(got, str_from(want)))
			print_error("%s: %.*s\n", vectors[i].name, STR_ARG(got));
		assert_true(str_eq(got, str_from(want)));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_requests_have_their_published_signatures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Kinds of credentials: what leaves a request, what comes in, and where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "auth_bench.h"

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
		cmocka_unit_test(mtls_and_passthrough_touch_nothing),
		cmocka_unit_test(what_a_kind_leases_is_what_it_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/http/head.h"

static void
add(struct head *h, const char *name, const char *value)
{
	assert_int_equal(head_add(h, str_from(name), str_from(value)), ST_OK);
}

static void
known_names_are_found_in_any_case(void **state)
{
	(void)state;
	assert_int_equal(token_of(STR("cOnTent-LengtH")), TOKEN_CONTENT_LENGTH);
	assert_int_equal(token_of(STR("content_length")), TOKEN_NONE);
	assert_int_equal(token_folded(STR("Content_Length")), TOKEN_CONTENT_LENGTH);
	assert_int_equal(token_folded(STR("x.api.key")), TOKEN_X_API_KEY);
	assert_int_equal(token_of(STR("")), TOKEN_NONE);
	assert_string_equal(token_name(TOKEN_TE), "te");
	for (unsigned t = 1; t < TOKEN_COUNT; t++)
		assert_int_equal(token_of(str_from(token_name((enum token)t))), t);
}

static void
methods_are_case_sensitive(void **state)
{
	(void)state;
	assert_int_equal(method_of(STR("CONNECT")), METHOD_CONNECT);
	assert_int_equal(method_of(STR("connect")), METHOD_OTHER);
	assert_int_equal(method_of(STR("")), METHOD_OTHER);
}

static void
fields_keep_their_order_and_repeat(void **state)
{
	struct arena a;
	struct head h;

	(void)state;
	arena_init(&a, 1 << 20);
	head_init(&h, &a);
	for (int i = 0; i < 100; i++)
		add(&h, i % 2 ? "Set-Cookie" : "X-A", "v");
	assert_int_equal(h.fields_len, 100);
	assert_int_equal(head_count(&h, TOKEN_SET_COOKIE), 50);
	head_remove(&h, TOKEN_SET_COOKIE);
	assert_int_equal(h.fields_len, 50);
	assert_int_equal(head_set(&h, STR("x-a"), STR("one")), ST_OK);
	assert_int_equal(h.fields_len, 1);
	assert_non_null(head_find(&h, STR("X-a")));
	assert_null(head_get(&h, TOKEN_HOST));
	arena_done(&a);
}

static void
a_full_arena_is_a_status(void **state)
{
	struct arena a;
	struct head h;

	(void)state;
	arena_init(&a, 64);
	head_init(&h, &a);
	assert_int_equal(head_add(&h, STR("a"), STR("b")), ST_NOMEM);
	arena_done(&a);
}

static void
connection_nominates_but_not_what_matters(void **state)
{
	static const struct {
		const char *name;
		bool passes, passes_as_trailer;
	} rows[] = {
		{ "Accept", true, true },         { "X-Secret-Hop", false, false },
		{ "Authorization", true, false }, { "X-Forwarded-For", true, false },
		{ "Host", false, false },         { "Content-Length", false, false },
		{ "Keep-Alive", false, false },   { "Proxy-Foo", false, false },
		{ "Proxy_Foo", false, false },    { "Grpc-Status", true, true },
		{ "Content-Type", true, false },  { "Transfer-Encoding", false, false },
		{ "Connection", false, false },   { "HTTP2-Settings", false, false },
	};
	struct arena a;
	struct head h;

	(void)state;
	arena_init(&a, 1 << 16);
	head_init(&h, &a);
	add(&h, "Connection", "close, x-secret-hop ,Authorization");
	add(&h, "Connection", "host,x-forwarded-for");
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct str name = str_from(rows[i].name);
		struct field f = { name, STR("v"), token_of(name) };
		if (head_field_passes(&h, &f) != rows[i].passes ||
		    head_trailer_passes(&h, &f) != rows[i].passes_as_trailer)
			fail_msg("%s", rows[i].name);
	}
	assert_true(head_lists(&h, TOKEN_CONNECTION, STR("CLOSE")));
	assert_false(head_lists(&h, TOKEN_CONNECTION, STR("clos")));
	arena_done(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_names_are_found_in_any_case),
		cmocka_unit_test(methods_are_case_sensitive),
		cmocka_unit_test(fields_keep_their_order_and_repeat),
		cmocka_unit_test(a_full_arena_is_a_status),
		cmocka_unit_test(connection_nominates_but_not_what_matters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

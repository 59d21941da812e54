/* What must not pass does not pass in another spelling either. */
#include "make_image.h"

#include "conf/policy.h"
#include "proxy/http/head.h"

static const char text[] =
	"policies:\n"
	"  p:\n"
	"    allow:\n"
	"      - {hosts: [open.test.example], paths: ['/**']}\n"
	"      - {hosts: [read.test.example], methods: [GET, POST]}\n"
	"      - {hosts: [keys.test.example], query: [page, q]}\n"
	"    deny:\n"
	"      - {hosts: [open.test.example], paths: ['/admin/**', '/a/*/keys', "
	"'/one']}\n"
	"      - {hosts: [open.test.example], methods: [DELETE]}\n"
	"      - {hosts: [open.test.example], query: [debug]}\n";

static enum status
ask(const struct image *im, const char *host, struct policy_question *q)
{
	struct dest d;
	struct policy_answer a;

	assert_int_equal(dest_from_host(str_from(host), 443, &d), ST_OK);
	q->may.policy = image_policy_by_name(im, STR("p"));
	q->dest = &d;
	q->way = WAY_HTTP;
	q->is_tls = true;
	policy_judge(im, q, &a);
	return a.reason;
}

static void
a_denied_path_is_so_however_a_server_may_read_it(void **state)
{
	static const struct {
		const char *path;
		bool passes;
	} rows[] = {
		{ "/admin/x", false },
		{ "/ADMIN/x", false },
		{ "//admin/x", false },
		{ "/admin//x", false },
		{ "/admin", false },
		{ "/admin/", false },
		{ "/admin;v=1/x", false },
		{ "/admin;/x", false },
		{ "/;/admin/x", false },
		{ "/admin%3bv/x", false },
		{ "/admin%2fx", false },
		{ "/%2fadmin/x", false },
		{ "/a/7/keys", false },
		{ "/a/7/keys/", false },
		{ "/a/7/Keys;x", false },
		{ "/a//7/keys", false },
		{ "/one", false },
		{ "/one/", false },
		{ "/One", false },
		{ "/one/two", true },
		{ "/administer", true },
		{ "/x/admin", true },
		{ "/x%2fadmin", true },
		{ "/a/keys", true },
		{ "/", true },
		{ "//", true },
	};
	struct image *im = make_image(text);

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct policy_question q = { .method = STR("GET"),
					     .path = str_from(rows[i].path) };
		enum status st = ask(im, "open.test.example", &q);
		if (st != (rows[i].passes ? ST_OK : ST_DENIED_RULE))
			fail_msg("%s: %s", rows[i].path, status_code(st));
	}
	image_close(im);
}

static void
keys_and_methods_are_too(void **state)
{
	static const struct {
		const char *host, *method, *query;
		enum status st;
	} rows[] = {
		{ "open", "GET", "debug", ST_DENIED_RULE },
		{ "open", "GET", "x=1&Debug=1", ST_DENIED_RULE },
		{ "open", "GET", "x=1;debug=1", ST_DENIED_RULE },
		{ "open", "GET", "debug%5b%5d=1", ST_DENIED_RULE },
		{ "open", "GET", "+d%65bug=1", ST_DENIED_RULE },
		{ "open", "GET", "debug%00x=1", ST_DENIED_RULE },
		{ "open", "GET", "debugger=1", ST_OK },
		{ "open", "GET", "x=debug", ST_OK },
		{ "open", "delete", "", ST_DENIED_RULE },
		{ "keys", "GET", "page=1&q=2", ST_OK },
		{ "keys", "GET", "page=1;debug=2", ST_DENIED_QUERY },
		{ "keys", "GET", "Page=1", ST_DENIED_QUERY },
		{ "read", "get", "", ST_DENIED_METHOD },
		{ "read", "POST", "_method=GET", ST_OK },
		{ "read", "POST", "_method=DELETE", ST_DENIED_METHOD },
		{ "read", "POST", "a=1;_method=DELETE", ST_DENIED_METHOD },
		{ "read", "POST", "%5fmethod=%44ELETE", ST_DENIED_METHOD },
		{ "open", "POST", "_method=DELETE", ST_DENIED_RULE },
		{ "open", "POST", "_method=PUT", ST_OK },
	};
	struct image *im = make_image(text);

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct policy_question q = { .method = str_from(rows[i].method),
					     .path = STR("/"),
					     .query = str_from(rows[i].query) };
		char host[64];
		(void)snprintf(host, sizeof host, "%s.test.example", rows[i].host);
		enum status st = ask(im, host, &q);
		if (st != rows[i].st)
			fail_msg("%s %s?%s: %s", rows[i].method, host, rows[i].query,
				 status_code(st));
	}
	image_close(im);
}

static void
a_method_that_a_field_asks_for_must_be_allowed_too(void **state)
{
	static const struct {
		const char *name, *value;
		enum status st;
	} rows[] = {
		{ "X-HTTP-Method-Override", "DELETE", ST_DENIED_METHOD },
		{ "x_http_method_override", "PUT", ST_DENIED_METHOD },
		{ "X-HTTP-Method", "delete", ST_DENIED_METHOD },
		{ "X-Method-Override", "PATCH", ST_DENIED_METHOD },
		{ "X-HTTP-Method-Override", "GET", ST_OK },
		{ "X-HTTP-Method-Overrides", "DELETE", ST_OK },
	};
	struct image *im = make_image(text);

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct policy_question q = { .method = STR("POST"), .path = STR("/") };
		struct arena a;
		struct head h;

		arena_init(&a, 1 << 16);
		head_init(&h, &a);
		assert_int_equal(
			head_add(&h, str_from(rows[i].name), str_from(rows[i].value)),
			ST_OK);
		q.head = &h;
		if (ask(im, "read.test.example", &q) != rows[i].st)
			fail_msg("%s: %s", rows[i].name, rows[i].value);
		arena_done(&a);
	}
	image_close(im);
}

static void
methods_that_a_request_asks_for_have_a_limit(void **state)
{
	struct image *im = make_image(text);
	struct buf b;

	(void)state;
	buf_init(&b, 4096);
	for (size_t n = 1; n <= 17; n++) {
		struct policy_question q = { .method = STR("POST"), .path = STR("/") };
		buf_put(&b, STR("&_method=PUT"));
		q.query = str_of(b.p, b.len);
		assert_int_equal(ask(im, "open.test.example", &q),
				 n <= 16 ? ST_OK : ST_DENIED_METHOD);
	}
	buf_done(&b);
	image_close(im);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_denied_path_is_so_however_a_server_may_read_it),
		cmocka_unit_test(keys_and_methods_are_too),
		cmocka_unit_test(a_method_that_a_field_asks_for_must_be_allowed_too),
		cmocka_unit_test(methods_that_a_request_asks_for_have_a_limit),
	};

	return cmocka_run_group_tests_name("policy_spelling", tests, NULL, NULL);
}

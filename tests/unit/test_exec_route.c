#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/base/buf.h"
#include "proxy/http/exec_route.h"
#include "tests/unit/exec_rows.h"

enum { TARGET_MAX = 1024 };

static enum status
ask(const char *method, const char *target, struct exec_route *r)
{
	return exec_route_read(method_of(str_from(method)), str_from(target), r);
}

static void
expect(const char *method, const char *target, enum status want)
{
	struct exec_route r;

	enum status got = ask(method, target, &r);
	if (got != want)
		fail_msg("%s %s: %s%s%s, not %s", method, target, status_code(got),
			 got == ST_OK ? " " : "",
			 got == ST_OK ? exec_op_name(r.op) : "", status_code(want));
}

static void
expect_str(const char *target, struct str got, const char *want)
{
	if (!str_eq(got, str_from(want)))
		fail_msg("%s: \"%.*s\", not \"%s\"", target, STR_ARG(got), want);
}

static struct exec_route
found(const char *method, const char *target)
{
	struct exec_route r = { 0 };

	expect(method, target, ST_OK);
	(void)ask(method, target, &r);
	return r;
}

static struct exec_route
expect_row(const struct exec_row *row, const char *before, const char *after)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	static char text[TARGET_MAX]; /* what the views of the result lie in */

	buf_init(&b, sizeof text);
	buf_putf(&b, "%s%s%s", before, row->path, after);
	assert_int_equal(b.st, ST_OK);
	memcpy(text, buf_cstr(&b), b.len + 1);
	struct exec_route r = found(row->method, text);
	if (strcmp(exec_op_name(r.op), row->op) != 0 ||
	    strcmp(exec_class_name(r.class), row->class) != 0)
		fail_msg("%s %s: %s of %s", row->method, text, exec_op_name(r.op),
			 exec_class_name(r.class));
	assert_int_equal(r.body, row->body);
	assert_int_equal(r.answer, row->answer);
	return r;
}

static void
each_route_of_the_server_is_known_with_and_without_v1(void **state)
{
	static const char *const ends[] = { "", "/", "?a=/sandboxes", "/?" };

	(void)state;
	for (size_t i = 0; i < COUNT_OF(exec_server); i++) {
		for (size_t k = 0; k < COUNT_OF(ends); k++) {
			struct exec_route r = expect_row(&exec_server[i], "", ends[k]);
			assert_false(r.is_v1);
			assert_int_equal(r.part, EXEC_PART_SERVER);
			expect_str(exec_server[i].path, r.rest, exec_server[i].path);
			r = expect_row(&exec_server[i], "/v1", ends[k]);
			assert_true(r.is_v1);
			bool has_box = strstr(exec_server[i].path, "sb-1") != NULL;
			expect_str(exec_server[i].path, r.sandbox,
				   has_box ? "sb-1" : "");
		}
	}
}

/* The ways to a port: by the server's proxy, and from there by execd's. */
static const char *const ways[] = {
	"/sandboxes/sb-1/proxy/%d",
	"/v1/sandboxes/sb-1/proxy/%d",
	"/sandboxes/sb-1/proxy/44772/proxy/%d",
	"/v1/sandboxes/sb-1/proxy/44772/v1/proxy/%d",
	"/sandboxes/sb-1/proxy/44772/proxy/44772/proxy/44772/proxy/%d",
};

static const char *
way(size_t i, int port)
{
	static char text[128];
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str before = str_from(ways[i]);

	buf_init(&b, sizeof text);
	buf_put(&b, str_head(before, before.n - 2));
	buf_putf(&b, "%d", port);
	memcpy(text, buf_cstr(&b), b.len + 1);
	return text;
}

static void
expect_part(const struct exec_row *row, const char *before, int port,
	    enum exec_part part)
{
	for (size_t i = 0; i < COUNT_OF(ways); i++) {
		CLEANUP(buf_done) struct buf full = { 0 };
		buf_init(&full, 256);
		buf_putf(&full, "%s%s", way(i, port), before);
		struct exec_route r = expect_row(row, buf_cstr(&full), "/?x=y");
		assert_int_equal(r.part, part);
		assert_int_equal(r.port, port);
		assert_int_equal(r.is_v1, str_starts(str_from(ways[i]), STR("/v1/")));
		expect_str(row->path, r.sandbox, "sb-1");
		expect_str(row->path, str_head(r.rest, strlen(before)), before);
		expect_str(row->path, str_skip(r.rest, strlen(before)), row->path);
		expect_str(row->path, r.query, "x=y");
	}
}

static void
each_route_of_execd_is_the_same_by_every_way(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(exec_execd); i++)
		expect_part(&exec_execd[i], "", 44772, EXEC_PART_EXECD);
	for (size_t i = 0; i < COUNT_OF(exec_files); i++) {
		expect_part(&exec_files[i], "", 44772, EXEC_PART_EXECD);
		expect_part(&exec_files[i], "/v1", 44772, EXEC_PART_EXECD);
		expect_part(&exec_files[i], "/v1/filesystem/1000/0", 44772,
			    EXEC_PART_EXECD);
		expect_part(&exec_files[i], "/v1/isolated/session/i-1", 44772,
			    EXEC_PART_EXECD);
	}
}

static void
each_route_of_the_egress_api_is_the_same_by_every_way(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(exec_egress); i++)
		expect_part(&exec_egress[i], "", 18080, EXEC_PART_EGRESS);
}

static void
a_route_names_what_it_is_about(void **state)
{
	struct exec_route r = found("GET", "/v1/snapshots/sn-1");

	(void)state;
	expect_str("snapshot", r.id, "sn-1");
	expect_str("snapshot", r.sandbox, "");
	r = found("PUT", "/pools/py_3.11");
	expect_str("pool", r.id, "py_3.11");
	r = found("GET", "/sandboxes/a/proxy/44772/v1/isolated/session/s/runs/r/logs");
	expect_str("run", r.id, "s");
	expect_str("run", r.run, "r");
	r = found("GET", "/sandboxes/a/proxy/44772/v1/filesystem/1000/4294967295/files/"
			 "download?path=%2Fetc%2Fpasswd");
	expect_str("uid", r.uid, "1000");
	expect_str("gid", r.gid, "4294967295");
	expect_str("query", r.query, "path=%2Fetc%2Fpasswd");
	r = found("GET", "http://gate.test:8090/v1/sandboxes/a/endpoints/44772");
	assert_int_equal(r.port, 44772);
	assert_int_equal(r.part, EXEC_PART_SERVER);
	expect_str("absolute", r.sandbox, "a");
	assert_false(r.has_query);
}

static void
an_application_gets_its_path_byte_by_byte(void **state)
{
	static const char *const rests[] = { "",
					     "/",
					     "/a//b;c=%2fd/",
					     "//",
					     "/proxy/44772/command",
					     "/V1/Command",
					     "/%E2%82%AC/%2F?a",
					     "/...?%" };

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rests); i++) {
		for (size_t k = 0; k < COUNT_OF(ways); k++) {
			struct exec_row row = { "PROPFIND",    rests[i],
						"app",         "app",
						EXEC_BODY_ANY, EXEC_ANSWER_BYTES };
			struct exec_route r = expect_row(&row, way(k, 8080), "");
			struct str query = str_from(rests[i]);
			struct str rest = str_cut(&query, '?');
			assert_int_equal(r.part, EXEC_PART_APP);
			assert_int_equal(r.port, 8080);
			assert_true(str_eq(r.rest, rest));
			assert_true(str_eq(r.query, query));
			assert_int_equal(r.has_query, query.p != NULL);
		}
	}
}

static void
what_execd_has_beyond_the_table_is_still_classed(void **state)
{
	static const struct exec_row rows[] = {
		{ "GET", "", "execd.other", "command", 0, 0 },
		{ "GET", "/", "execd.other", "command", 0, 0 },
		{ "POST", "/v2/run", "execd.other", "command", 0, 0 },
		{ "PUT", "/command", "execd.other", "command", 0, 0 },
		{ "HEAD", "/ping", "execd.other", "command", 0, 0 },
		{ "POST", "/session/s/run/again", "execd.other", "command", 0, 0 },
		{ "GET", "/isolated/session/s/files/new", "execd.other", "command", 0,
		  0 },
		{ "POST", "/code/new", "execd.other", "code", 0, 0 },
		{ "POST", "/files/new", "execd.other", "file", 0, 0 },
		{ "PUT", "/directories", "execd.other", "file", 0, 0 },
		{ "POST", "/v1/filesystem/0/0/files/new", "execd.other", "file", 0, 0 },
		{ "GET", "/pty/t/x/y/", "execd.other", "pty", 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct exec_row row = rows[i];
		row.body = EXEC_BODY_STREAM;
		row.answer = EXEC_ANSWER_BYTES;
		struct exec_route r =
			expect_row(&row, "/sandboxes/sb-1/proxy/44772", "");
		expect_str(row.path, r.rest, row.path);
	}
	struct exec_route r =
		found("GET", "/sandboxes/a/proxy/18080/credential-vault/_active");
	assert_int_equal(r.op, EXEC_OP_EGRESS_OTHER);
	assert_int_equal(r.class, EXEC_CLASS_EGRESS);
}

static void
other_spellings_of_what_routes_are_refused(void **state)
{
	static const char *const rows[] = {
		"//sandboxes/a/proxy/44772/command",
		"/sandboxes//a/proxy/44772/command",
		"/sandboxes/a/proxy/44772//command",
		"/sandboxes/a/proxy/44772/command//",
		"/sandboxes/a/proxy/44772/./command",
		"/sandboxes/a/proxy/44772/x/../command",
		"/sandboxes/a/proxy/44772/%2e/command",
		"/sandboxes/a/proxy/44772/comm%61nd",
		"/sandboxes/a/proxy/44772/Command",
		"/sandboxes/a/proxy/44772/COMMAND/status/x",
		"/sandboxes/a/proxy/44772/V1/command",
		"/sandboxes/a/Proxy/44772/command",
		"/V1/sandboxes/a/proxy/44772/command",
		"/sandboxes/a/proxy/44772/command;x=1",
		"/sandboxes/a/proxy/44772/;/command",
		"/sandboxes/a/proxy;x/44772/command",
		"/sandboxes/a/proxy/44772/proxy%2f18080/policy",
		"/sandboxes/a/proxy/44772/session/s%2frun",
		"/sandboxes/a%2Fproxy%2F44772%2Fcommand",
		"/sandboxes/a/proxy/44772/command%2f",
		"/sandboxes/a/proxy/44772/command%20",
		"/sandboxes/a/proxy/44772/command%00",
		"/sandboxes/a/proxy/44772/command%252f",
		"/sandboxes/a/proxy/44772\\command",
		"/sandboxes/a/proxy/44772/command%5c",
		"/sandboxes/a/proxy/18080/credential%2Dvault",
		"/sandboxes/a/renew%2dexpiration",
		"/sandboxes/a/proxy/44772/v1%2fisolated/session",
		"/sandboxes/a/proxy/44772/v1/filesystem/00/0/files",
		"/sandboxes/a/proxy/44772/v1/filesystem/root/0/files",
		"/sandboxes/a/proxy/44772/v1/filesystem/4294967296/0/files",
		"/sandboxes/a/proxy/44772/PROXY/18080/policy",
		"/sandboxes/a/proxy/44772/[x]",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect("POST", rows[i], ST_BAD_PATH);
	expect("POST", "/sandboxes/a/proxy/44772/command#x", ST_BAD_TARGET);
	expect("POST", "/sandboxes/a/proxy/44772/com mand", ST_BAD_TARGET);
	expect("OPTIONS", "*", ST_BAD_TARGET);
	struct exec_route r;
	assert_int_equal(exec_route_read(METHOD_GET, STR("/sandboxes/a\0/b"), &r),
			 ST_BAD_TARGET);
}

static void
a_port_is_digits_without_leading_zero(void **state)
{
	static const char *const ports[] = { "",
					     "0",
					     "044772",
					     "+44772",
					     "-1",
					     "65536",
					     "4_4772",
					     "44772:80",
					     "44772%20",
					     "http",
					     "0xaee4",
					     "44772;x",
					     "44772%2Fcommand",
					     "44772.0",
					     "%344772",
					     "99999999999999999999" };

	(void)state;
	for (size_t i = 0; i < COUNT_OF(ports); i++) {
		for (size_t k = 0; k < COUNT_OF(ways); k++) {
			CLEANUP(buf_done) struct buf b = { 0 };
			struct str before = str_from(ways[k]);
			buf_init(&b, 256);
			buf_put(&b, str_head(before, before.n - 2));
			buf_putf(&b, "%s/command", ports[i]);
			expect("POST", buf_cstr(&b),
			       strstr(ports[i], "%3") != NULL ? ST_BAD_PATH
							      : ST_BAD_PORT);
		}
	}
	expect("GET", "/sandboxes/a/endpoints/080", ST_BAD_PORT);
	expect("GET", "/sandboxes/a/proxy", ST_BAD_PORT);
	expect("GET", "/sandboxes/a/proxy/44772/proxy", ST_BAD_PORT);
}

static void
hops_are_counted(void **state)
{
	struct exec_route r = { .port = 7 };

	(void)state;
	expect("POST",
	       "/sandboxes/a/proxy/44772/proxy/44772/proxy/44772/proxy/44772/command",
	       ST_OK);
	expect("POST",
	       "/sandboxes/a/proxy/44772/proxy/44772/proxy/44772/proxy/44772/proxy/"
	       "44772/"
	       "command",
	       ST_BAD_PATH);
	assert_int_equal(ask("GET", "/sandboxes/a/proxy/x", &r), ST_BAD_PORT);
	assert_int_equal(r.port, 7);
}

static void
what_the_server_does_not_have_is_told(void **state)
{
	(void)state;
	expect("GET", "/", ST_NOT_FOUND);
	expect("GET", "/v1", ST_NOT_FOUND);
	expect("GET", "/v1/v1/sandboxes", ST_NOT_FOUND);
	expect("GET", "/docs", ST_NOT_FOUND);
	expect("POST", "/command", ST_NOT_FOUND);
	expect("GET", "/sandboxes/a/diagnostics", ST_NOT_FOUND);
	expect("GET", "/sandboxes/a:b", ST_NOT_FOUND);
	expect("GET", "/sandboxes/a/pause", ST_METHOD_REFUSED);
	expect("HEAD", "/health", ST_METHOD_REFUSED);
	expect("PURGE", "/sandboxes", ST_METHOD_REFUSED);
	expect("get", "/sandboxes", ST_METHOD_REFUSED);
	expect("CONNECT", "gate.test:80", ST_METHOD_REFUSED);
	expect("TRACE", "/sandboxes/a/proxy/8080/", ST_METHOD_REFUSED);
	expect("track", "/sandboxes/a/proxy/8080/", ST_METHOD_REFUSED);
}

static void
a_name_has_a_length(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	buf_init(&b, TARGET_MAX);
	buf_put(&b, STR("/snapshots/"));
	for (size_t i = 0; i < EXEC_SEGMENT_MAX; i++)
		buf_putc(&b, 's');
	expect("GET", buf_cstr(&b), ST_OK);
	buf_putc(&b, 's');
	expect("GET", buf_cstr(&b), ST_BAD_PATH);
	buf_clear(&b);
	buf_put(&b, STR("/sandboxes/"));
	for (size_t i = 0; i < STR_NAME_MAX; i++)
		buf_putc(&b, 's');
	expect("GET", buf_cstr(&b), ST_OK);
	buf_putc(&b, 's');
	expect("GET", buf_cstr(&b), ST_NOT_FOUND);
}

static void
the_query_of_an_endpoint_is_read(void **state)
{
	struct exec_route r = found("GET", "/sandboxes/a/endpoints/80");

	(void)state;
	assert_false(r.use_server_proxy);
	assert_null(r.expires.p);
	r = found("GET", "/sandboxes/a/endpoints/80?use_server_proxy=True&x");
	assert_true(r.use_server_proxy);
	r = found("GET", "/sandboxes/a/endpoints/80?use%5Fserver%5fproxy=%59es");
	assert_true(r.use_server_proxy);
	r = found("GET",
		  "/sandboxes/a/endpoints/80?use_server_proxy=0&&expires=1800000000");
	assert_false(r.use_server_proxy);
	expect_str("expires", r.expires, "1800000000");
	expect("GET", "/sandboxes/a/endpoints/80?use_server_proxy", ST_BAD_TARGET);
	expect("GET", "/sandboxes/a/endpoints/80?use_server_proxy=2", ST_BAD_TARGET);
	expect("GET", "/sandboxes/a/endpoints/80?expires=", ST_BAD_TARGET);
	expect("GET", "/sandboxes/a/endpoints/80?expires=1&expires=2", ST_BAD_TARGET);
	expect("GET",
	       "/sandboxes/a/endpoints/80?use_server_proxy=1&use_server%5fproxy=0",
	       ST_BAD_TARGET);
}

static void
each_operation_has_a_name_of_its_own(void **state)
{
	(void)state;
	for (int i = 0; i < EXEC_OP_COUNT; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(exec_op_name((enum exec_op)i),
						exec_op_name((enum exec_op)k));
	for (int i = 0; i < EXEC_CLASS_COUNT; i++)
		assert_true(strlen(exec_class_name((enum exec_class)i)) > 0);
	/* What the tables of this test don't name are the three for everything else. */
	assert_int_equal(EXEC_OP_COUNT, COUNT_OF(exec_server) + COUNT_OF(exec_execd) +
						COUNT_OF(exec_files) +
						COUNT_OF(exec_egress) - 1 + 3);
}

/* Where one sandbox's egress API is all that there is. */
static void
a_listener_of_one_sandbox_has_its_egress_api_and_nothing_else(void **state)
{
	static const struct {
		const char *method, *target;
		enum status st;
		enum exec_op op;
	} cases[] = {
		{ "GET", "/healthz", ST_OK, EXEC_OP_HEALTHZ },
		{ "PUT", "/policy", ST_OK, EXEC_OP_POLICY_SET },
		{ "DELETE", "/policy/", ST_OK, EXEC_OP_POLICY_DELETE },
		{ "GET", "/credential-vault/credentials/a", ST_OK,
		  EXEC_OP_CREDENTIAL_GET },
		{ "GET", "/v1/sandboxes", ST_OK, EXEC_OP_EGRESS_OTHER },
		{ "GET", "/sandboxes/b/proxy/18080/policy", ST_OK,
		  EXEC_OP_EGRESS_OTHER },
		{ "GET", "/proxy/44772/command", ST_OK, EXEC_OP_EGRESS_OTHER },
		{ "GET", "//policy", ST_BAD_PATH, EXEC_OP_COUNT },
		{ "GET", "/%70olicy", ST_BAD_PATH, EXEC_OP_COUNT },
		{ "GET", "/POLICY", ST_BAD_PATH, EXEC_OP_COUNT },
		{ "TRACE", "/policy", ST_METHOD_REFUSED, EXEC_OP_COUNT },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct exec_route r = { .op = EXEC_OP_COUNT };
		enum status st = exec_route_read_egress(
			method_of(str_from(cases[i].method)), str_from(cases[i].target),
			STR("box"), &r);

		if (st != cases[i].st || r.op != cases[i].op)
			fail_msg("%s: %s", cases[i].target, status_code(st));
		if (st == ST_OK)
			expect_str(cases[i].target, r.sandbox, "box");
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_listener_of_one_sandbox_has_its_egress_api_and_nothing_else),
		cmocka_unit_test(each_route_of_the_server_is_known_with_and_without_v1),
		cmocka_unit_test(each_route_of_execd_is_the_same_by_every_way),
		cmocka_unit_test(each_route_of_the_egress_api_is_the_same_by_every_way),
		cmocka_unit_test(a_route_names_what_it_is_about),
		cmocka_unit_test(an_application_gets_its_path_byte_by_byte),
		cmocka_unit_test(what_execd_has_beyond_the_table_is_still_classed),
		cmocka_unit_test(other_spellings_of_what_routes_are_refused),
		cmocka_unit_test(a_port_is_digits_without_leading_zero),
		cmocka_unit_test(hops_are_counted),
		cmocka_unit_test(what_the_server_does_not_have_is_told),
		cmocka_unit_test(a_name_has_a_length),
		cmocka_unit_test(the_query_of_an_endpoint_is_read),
		cmocka_unit_test(each_operation_has_a_name_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

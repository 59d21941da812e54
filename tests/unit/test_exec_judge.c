/* What a request to run something says, by the shipped rules of risk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/worker/exec_judge.h"
#include "tests/unit/risk_files.h"

#define EXECD "/v1/sandboxes/sb-1/proxy/44772"

static const struct image *image;

static int
begin(void **state)
{
	image = *state = risk_image_shipped();
	return 0;
}

static int
end(void **state)
{
	image_close(*state);
	return 0;
}

static enum status
judge(const char *request, struct str body, struct exec_judged *j)
{
	struct str target = str_from(request), method = str_cut(&target, ' ');
	struct exec_route r;

	memset(j, 0, sizeof *j);
	assert_int_equal(exec_route_read(method_of(method), target, &r), ST_OK);
	return exec_judge(image, &r, body, NULL, j);
}

static void
expect(const char *request, const char *body, const char *text, const char *note)
{
	CLEANUP(exec_judged_done) struct exec_judged j = { 0 };

	if (judge(request, body == NULL ? (struct str){ 0 } : str_from(body), &j) !=
	    ST_OK)
		fail_msg("%s %s", request, body);
	assert_string_equal(j.text.len == 0 ? "" : buf_cstr(&j.text), text);
	struct str got = exec_note_end(&j.note);
	if (memmem(got.p, got.n, note, strlen(note)) == NULL)
		fail_msg("%s: %.*s", request, STR_ARG(got));
}

static void
what_is_run_is_told(void **state)
{
	(void)state;
	expect("POST " EXECD "/command", "{\"command\":\"ls -l\",\"cwd\":\"/src\"}",
	       "ls -l", "\"command\":\"ls -l\",\"cwd\":\"/src\"");
	expect("POST " EXECD "/command", "{\"argv\":[\"ls\",\"a b\"]}", "ls a b",
	       "\"argv\":[\"ls\",\"a b\"]");
	expect("POST " EXECD "/command", "{\"command\":null}", "", "command.run");
	expect("POST " EXECD "/session/s1/run", "{\"command\":\"id\"}", "id",
	       "\"command\":\"id\"");
	expect("POST " EXECD "/code",
	       "{\"context\":{\"language\":\"python\"},\"code\":\"1+1\"}", "1+1",
	       "\"language\":\"python\",\"code\":\"1+1\"");
	expect("POST " EXECD "/command",
	       "{\"command\":\"id\",\"uid\":7,\"envs\":{\"A\":\"secret\",\"B\":\"x\"}}",
	       "id", "\"uid\":7,\"env\":[\"A\",\"B\"]");
	expect("POST " EXECD "/pty", "{\"command\":\"bash\"}", "bash",
	       "\"command\":\"bash\"");
}

static void
which_files_are_told_as_they_are_called(void **state)
{
	(void)state;
	expect("GET " EXECD "/files/download?path=/a%20b&limit=3", NULL, "/a b",
	       "\"paths\":[\"/a b\"]");
	expect("DELETE " EXECD "/files?path=/a&path=/b", NULL, "/a\n/b",
	       "\"paths\":[\"/a\",\"/b\"]");
	expect("POST " EXECD "/files/mv", "[{\"src\":\"/a\",\"dest\":\"/b\"}]",
	       "/a\n/b", "\"paths\":[\"/a\",\"/b\"]");
	expect("POST " EXECD "/files/permissions", "{\"/a\":{\"mode\":644}}", "/a",
	       "\"paths\":[\"/a\"]");
	expect("POST " EXECD "/directories", "{\"/d\":{}}", "/d", "\"paths\":[\"/d\"]");
}

static void
commands_of_a_create_are_read_and_nothing_else_of_it(void **state)
{
	(void)state;
	expect("POST /sandboxes",
	       "{\"image\":{\"uri\":\"x\"},\"env\":{\"A\":\"b\"},\"lifecycle\":"
	       "{\"preStart\":{\"command\":[\"sh\",\"-c\",\"id\"]},"
	       "\"periodic\":[{\"command\":[\"date\"]}]}}",
	       "sh -c id\ndate", "\"lifecycle\":[\"sh -c id\",\"date\"]");
	expect("POST /sandboxes", "{\"image\":{\"uri\":\"x\"}}", "", "sandbox.create");
}

struct level {
	const char *request, *body;
	enum risk_level want;
};

static void
expect_levels(const struct level *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		CLEANUP(exec_judged_done) struct exec_judged j = { 0 };
		struct str body = rows[i].body == NULL ? (struct str){ 0 }
						       : str_from(rows[i].body);
		if (judge(rows[i].request, body, &j) != ST_OK ||
		    j.answer.level != rows[i].want)
			fail_msg("%s %s: %s", rows[i].request, rows[i].body,
				 risk_level_word(j.answer.level));
	}
}

static void
the_worst_part_decides(void **state)
{
	static const struct level rows[] = {
		{ "POST " EXECD "/command", "{\"command\":\"ls\"}", RISK_LOW },
		{ "POST " EXECD "/command", "{\"command\":\"rm -rf /\"}", RISK_HIGH },
		{ "POST " EXECD "/command", "{\"argv\":[\"rm\",\"-rf\",\"/\"]}",
		  RISK_HIGH },
		{ "POST " EXECD "/session/s/run", "{\"command\":\"ls; rm -rf /\"}",
		  RISK_HIGH },
		{ "POST " EXECD "/code",
		  "{\"language\":\"bash\",\"code\":\"rm -rf /\"}", RISK_HIGH },
		{ "POST " EXECD "/v1/isolated/session/s/run",
		  "{\"code\":\"rm -rf /\",\"context\":{\"language\":\"sh\"}}",
		  RISK_HIGH },
		{ "DELETE " EXECD "/directories?path=/tmp/a&path=/etc/passwd", NULL,
		  RISK_HIGH },
		{ "DELETE " EXECD "/files?path=%2Fetc%2Fpasswd", NULL, RISK_HIGH },
		{ "POST " EXECD "/files/mv",
		  "[{\"src\":\"/tmp/x\",\"dest\":\"/etc/passwd\"}]", RISK_HIGH },
		{ "POST " EXECD "/files/replace", "{\"/etc/passwd\":{}}", RISK_HIGH },
		{ "POST /v1/sandboxes",
		  "{\"lifecycle\":{\"periodic\":[{},{\"command\":[\"rm\",\"-rf\","
		  "\"/\"]}]}}",
		  RISK_HIGH },
		/* What no version knows yet may be run as well. */
		{ "POST /sandboxes",
		  "{\"postStart\":{\"command\":[\"rm\",\"-rf\",\"/\"]}}", RISK_HIGH },
		{ "POST /sandboxes", "{\"init\":[\"ls\",[{\"x\":\"rm -rf /\"}]]}",
		  RISK_HIGH },
		{ "POST /sandboxes", "{\"script\":\"it's\"}", RISK_HIGH },
		{ "POST /sandboxes",
		  "{\"note\":\"it's (new\",\"image\":{\"uri\":\"rm -rf /\"},\"n\":1}",
		  RISK_LOW },
		{ "POST " EXECD "/newer/route", NULL, RISK_HIGH },
		{ "GET " EXECD "/ping", NULL, RISK_LOW },
	};

	(void)state;
	expect_levels(rows, COUNT_OF(rows));
}

static void
what_has_no_language_is_a_command_line(void **state)
{
	static const struct level rows[] = {
		{ "POST " EXECD "/code", "{\"code\":\"rm -rf /\"}", RISK_HIGH },
		{ "POST " EXECD "/code",
		  "{\"context\":{\"id\":\"c\"},\"code\":\"rm -rf /\"}", RISK_HIGH },
		{ "POST " EXECD "/code",
		  "{\"context\":{\"language\":\"background-command\"},\"code\":\"rm "
		  "-rf "
		  "/\"}",
		  RISK_HIGH },
		{ "POST " EXECD "/code",
		  "{\"language\":\"python\",\"code\":\"rm -rf /\"}", RISK_HIGH },
		{ "POST " EXECD "/v1/isolated/session/s/run",
		  "{\"code\":\"rm -rf /\",\"context\":{\"language\":\"python\"}}",
		  RISK_HIGH },
		{ "POST " EXECD "/code",
		  "{\"context\":{\"language\":\"python\"},\"code\":\"print(1)\"}",
		  RISK_LOW },
	};

	(void)state;
	expect_levels(rows, COUNT_OF(rows));
}

struct in_context {
	const char *claimed, *kernel, *code; /* kernel NULL: nobody was asked yet */
	enum risk_level want;
};

/* JSON's quotes and line ends are escaped in the rows. */
static void
code_is_judged_in_the_language_of_its_context(void **state)
{
	static const char rm[] = "import os\\nos.execv('/bin/rm', ['rm', '-rf', '/'])";
	static const struct in_context rows[] = {
		/* What a shell takes for harmless words is Python's undoing, and back. */
		{ "bash", "python", "x=\\\"\\\"; exec(x)", RISK_HIGH },
		{ "", "python", "exec (x)", RISK_HIGH },
		{ "bash", "", "x = 1 # exec", RISK_LOW },
		{ "python", "bash", "x = 1 # it\\nrm -rf /", RISK_HIGH },
		{ "python", "python", "x = 1", RISK_LOW },
		{ "Python", "python", "x = 1", RISK_LOW },
		{ "python", NULL, "# rm -rf /", RISK_LOW },
		{ "python", "", "rm -rf /", RISK_HIGH },
		{ "python", "", "x = 1", RISK_LOW },
		{ "javascript", "bash", "// x\\nrm -rf /", RISK_HIGH },
		{ "sql", "ruby", "-- x\\n`rm -rf /`", RISK_HIGH },
		{ "python", "", rm, RISK_HIGH },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		CLEANUP(exec_judged_done) struct exec_judged j = { 0 };
		const struct str kernel =
			str_from(rows[i].kernel == NULL ? "" : rows[i].kernel);
		char body[512];
		struct exec_route r;

		(void)snprintf(body, sizeof body,
			       "{\"context\":{\"id\":\"c7\",\"language\":\"%s\"},"
			       "\"code\":\"%s\"}",
			       rows[i].claimed, rows[i].code);
		assert_int_equal(
			exec_route_read(METHOD_POST, str_from(EXECD "/code"), &r),
			ST_OK);
		assert_int_equal(exec_judge(image, &r, str_from(body),
					    rows[i].kernel == NULL ? NULL : &kernel,
					    &j),
				 ST_OK);
		assert_true(j.has_context);
		assert_string_equal(buf_cstr(&j.context), "c7");
		if (j.answer.level != rows[i].want)
			fail_msg("%s as %s: %s", body, rows[i].kernel,
				 risk_level_word(j.answer.level));
	}
}

static void
a_context_that_execd_could_read_in_another_way_is_refused(void **state)
{
	static const char *const bodies[] = {
		"{\"code\":\"x\",\"context\":{\"id\":7}}",
		"{\"code\":\"x\",\"context\":{\"id\":\"a\",\"ID\":\"b\"}}",
		"{\"code\":\"x\",\"context\":{\"Id\":\"b\"}}",
		"{\"code\":\"x\",\"Context\":{\"id\":\"b\"}}",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bodies); i++) {
		CLEANUP(exec_judged_done) struct exec_judged j = { 0 };
		if (judge("POST " EXECD "/code", str_from(bodies[i]), &j) !=
		    ST_BAD_JSON)
			fail_msg("%s", bodies[i]);
	}
}

static void
what_is_too_long_to_be_read_in_every_language_is_unreadable(void **state)
{
	static char body[16 * 1024];
	const struct str python = STR("python"), none = STR("");
	struct exec_route r;
	size_t n = 0;

	(void)state;
	n += (size_t)snprintf(body, sizeof body,
			      "{\"context\":{\"id\":\"c\",\"language\":\"python\"},"
			      "\"code\":\"");
	for (int i = 0; i < 1000; i++)
		n += (size_t)snprintf(body + n, sizeof body - n, "x = 1\\n");
	(void)snprintf(body + n, sizeof body - n, "\"}");
	assert_int_equal(exec_route_read(METHOD_POST, str_from(EXECD "/code"), &r),
			 ST_OK);
	for (int is_known = 0; is_known < 2; is_known++) {
		CLEANUP(exec_judged_done) struct exec_judged j = { 0 };
		assert_int_equal(exec_judge(image, &r, str_from(body),
					    is_known ? &python : &none, &j),
				 ST_OK);
		assert_int_equal(j.answer.level, is_known ? RISK_LOW : RISK_HIGH);
	}
}

static void
an_id_that_nobody_could_remember_is_of_a_context_that_nobody_knows(void **state)
{
	CLEANUP(exec_judged_done) struct exec_judged j = { 0 };
	const struct str none = STR("");
	char body[512], id[200];
	struct exec_route r;

	(void)state;
	memset(id, 'a', sizeof id - 1);
	id[sizeof id - 1] = '\0';
	(void)snprintf(body, sizeof body,
		       "{\"context\":{\"id\":\"%s\",\"language\":\"python\"},"
		       "\"code\":\"rm -rf /\"}",
		       id);
	assert_int_equal(exec_route_read(METHOD_POST, str_from(EXECD "/code"), &r),
			 ST_OK);
	assert_int_equal(exec_judge(image, &r, str_from(body), &none, &j), ST_OK);
	assert_true(j.has_context && j.context.len == 0);
	assert_int_equal(j.answer.level, RISK_HIGH);
}

static void
variables_are_judged_as_a_shell_sets_them(void **state)
{
	static const struct level rows[] = {
		{ "POST " EXECD "/command",
		  "{\"command\":\"ls\",\"envs\":{\"LD_PRELOAD\":\"/tmp/x.so\"}}",
		  RISK_HIGH },
		{ "POST " EXECD "/session/s/run",
		  "{\"command\":\"ls\",\"envs\":{\"A\":\"b\",\"BASH_ENV\":\"/tmp/x\"}}",
		  RISK_HIGH },
		{ "POST " EXECD "/command",
		  "{\"command\":\"ls\",\"envs\":{\"-S rm -rf /\":\"\"}}", RISK_HIGH },
		{ "POST " EXECD "/command",
		  "{\"command\":\"ls\",\"envs\":{\"A\":\"b c; d\",\"GH_TOKEN\":\"x\","
		  "\"E\":null,\"MODE\":\"x\"}}",
		  RISK_LOW },
	};

	(void)state;
	expect_levels(rows, COUNT_OF(rows));
}

static void
mcp_servers_are_commands_and_so_is_what_tools_are_told(void **state)
{
	static const struct level rows[] = {
		{ "POST " EXECD "/mcpproxy/upstreams",
		  "{\"transport\":\"stdio\",\"command\":\"sh\",\"args\":[\"-c\",\"rm "
		  "-rf "
		  "/\"]}",
		  RISK_HIGH },
		{ "POST " EXECD "/mcpproxy/upstreams",
		  "{\"command\":\"server\",\"env\":{\"LD_PRELOAD\":\"/tmp/x\"}}",
		  RISK_HIGH },
		{ "POST " EXECD "/mcpproxy/upstreams",
		  "{\"transport\":\"http\",\"url\":\"http://169.254.169.254/latest\"}",
		  RISK_HIGH },
		{ "POST " EXECD "/mcpproxy/upstreams",
		  "{\"command\":\"python3\",\"args\":[\"server.py\"]}", RISK_LOW },
		{ "POST " EXECD "/mcpproxy",
		  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{"
		  "\"name\":\"shell\",\"arguments\":{\"x\":[\"rm -rf /\"]}}}",
		  RISK_HIGH },
		{ "POST " EXECD "/mcpproxy",
		  "{\"method\":\"tools/"
		  "call\",\"params\":{\"arguments\":{\"cmd\":\"echo "
		  "'\"}}}",
		  RISK_HIGH },
		{ "POST " EXECD "/mcpproxy",
		  "{\"method\":\"tools/call\",\"params\":{\"arguments\":{\"text\":\"I "
		  "don't "
		  "(know\"}}}",
		  RISK_LOW },
	};

	(void)state;
	expect_levels(rows, COUNT_OF(rows));
}

static void
what_execd_could_read_in_another_way_is_refused(void **state)
{
	static const char *const bodies[] = {
		"{\"command\":\"ls\",\"Command\":\"rm\"}",
		"{\"COMMAND\":\"rm\"}",
		"{\"command\":\"ls\",\"command\":\"rm\"}",
		"{\"command\":{}}",
		"{\"argv\":[\"ls\",7]}",
		"{\"argv\":[\"ls\",null]}",
		"{\"code\":[\"x\"]}",
		"{\"uid\":\"a\",\"uid\":1}",
		"{\"uid\":1e9}",
		"{\"command\":\"ls\",\"envs\":{\"A\":7}}",
		"{\"command\":\"ls\",\"env\xc5\xbf\":{}}",
		"{\"command\":\"ls\"} {}",
		"{\"command\":\"a\\u0000\"}",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bodies); i++) {
		CLEANUP(exec_judged_done) struct exec_judged j = { 0 };
		if (judge("POST " EXECD "/command", str_from(bodies[i]), &j) !=
		    ST_BAD_JSON)
			fail_msg("%s", bodies[i]);
	}
}

static void
an_approval_is_for_one_route_and_one_body(void **state)
{
	static const struct {
		const char *request, *body;
	} rows[] = {
		{ "POST " EXECD "/command", "{\"command\":\"ls\"}" },
		{ "POST " EXECD "/command", "{\"command\":\"ls\" }" },
		{ "POST " EXECD "/session/a/run", "{\"command\":\"ls\"}" },
		{ "POST " EXECD "/session/b/run", "{\"command\":\"ls\"}" },
		{ "DELETE " EXECD "/files?path=/a", NULL },
		{ "DELETE " EXECD "/files?path=/b", NULL },
	};
	uint8_t seen[COUNT_OF(rows)][EXEC_HASH];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		CLEANUP(exec_judged_done) struct exec_judged j = { 0 };
		struct str body = rows[i].body == NULL ? (struct str){ 0 }
						       : str_from(rows[i].body);
		assert_int_equal(judge(rows[i].request, body, &j), ST_OK);
		memcpy(seen[i], j.hash, EXEC_HASH);
		for (size_t k = 0; k < i; k++)
			assert_memory_not_equal(seen[i], seen[k], EXEC_HASH);
	}
}

static void
a_text_that_is_shown_has_no_secret_and_an_end(void **state)
{
	CLEANUP(exec_judged_done) struct exec_judged j = { 0 };
	CLEANUP(buf_done) struct buf body = { 0 };

	(void)state;
	expect("POST " EXECD "/command",
	       "{\"command\":\"curl -H 'Authorization: Bearer abcdefgh' x\"}",
	       "curl -H 'Authorization: Bearer [redacted]' x", "[redacted]");
	buf_init(&body, 1 << 20);
	buf_put(&body, STR("{\"command\":\""));
	for (size_t i = 0; i < 200000; i++)
		buf_putc(&body, 'a');
	buf_put(&body, STR("\"}"));
	assert_int_equal(judge("POST " EXECD "/command", str_of(body.p, body.len), &j),
			 ST_OK);
	assert_true(j.text.len <= EXEC_TEXT_MAX);
	assert_int_equal(j.answer.level, RISK_HIGH);
	assert_true(exec_note_end(&j.note).n <= ROW_EXEC_MAX);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_run_is_told),
		cmocka_unit_test(which_files_are_told_as_they_are_called),
		cmocka_unit_test(commands_of_a_create_are_read_and_nothing_else_of_it),
		cmocka_unit_test(the_worst_part_decides),
		cmocka_unit_test(what_has_no_language_is_a_command_line),
		cmocka_unit_test(code_is_judged_in_the_language_of_its_context),
		cmocka_unit_test(
			a_context_that_execd_could_read_in_another_way_is_refused),
		cmocka_unit_test(
			what_is_too_long_to_be_read_in_every_language_is_unreadable),
		cmocka_unit_test(
			an_id_that_nobody_could_remember_is_of_a_context_that_nobody_knows),
		cmocka_unit_test(variables_are_judged_as_a_shell_sets_them),
		cmocka_unit_test(
			mcp_servers_are_commands_and_so_is_what_tools_are_told),
		cmocka_unit_test(what_execd_could_read_in_another_way_is_refused),
		cmocka_unit_test(an_approval_is_for_one_route_and_one_body),
		cmocka_unit_test(a_text_that_is_shown_has_no_secret_and_an_end),
	};

	return cmocka_run_group_tests(tests, begin, end);
}

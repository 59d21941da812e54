/* Fields of a request to an execution listener: what they say, and which go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/worker/exec_private.h"

enum { ROOM = 1 << 20 };

static void
head_of(struct head *h, struct arena *a, const char *method, const char *target,
	const char *fields)
{
	struct str rest = str_from(fields);

	arena_init(a, ROOM);
	head_init(h, a);
	h->method = str_from(method);
	h->method_id = method_of(h->method);
	h->target = str_from(target);
	h->minor = 1;
	while (rest.p != NULL && rest.n > 0) {
		struct str value = str_cut(&rest, '\n'), name = str_cut(&value, ':');
		assert_int_equal(head_add(h, name, str_trim(value)), ST_OK);
	}
}

static void
who_asks_is_read_once(void **state)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	struct exec_asked asked;
	struct head h;

	(void)state;
	head_of(&h, &a, "GET", "/",
		"Open-Sandbox-Api-Key: sgk_1\nAuthorization: bearer a.b.c\n"
		"X-Sandgate-Capability: c\nX-Sandgate-On-Behalf-Of: bob\n"
		"X-Sandgate-Session: s\nX-Sandgate-Task: t\nX-Sandgate-Reuse: task\n"
		"Idempotency-Key: i");
	assert_int_equal(exec_head_read(&h, &asked), ST_OK);
	assert_true(str_eq(asked.key, STR("sgk_1")));
	assert_true(str_eq(asked.bearer, STR("a.b.c")));
	assert_true(str_eq(asked.capability, STR("c")));
	assert_true(str_eq(asked.on_behalf_of, STR("bob")));
	assert_true(str_eq(asked.session, STR("s")));
	assert_true(str_eq(asked.task, STR("t")));
	assert_true(str_eq(asked.reuse, STR("task")));
	assert_true(str_eq(asked.idempotency, STR("i")));
	arena_done(&a);
	head_of(&h, &a, "GET", "/", "Authorization: Basic eDp5");
	assert_int_equal(exec_head_read(&h, &asked), ST_OK);
	assert_int_equal(asked.bearer.n, 0);
	arena_done(&a);
	head_of(&h, &a, "GET", "/", "X-Sandgate-Task: a\nX_Sandgate_Task: b");
	assert_int_equal(exec_head_read(&h, &asked), ST_BAD_HEADER);
}

static void
a_request_id_is_shown_only_if_it_is_plain(void **state)
{
	static const struct {
		const char *field;
		bool is_good;
	} rows[] = { { "X-Request-ID: abc-1_2.3", true },
		     { "X-Request-ID: a b", false },
		     { "X-Request-ID: a\nX-Request-ID: b", false },
		     { "X-Request-ID:", false },
		     { "Other: a", false } };

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		CLEANUP(arena_done) struct arena a = { 0 };
		struct head h;
		struct str id;
		head_of(&h, &a, "GET", "/", rows[i].field);
		assert_int_equal(exec_head_id(&h, &id), rows[i].is_good);
	}
}

static void
host_and_target_name_one_place(void **state)
{
	static const struct {
		const char *target, *fields;
		bool is_https;
		enum status want;
	} rows[] = {
		{ "/", "Host: localhost:8090", false, ST_OK },
		{ "/", "Host: gate.example.test", true, ST_OK },
		{ "/", "Host: [::1]:80", false, ST_OK },
		{ "http://a.test:8090/x", "Host: a.test:8090", false, ST_OK },
		{ "http://b.test/x", "Host: a.test", false, ST_MISMATCH },
		{ "http://a.test/x", "Host: a.test", true, ST_BAD_TARGET },
		{ "/", "Host: a@b", false, ST_BAD_HOST },
		{ "/", "Host: 127.1", false, ST_IP_NONSTANDARD },
		{ "/", "Other: x", false, ST_BAD_HOST },
		{ "/", "Host: a.test\nHost: b.test", false, ST_BAD_HOST },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		CLEANUP(arena_done) struct arena a = { 0 };
		struct head h;
		struct str authority;
		head_of(&h, &a, "GET", rows[i].target, rows[i].fields);
		enum status got = exec_head_authority(&h, rows[i].is_https, &authority);
		if (got != rows[i].want)
			fail_msg("%s %s: %s", rows[i].target, rows[i].fields,
				 status_code(got));
	}
}

static bool
goes_on(const char *target, const char *field, bool keeps_login)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	CLEANUP(arena_done) struct arena b = { 0 };
	struct place_answer answer = { .keeps_login = keeps_login, .fields_n = 1 };
	struct exec_route r;
	struct head from, to;
	struct str name = str_from(field);

	answer.fields[0] = (struct place_field){ STR("X-Token-Of-Ours"), STR("t") };
	head_of(&from, &a, "GET", target, field);
	assert_int_equal(exec_route_read(METHOD_GET, from.target, &r), ST_OK);
	arena_init(&b, ROOM);
	head_init(&to, &b);
	assert_int_equal(exec_head_up(&to, &from, &r, &answer), ST_OK);
	return head_find(&to, str_cut(&name, ':')) != NULL;
}

static void
what_is_ours_stays_with_us(void **state)
{
	static const char *const stopped[] = {
		"OPEN-SANDBOX-API-KEY: k",
		"open_sandbox_api_key: k",
		"X-Sandgate-Task: t",
		"X_Sandgate.Anything: t",
		"OPEN-SANDBOX-CLIENT-IP: 1",
		"X-EXECD-ACCESS-TOKEN: x",
		"OPENSANDBOX-EGRESS-AUTH: x",
		"OpenSandbox-Secure-Access: x",
		"Forwarded: for=1",
		"X-Forwarded-For: 1",
		"X-Forwarded-Anything-Else: 1",
		"X-Real-IP: 1",
		"X-Token-Of-Ours: theirs",
		"x_token_of_ours: theirs",
		"Authorization: Bearer x",
		"Cookie: a=b",
	};
	static const char *const places[] = { "/sandboxes/s/proxy/44772/ping",
					      "/sandboxes/s/proxy/8080/" };

	(void)state;
	for (size_t i = 0; i < COUNT_OF(stopped); i++)
		for (size_t k = 0; k < COUNT_OF(places); k++)
			if (goes_on(places[k], stopped[i], false))
				fail_msg("%s: %s", places[k], stopped[i]);
	assert_true(goes_on(places[1], "Authorization: Bearer x", true));
	assert_true(goes_on(places[1], "Cookie: a=b", true));
	assert_false(goes_on(places[0], "Cookie: a=b", true));
	assert_true(goes_on(places[1], "Idempotency-Key: x", false));
	assert_false(goes_on(places[0], "Idempotency-Key: x", false));
	assert_false(goes_on(places[0], "Sec-Fetch-Mode: cors", false));
	assert_true(goes_on(places[1], "Sec-Fetch-Mode: cors", false));
	assert_true(goes_on(places[0], "X-Other: x", false));
	assert_true(goes_on(places[0], "Accept-Encoding: gzip", false));
	assert_false(goes_on("/sandboxes/s/proxy/44772/pty/p/ws",
			     "Sec-WebSocket-Extensions: permessage-deflate", false));
	assert_true(goes_on(places[1], "Sec-WebSocket-Extensions: x", false));
}

static void
a_response_shows_no_token_and_one_request_id(void **state)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	struct place_answer answer = { .fields_n = 1 };
	struct head h;

	(void)state;
	answer.fields[0] = (struct place_field){ STR("X-Ours"), STR("t") };
	head_of(&h, &a, "", "",
		"X-Ours: t\nx_execd_access_token: t\nX-Sandgate-Capability: x\n"
		"X-Request-ID: theirs\nX-Request-ID: again\nContent-Type: a/b");
	assert_int_equal(exec_head_down(&h, &answer, STR("r1")), ST_OK);
	assert_int_equal(h.fields_len, 2);
	assert_true(str_eq(head_find(&h, STR("X-Request-ID"))->value, STR("r1")));
	assert_non_null(head_find(&h, STR("Content-Type")));
}

static size_t
passing(const char *target, struct str *ret_first)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	struct place_answer answer = { .fields_n = 1 };
	struct exec_route r;
	struct head h, to;
	size_t n;

	answer.fields[0] = (struct place_field){ STR("X-Ours"), STR("t") };
	head_of(&h, &a, "", "",
		"X-Plain: 1\nX-Ours: t\nX-EXECD-ACCESS-TOKEN: t\nOpen_Sandbox_Api_Key: "
		"t\n"
		"X-Sandgate-Capability: x\nX-Forwarded-For: y");
	head_init(&to, &a);
	if (target != NULL)
		assert_int_equal(exec_route_read(METHOD_POST, str_from(target), &r),
				 ST_OK);
	assert_int_equal(
		exec_head_trailers(&to, &h, target == NULL ? NULL : &r, &answer),
		ST_OK);
	n = to.fields_len;
	*ret_first = n > 0 && str_eq(to.fields[0].name, STR("X-Plain")) ? STR("X-Plain")
									: STR("");
	return n;
}

static void
trailers_carry_no_more_than_heads_and_none_to_execd(void **state)
{
	struct str first;

	(void)state;
	assert_int_equal(passing("/sandboxes/s/proxy/44772/files/upload", &first), 0);
	assert_int_equal(passing("/sandboxes/s/proxy/44772/newer", &first), 0);
	assert_int_equal(passing("/sandboxes/s/proxy/8080/x", &first), 1);
	assert_true(str_eq(first, STR("X-Plain")));
	assert_int_equal(passing(NULL, &first), 2); /* and whose it is, as in heads */
	assert_true(str_eq(first, STR("X-Plain")));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_asks_is_read_once),
		cmocka_unit_test(a_request_id_is_shown_only_if_it_is_plain),
		cmocka_unit_test(host_and_target_name_one_place),
		cmocka_unit_test(what_is_ours_stays_with_us),
		cmocka_unit_test(a_response_shows_no_token_and_one_request_id),
		cmocka_unit_test(trailers_carry_no_more_than_heads_and_none_to_execd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/cli/learned.h"
#include "proxy/cli/ledger_read.h"

static void
see(struct learned *l, enum row_kind kind, enum status reason, const char *host)
{
	const struct row r = { .kind = kind, .reason = reason, .host = str_from(host) };

	assert_int_equal(learned_see(l, &r), ST_OK);
}

static void
hosts_with_the_same_ports_share_a_rule_and_siblings_become_a_pattern(void **state)
{
	CLEANUP(learned_done) struct learned l = { 0 };
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	learned_init(&l);
	buf_init(&b, 65536);
	see(&l, ROW_TUNNEL_START, ST_OK, "a.cdn.example.com:443");
	see(&l, ROW_TUNNEL_START, ST_OK, "b.cdn.example.com:443");
	see(&l, ROW_DENY, ST_DENIED, "c.cdn.example.com:443");
	see(&l, ROW_DENY, ST_DENIED, "one.example.org:443");
	see(&l, ROW_DENY, ST_DENIED, "two.example.org:443");
	see(&l, ROW_DENY, ST_DENIED_PROTOCOL, "db.example.org:5432");
	see(&l, ROW_DNS, ST_DENIED, "looked.example.org");
	see(&l, ROW_DNS, ST_OK, "one.example.org");
	learned_put(&l, STR("demo"), false, &b);
	assert_string_equal(
		buf_cstr(&b),
		"policies:\n"
		"  \"learned-demo\":\n"
		"    allow:\n"
		"      - {hosts: [\"looked.example.org\"]}\n"
		"      - {hosts: [\"*.cdn.example.com\", \"one.example.org\","
		" \"two.example.org\"], ports: [443]}\n"
		"      - {hosts: [\"db.example.org\"], ports: [5432], protocol: "
		"tcp}\n");
}

static void
the_gateway_s_own_name_is_in_no_rule(void **state)
{
	CLEANUP(learned_done) struct learned l = { 0 };
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	learned_init(&l);
	buf_init(&b, 65536);
	see(&l, ROW_DNS, ST_OK, "sandgate.internal");
	see(&l, ROW_REQUEST, ST_OK, "sandgate.internal:80");
	see(&l, ROW_DENY, ST_DENIED, "Sandgate.internal:443");
	see(&l, ROW_DENY, ST_DENIED, "one.sandgate.internal:443");
	learned_put(&l, STR("demo"), true, &b);
	assert_string_equal(
		buf_cstr(&b),
		"# Refused for a reason that no rule of names changes:\n"
		"#   \"Sandgate.internal:443\" denied_by_policy\n"
		"policies:\n"
		"  \"learned-demo\":\n"
		"    allow:\n"
		"      - {hosts: [\"one.sandgate.internal\"], ports: [443]}\n");
}

static void
what_went_through_a_connector_needs_the_connector_and_no_rule(void **state)
{
	CLEANUP(learned_done) struct learned l = { 0 };
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct row through = { .kind = ROW_REQUEST,
				     .host = STR("tracker.example.com:443"),
				     .connector = STR("tracker") };

	(void)state;
	learned_init(&l);
	buf_init(&b, 65536);
	see(&l, ROW_DNS, ST_OK, "tracker.example.com");
	see(&l, ROW_DENY, ST_DENIED_PATH, "tracker.example.com:443");
	assert_int_equal(learned_see(&l, &through), ST_OK);
	see(&l, ROW_TUNNEL_START, ST_OK, "one.example.org:443");
	learned_put(&l, STR("demo"), true, &b);
	assert_string_equal(buf_cstr(&b),
			    "policies:\n"
			    "  \"learned-demo\":\n"
			    "    connectors: [\"tracker\"]\n"
			    "    allow:\n"
			    "      - {hosts: [\"one.example.org\"], ports: [443]}\n");
}

static void
no_pattern_ever_covers_a_public_suffix(void **state)
{
	CLEANUP(learned_done) struct learned l = { 0 };
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	learned_init(&l);
	buf_init(&b, 65536);
	see(&l, ROW_DENY, ST_DENIED, "a.co.uk:443");
	see(&l, ROW_DENY, ST_DENIED, "b.co.uk:443");
	see(&l, ROW_DENY, ST_DENIED, "c.co.uk:443");
	see(&l, ROW_DENY, ST_DENIED, "a.github.io:443");
	see(&l, ROW_DENY, ST_DENIED, "b.github.io:443");
	see(&l, ROW_DENY, ST_DENIED, "c.github.io:443");
	see(&l, ROW_DENY, ST_DENIED, "a.com:443");
	see(&l, ROW_DENY, ST_DENIED, "b.com:443");
	see(&l, ROW_DENY, ST_DENIED, "c.com:443");
	learned_put(&l, STR("x"), false, &b);
	assert_null(strstr(buf_cstr(&b), "*."));
}

static void
what_no_rule_should_allow_is_told_and_not_allowed(void **state)
{
	CLEANUP(learned_done) struct learned l = { 0 };
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	learned_init(&l);
	buf_init(&b, 65536);
	see(&l, ROW_DENY, ST_ADDRESS_METADATA, "metadata.example.com:80");
	see(&l, ROW_DENY, ST_DENIED_RULE, "bad.example.com:443");
	see(&l, ROW_DENY, ST_DENIED, "192.0.2.1:443");
	see(&l, ROW_DENY, ST_BAD_HOST, "x\ny: evil.example.com:443");
	learned_put(&l, STR("demo\n"), false, &b);
	const char *text = buf_cstr(&b);
	assert_non_null(strstr(text, "{allow: []}"));
	assert_non_null(strstr(text, "#   \"192.0.2.1:443\" denied_by_policy\n"));
	assert_null(strstr(text, "\ny:"));
}

static void
methods_and_paths_of_plain_http_are_written_when_asked_for(void **state)
{
	CLEANUP(learned_done) struct learned l = { 0 };
	CLEANUP(buf_done) struct buf b = { 0 };
	struct row r = { .kind = ROW_REQUEST,
			 .host = STR("api.example.com:80"),
			 .method = STR("GET"),
			 .path = STR("/v1/a?key=1") };

	(void)state;
	learned_init(&l);
	buf_init(&b, 65536);
	assert_int_equal(learned_see(&l, &r), ST_OK);
	r.method = STR("POST");
	assert_int_equal(learned_see(&l, &r), ST_OK);
	learned_put(&l, STR("demo"), true, &b);
	assert_non_null(strstr(buf_cstr(&b),
			       "{hosts: [\"api.example.com\"], ports: [80], methods:"
			       " [GET, POST], paths: [\"/v1/a\"]}"));
}

static void
since_takes_a_time_or_how_long_ago(void **state)
{
	uint64_t us = 0, now = 1767225600000000; /* 2026-01-01 */

	(void)state;
	assert_true(ledger_since(STR("10m"), now, &us));
	assert_true(us == now - 600000000);
	assert_true(ledger_since(STR("2026-01-01T00:00:00Z"), now, &us) && us == now);
	assert_true(ledger_since(STR("2026-01-01T00:00:00.123Z"), now, &us) &&
		    us == now);
	assert_false(ledger_since(STR("yesterday"), now, &us));
	assert_false(ledger_since(STR("2026-01-01T00:00:00"), now, &us));
	assert_false(ledger_since(STR("-5m"), now, &us));
	assert_false(ledger_since(STR("m"), now, &us));
}

static void
a_line_for_people_can_not_move_the_cursor(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct row r = { .kind = ROW_DENY,
			       .reason = ST_DENIED,
			       .host = STR("\x1b[2Jx\ny\x9b:443") };

	(void)state;
	buf_init(&b, 4096);
	ledger_put_line(&b, &r);
	for (size_t i = 0; i + 1 < b.len; i++)
		assert_in_range((unsigned char)b.p[i], 0x20, 0x7e);
}

static void
what_a_connector_refused_is_told_with_it_and_is_no_rule(void **state)
{
	(void)state;
	struct learned l;
	struct row refused = { .kind = ROW_DENY,
			       .reason = ST_DENIED_PATH,
			       .host = STR("tracker.example.com:443"),
			       .method = STR("GET"),
			       .path = STR("/admin"),
			       .connector = STR("tracker") };
	CLEANUP(buf_done) struct buf b = { 0 };

	learned_init(&l);
	for (int i = 0; i < 2; i++)
		assert_int_equal(learned_see(&l, &refused), ST_OK);
	buf_init(&b, 4096);
	learned_put(&l, STR("demo"), true, &b);
	assert_string_equal(
		buf_cstr(&b),
		"# Refused by a connector, whose own `allow` would have to have it:\n"
		"#   \"tracker\": GET \"tracker.example.com:443\" \"/admin\" "
		"denied_path\n"
		"policies:\n"
		"  \"learned-demo\":\n"
		"    connectors: [\"tracker\"]\n"
		"    allow: []\n");
	learned_done(&l);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			hosts_with_the_same_ports_share_a_rule_and_siblings_become_a_pattern),
		cmocka_unit_test(
			what_went_through_a_connector_needs_the_connector_and_no_rule),
		cmocka_unit_test(
			what_a_connector_refused_is_told_with_it_and_is_no_rule),
		cmocka_unit_test(the_gateway_s_own_name_is_in_no_rule),
		cmocka_unit_test(no_pattern_ever_covers_a_public_suffix),
		cmocka_unit_test(what_no_rule_should_allow_is_told_and_not_allowed),
		cmocka_unit_test(
			methods_and_paths_of_plain_http_are_written_when_asked_for),
		cmocka_unit_test(since_takes_a_time_or_how_long_ago),
		cmocka_unit_test(a_line_for_people_can_not_move_the_cursor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

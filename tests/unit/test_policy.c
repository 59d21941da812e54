#include "tests/unit/make_image.h"

#include "conf/policy.h"

/* One row: a question, and what must come out. */
struct row {
	const char *policy, *host;
	uint16_t port;
	enum policy_way way;
	const char *method, *path;
	enum policy_action action;
	enum status reason;
};

static const char text[] =
	"policies:\n"
	"  p:\n"
	"    allow:\n"
	"      - {hosts: [ok.test, '*.wild.test'], ports: [443]}\n"
	"      - {hosts: [api.test.example], methods: [GET, POST], paths: ['/v1/**', "
	"'/x/*/y']}\n"
	"      - {hosts: [db.test.example], ports: [5432, 9000-9100], protocol: tcp}\n"
	"      - {cidrs: [192.0.2.0/24], ports: [22], protocol: tcp}\n"
	"      - {hosts: [default.test.example]}\n"
	"      - {hosts: [two.test.example], methods: [GET]}\n"
	"      - {hosts: [two.test.example], ports: [443]}\n"
	"      - {hosts: [mixed.test.example], ports: [80], protocol: tcp}\n"
	"      - {hosts: ['*.watched.example'], ports: [80, 443]}\n"
	"      - {hosts: ['shared.github.io'], ports: [443]}\n"
	"      - {hosts: ['*.github.io'], ports: [443, 80], shared_suffix: true}\n"
	"    deny:\n"
	"      - {hosts: [bad.wild.test, '*.bad.wild.test']}\n"
	"      - {hosts: [db.test.example], ports: [9050]}\n"
	"      - {hosts: ['*.watched.example'], methods: [GET], paths: "
	"['/secret/**']}\n"
	"      - {hosts: [mixed.test.example], methods: [DELETE]}\n"
	"      - {ports: [25]}\n"
	"      - {cidrs: [192.0.2.66/32]}\n"
	"  o:\n"
	"    mode: observe\n"
	"    allow:\n"
	"      - {hosts: [ok.test]}\n"
	"    deny:\n"
	"      - {hosts: [never.test.example]}\n"
	"  any:\n"
	"    allow: [{any_host: true, ports: [443]}, {any_host: true, ports: [22], "
	"protocol: tcp}, {hosts: [api.test.example], "
	"paths: ['/v1/**']}]\n"
	"    deny: [{hosts: [bad.test]}]\n"
	"  none: {allow: []}\n";

static const struct row rows[] = {
	/* every host, and what is denied all the same */
	{ "any", "some.test", 443, WAY_TLS, "", "", ACTION_TUNNEL, ST_OK },
	{ "any", "some.test", 443, WAY_ANY, "", "", ACTION_TUNNEL, ST_OK },
	{ "any", "some.test", 80, WAY_HTTP, "GET", "/", ACTION_DENY, ST_DENIED_PORT },
	{ "any", "some.test", 443, WAY_TCP, "", "", ACTION_DENY, ST_DENIED_PROTOCOL },
	{ "any", "bad.test", 443, WAY_TLS, "", "", ACTION_DENY, ST_DENIED_RULE },
	{ "any", "203.0.113.9", 443, WAY_TLS, "", "", ACTION_TUNNEL, ST_OK },
	{ "any", "some.test", 22, WAY_TCP, "", "", ACTION_TCP, ST_OK },
	{ "any", "bad.test", 22, WAY_TCP, "", "", ACTION_DENY, ST_DENIED_RULE },
	{ "any", "203.0.113.9", 22, WAY_TCP, "", "", ACTION_DENY, ST_DENIED_PORT },
	/* exact names and wildcards, label by label */
	{ "p", "ok.test", 443, WAY_ANY, "", "", ACTION_TUNNEL, ST_OK },
	{ "p", "ok.test", 443, WAY_TLS, "", "", ACTION_TUNNEL, ST_OK },
	{ "p", "OK.test.", 443, WAY_TLS, "", "", ACTION_TUNNEL, ST_OK },
	{ "p", "ok.test", 80, WAY_ANY, "", "", ACTION_DENY, ST_DENIED_PORT },
	{ "p", "ok.test", 443, WAY_TCP, "", "", ACTION_DENY, ST_DENIED_PROTOCOL },
	{ "p", "notok.test", 443, WAY_TLS, "", "", ACTION_DENY, ST_DENIED },
	{ "p", "ok.test.evil.test", 443, WAY_TLS, "", "", ACTION_DENY, ST_DENIED },
	{ "p", "a.ok.test", 443, WAY_TLS, "", "", ACTION_DENY, ST_DENIED },
	{ "p", "wild.test", 443, WAY_TLS, "", "", ACTION_DENY, ST_DENIED },
	{ "p", "a.wild.test", 443, WAY_TLS, "", "", ACTION_TUNNEL, ST_OK },
	{ "p", "a.b.c.wild.test", 443, WAY_TLS, "", "", ACTION_TUNNEL, ST_OK },
	{ "p", "notwild.test", 443, WAY_TLS, "", "", ACTION_DENY, ST_DENIED },
	/* deny wins */
	{ "p", "bad.wild.test", 443, WAY_TLS, "", "", ACTION_DENY, ST_DENIED_RULE },
	{ "p", "x.bad.wild.test", 443, WAY_ANY, "", "", ACTION_DENY, ST_DENIED_RULE },
	{ "p", "elsewhere.example", 25, WAY_ANY, "", "", ACTION_DENY, ST_DENIED_RULE },
	{ "p", "db.test.example", 9050, WAY_TCP, "", "", ACTION_DENY, ST_DENIED_RULE },
	/* methods and paths */
	{ "p", "api.test.example", 80, WAY_ANY, "", "", ACTION_HTTP, ST_OK },
	{ "p", "api.test.example", 443, WAY_ANY, "", "", ACTION_HTTP, ST_OK },
	{ "p", "api.test.example", 443, WAY_TLS, "", "", ACTION_INTERCEPT, ST_OK },
	{ "p", "api.test.example", 80, WAY_HTTP, "GET", "/v1/a/b", ACTION_HTTP, ST_OK },
	{ "p", "api.test.example", 80, WAY_HTTP, "HEAD", "/v1/a", ACTION_HTTP, ST_OK },
	{ "p", "api.test.example", 80, WAY_HTTP, "get", "/v1/a", ACTION_DENY,
	  ST_DENIED_METHOD },
	{ "p", "api.test.example", 80, WAY_HTTP, "PUT", "/v1/a", ACTION_DENY,
	  ST_DENIED_METHOD },
	{ "p", "api.test.example", 80, WAY_HTTP, "GET", "/v2/a", ACTION_DENY,
	  ST_DENIED_PATH },
	{ "p", "api.test.example", 80, WAY_HTTP, "GET", "/x/1/y", ACTION_HTTP, ST_OK },
	{ "p", "api.test.example", 80, WAY_HTTP, "GET", "/x/1/2/y", ACTION_DENY,
	  ST_DENIED_PATH },
	{ "p", "api.test.example", 8080, WAY_HTTP, "GET", "/v1/", ACTION_DENY,
	  ST_DENIED_PORT },
	{ "p", "two.test.example", 443, WAY_TLS, "", "", ACTION_TUNNEL, ST_OK },
	{ "p", "two.test.example", 443, WAY_ANY, "", "", ACTION_TUNNEL, ST_OK },
	{ "p", "default.test.example", 80, WAY_HTTP, "PATCH", "/", ACTION_HTTP, ST_OK },
	{ "p", "default.test.example", 8443, WAY_TLS, "", "", ACTION_DENY,
	  ST_DENIED_PORT },
	/* a deny rule that looks at bytes: seen where they are seen, else nothing
	   passes */
	{ "p", "a.watched.example", 80, WAY_HTTP, "GET", "/secret/1", ACTION_DENY,
	  ST_DENIED_RULE },
	{ "p", "a.watched.example", 80, WAY_HTTP, "HEAD", "/secret/1", ACTION_DENY,
	  ST_DENIED_RULE },
	{ "p", "a.watched.example", 80, WAY_HTTP, "GET", "/open", ACTION_HTTP, ST_OK },
	{ "p", "a.watched.example", 443, WAY_TLS, "", "", ACTION_INTERCEPT, ST_OK },
	{ "p", "mixed.test.example", 80, WAY_ANY, "", "", ACTION_TUNNEL, ST_OK },
	{ "p", "mixed.test.example", 80, WAY_HTTP, "DELETE", "/", ACTION_DENY,
	  ST_DENIED_RULE },
	/* tcp */
	{ "p", "db.test.example", 5432, WAY_ANY, "", "", ACTION_TCP, ST_OK },
	{ "p", "db.test.example", 9100, WAY_TCP, "", "", ACTION_TCP, ST_OK },
	{ "p", "db.test.example", 9101, WAY_TCP, "", "", ACTION_DENY, ST_DENIED_PORT },
	{ "p", "db.test.example", 5432, WAY_TLS, "", "", ACTION_TCP, ST_OK },
	{ "p", "db.test.example", 5432, WAY_HTTP, "GET", "/", ACTION_TCP, ST_OK },
	/* literals */
	{ "p", "192.0.2.7", 22, WAY_ANY, "", "", ACTION_TCP, ST_OK },
	{ "p", "192.0.2.7", 23, WAY_ANY, "", "", ACTION_DENY, ST_DENIED_PORT },
	{ "p", "192.0.2.66", 22, WAY_ANY, "", "", ACTION_DENY, ST_DENIED_RULE },
	{ "p", "198.51.100.1", 443, WAY_ANY, "", "", ACTION_DENY, ST_IP_LITERAL },
	/* shared hosting is not carried unread */
	{ "p", "shared.github.io", 443, WAY_TLS, "", "", ACTION_TUNNEL, ST_OK },
	{ "p", "other.github.io", 443, WAY_TLS, "", "", ACTION_INTERCEPT, ST_OK },
	{ "p", "other.github.io", 80, WAY_HTTP, "GET", "/", ACTION_HTTP, ST_OK },
	/* observe: only name, port, method and path are let pass */
	{ "o", "ok.test", 443, WAY_TLS, "", "", ACTION_TUNNEL, ST_OK },
	{ "o", "other.test", 443, WAY_TLS, "", "", ACTION_TUNNEL, ST_DENIED },
	{ "o", "other.test", 80, WAY_HTTP, "GET", "/", ACTION_HTTP, ST_DENIED },
	{ "o", "never.test.example", 443, WAY_ANY, "", "", ACTION_TUNNEL,
	  ST_DENIED_RULE },
	{ "o", "other.test", 22, WAY_TCP, "", "", ACTION_DENY, ST_DENIED },
	/* nothing allowed */
	{ "none", "ok.test", 443, WAY_ANY, "", "", ACTION_DENY, ST_DENIED },
	{ "missing", "ok.test", 443, WAY_ANY, "", "", ACTION_DENY, ST_NO_POLICY },
};

static int
set_up(void **state)
{
	return make_image_up(state, text);
}

static struct dest
dest_of(const char *host, uint16_t port)
{
	struct dest d;

	assert_int_equal(dest_from_host(str_from(host), port, &d), ST_OK);
	return d;
}

static void
every_question_of_the_table_has_its_one_answer(void **state)
{
	const struct image *im = *state;

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const struct row *r = &rows[i];
		struct dest d = dest_of(r->host, r->port);
		struct policy_question q = {
			.may.policy = image_policy_by_name(im, str_from(r->policy)),
			.dest = &d,
			.way = r->way,
			.method = str_from(r->method),
			.path = str_from(r->path),
		};
		struct policy_answer a;
		policy_judge(im, &q, &a);
		if (a.action != r->action || a.reason != r->reason)
			(void)fprintf(stderr, "row %zu %s:%u way %d: %d %s\n", i,
				      r->host, r->port, r->way, a.action,
				      status_code(a.reason));
		assert_int_equal(a.action, r->action);
		assert_int_equal(a.reason, r->reason);
		assert_int_equal(a.observed,
				 a.action != ACTION_DENY && a.reason != ST_OK);
	}
}

static void
a_decision_names_its_rule_by_file_and_line(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct image *im = *state;
	struct dest d = dest_of("bad.wild.test", 443);
	struct policy_question q = { .may.policy = image_policy_by_name(im, STR("p")),
				     .dest = &d,
				     .way = WAY_TLS };
	struct policy_answer a;

	buf_init(&b, 100);
	policy_judge(im, &q, &a);
	image_put_rule(&b, im, a.rule);
	assert_string_equal(buf_cstr(&b), "t.yaml:16");
}

static void
a_name_is_resolved_if_it_is_allowed_on_some_port(void **state)
{
	static const struct {
		const char *host;
		enum status reason;
	} names[] = {
		{ "ok.test", ST_OK },
		{ "db.test.example", ST_OK }, /* one of its ports is denied, not all */
		{ "a.watched.example", ST_OK },
		{ "bad.wild.test", ST_DENIED_RULE },
		{ "unknown.example", ST_DENIED },
	};
	const struct image *im = *state;
	uint32_t p = image_policy_by_name(im, STR("p"));

	for (size_t i = 0; i < COUNT_OF(names); i++) {
		struct dest d = dest_of(names[i].host, 1);
		struct policy_answer a;
		policy_judge_name(im, mandate_of(p), &d, &a);
		assert_int_equal(a.reason, names[i].reason);
	}
	assert_true(policy_is_by_name(im, p, STR("db.test.example")));
	assert_false(policy_is_by_name(im, p, STR("ok.test")));
	assert_false(policy_is_by_name(im, p, STR("192.0.2.7")));
}

static void
a_path_glob_means_segments(void **state)
{
	static const struct {
		const char *pattern, *path;
		bool matches;
	} globs[] = {
		{ "/", "/", true },
		{ "/", "/a", false },
		{ "/a", "/a", true },
		{ "/a", "/a/", false },
		{ "/a/", "/a/", true },
		{ "/*", "/a", true },
		{ "/*", "/a/b", false },
		{ "/*", "/a%2fb", true },
		{ "/**", "/", true },
		{ "/**", "/a/b/c", true },
		{ "/v1/**", "/v1", true },
		{ "/v1/**", "/v1/", true },
		{ "/v1/**", "/v1/a/b", true },
		{ "/v1/**", "/v10", false },
		{ "/v1/**", "/v2/v1/a", false },
		{ "/**/c", "/a/b/c", true },
		{ "/**/c", "/c", true },
		{ "/**/c", "/a/b/c/d", false },
		{ "/a/**/b/**/c", "/a/x/b/y/b/z/c", true },
		{ "/a/**/b/**/c", "/a/x/c", false },
		{ "/**/a/**", "/x/a", true },
		{ "/pre*post", "/prepost", true },
		{ "/pre*post", "/pre-x-post", true },
		{ "/pre*post", "/pre/post", false },
		{ "/a*b*c", "/abbc", true },
		{ "/a*b*c", "/acb", false },
		{ "/a/**/**", "/a", true },
		{ "/a/**/b", "/a", false },
		{ "/a@b", "/a%40b", true },
		{ "/a%40b", "/a@b", true },
		{ "/a%2fb", "/a%2Fb", true },
		{ "/a%2fb", "/a/b", false },
		{ "/a*%21", "/a%40!", true },
		{ "/a", "*", false },
		{ "*", "*", true },
		{ "/a", "", false },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(globs); i++)
		if (policy_path_matches(str_from(globs[i].pattern),
					str_from(globs[i].path)) != globs[i].matches)
			fail_msg("%s %s", globs[i].pattern, globs[i].path);
}

static const char address_text[] =
	"geo: {country_db: /c, asn_db: /a}\n"
	"policies:\n"
	"  p:\n"
	"    allow:\n"
	"      - {hosts: [pub.test.example]}\n"
	"      - {hosts: [priv.test.example], addresses: [10.0.0.0/8]}\n"
	"      - {hosts: [de.test.example], countries: [DE, FR]}\n"
	"      - {hosts: [as.test.example], asns: [64500]}\n"
	"      - {cidrs: [10.1.0.0/16, 0.0.0.0/0], ports: [22], protocol: tcp}\n"
	"    deny:\n"
	"      - {cidrs: [203.0.113.0/24, 9.9.9.0/24]}\n"
	"      - {countries: [XX]}\n"
	"  o: {mode: observe}\n";

static const struct placing {
	const char *policy, *host;
	uint16_t port;
	const char *addr, *country;
	uint32_t asn;
	enum status st;
} cases[] = {
	{ "p", "pub.test.example", 443, "8.8.8.8", "US", 1, ST_OK },
	{ "p", "pub.test.example", 443, "10.0.0.1", "", 0, ST_ADDRESS_PRIVATE },
	{ "p", "pub.test.example", 443, "127.0.0.1", "", 0, ST_ADDRESS_PRIVATE },
	{ "p", "pub.test.example", 443, "169.254.169.254", "", 0, ST_ADDRESS_METADATA },
	{ "p", "pub.test.example", 22, "8.8.8.8", "US", 1, ST_DENIED_PORT },
	{ "p", "unknown.example", 443, "8.8.8.8", "US", 1, ST_DENIED },
	{ "p", "pub.test.example", 443, "8.8.8.8", "XX", 1, ST_DENIED_RULE },
	{ "p", "pub.test.example", 443, "8.8.8.8", "", 1, ST_DENIED_RULE },
	{ "p", "pub.test.example", 443, "9.9.9.9", "US", 1, ST_DENIED_RULE },
	{ "p", "priv.test.example", 443, "10.2.3.4", "", 0, ST_OK },
	{ "p", "priv.test.example", 443, "8.8.8.8", "US", 0, ST_OK },
	{ "p", "priv.test.example", 443, "192.168.0.1", "", 0, ST_ADDRESS_PRIVATE },
	{ "p", "priv.test.example", 443, "::ffff:10.2.3.4", "", 0, ST_OK },
	{ "p", "pub.test.example", 443, "64:ff9b::a00:1", "", 0, ST_ADDRESS_PRIVATE },
	{ "p", "de.test.example", 443, "8.8.8.8", "DE", 0, ST_OK },
	{ "p", "de.test.example", 443, "8.8.8.8", "US", 0, ST_DENIED_COUNTRY },
	{ "p", "as.test.example", 443, "8.8.8.8", "DE", 64500, ST_OK },
	{ "p", "as.test.example", 443, "8.8.8.8", "DE", 64501, ST_DENIED_COUNTRY },
	{ "p", "10.1.2.3", 22, "10.1.2.3", "", 0, ST_OK },
	{ "p", "8.8.4.4", 22, "8.8.4.4", "US", 0, ST_OK },
	{ "p", "127.0.0.1", 22, "127.0.0.1", "", 0, ST_ADDRESS_PRIVATE },
	{ "p", "169.254.169.254", 22, "169.254.169.254", "", 0, ST_ADDRESS_METADATA },
	{ "o", "any.test.example", 443, "8.8.8.8", "US", 0, ST_OK },
	{ "o", "any.test.example", 443, "10.0.0.1", "", 0, ST_ADDRESS_PRIVATE },
	{ "o", "any.test.example", 443, "169.254.169.254", "", 0, ST_ADDRESS_METADATA },
};

static void
each_address_is_judged_before_it_is_dialled(void **state)
{
	struct image *im = make_image(address_text);

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct dest d = dest_of(cases[i].host, cases[i].port);
		struct addr a;
		struct policy_place place = { .addr = &a, .asn = cases[i].asn };
		uint32_t rule;

		assert_true(addr_parse(str_from(cases[i].addr), &a));
		(void)memccpy(place.country, cases[i].country, '\0',
			      sizeof place.country);
		enum status st = policy_address(
			im,
			mandate_of(image_policy_by_name(im, str_from(cases[i].policy))),
			&d, &place, &rule);
		if (st != cases[i].st)
			fail_msg("case %zu %s %s: %s", i, cases[i].host, cases[i].addr,
				 status_code(st));
	}
	image_close(im);
}

static void
a_hundred_thousand_hosts_are_found_and_nothing_else(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	buf_init(&b, 8 << 20);
	buf_put(&b, STR("policies:\n  p:\n    allow:\n      - hosts:\n"));
	for (int i = 0; i < 100000; i++)
		buf_putf(&b, "        - %sh%d.example.com\n", i % 3 == 0 ? "'*." : "",
			 i);
	const char *all = buf_cstr(&b);
	assert_non_null(all);
	/* close the quotes that the wildcards opened */
	CLEANUP(buf_done) struct buf c = { 0 };
	buf_init(&c, 9 << 20);
	struct str rest = str_from(all);
	while (rest.n > 0) {
		struct str line = str_cut(&rest, '\n');
		buf_put(&c, line);
		if (str_has(line, '\''))
			buf_putc(&c, '\'');
		buf_putc(&c, '\n');
	}
	struct image *im = make_image(buf_cstr(&c));
	for (int i = 0; i < 100010; i += 7) {
		char host[64];
		bool is_wild = i % 3 == 0;
		(void)snprintf(host, sizeof host, "%sh%d.example.com",
			       is_wild ? "a.b." : "", i);
		struct dest d = dest_of(host, 443);
		struct policy_question q = { .dest = &d, .way = WAY_TLS };
		struct policy_answer a;
		policy_judge(im, &q, &a);
		assert_int_equal(a.reason, i < 100000 ? ST_OK : ST_DENIED);
	}
	image_close(im);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			every_question_of_the_table_has_its_one_answer, set_up,
			make_image_down),
		cmocka_unit_test_setup_teardown(
			a_decision_names_its_rule_by_file_and_line, set_up,
			make_image_down),
		cmocka_unit_test_setup_teardown(
			a_name_is_resolved_if_it_is_allowed_on_some_port, set_up,
			make_image_down),
		cmocka_unit_test(a_path_glob_means_segments),
		cmocka_unit_test(each_address_is_judged_before_it_is_dialled),
		cmocka_unit_test(a_hundred_thousand_hosts_are_found_and_nothing_else),
	};

	return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}

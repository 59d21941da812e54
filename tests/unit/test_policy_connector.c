#include "tests/unit/make_image.h"

#include "conf/auth_text.h"
#include "conf/policy.h"

static const char text[] =
	"connectors:\n"
	"  - name: tracker\n"
	"    hosts: [tracker.test, '*.tracker.example']\n"
	"    upstream: https://internal:8443\n"
	"    addresses: [10.0.0.0/8]\n"
	"    auth: {kind: bearer, secret: t}\n"
	"    allow:\n"
	"      - {methods: [GET, POST], paths: ['/api/**']}\n"
	"      - {methods: [GET], paths: ['/search'], query: [q, page]}\n"
	"    deny: [{paths: ['/api/admin/**']}, {query: [debug]}]\n"
	"  - name: admin\n"
	"    hosts: [tracker.test]\n"
	"    tenant: acme\n"
	"    users: [ann]\n"
	"    auth: {kind: query, secret: a, name: key}\n"
	"    allow: [{methods: [PUT], paths: ['/api/settings/*'], query: [v]}]\n"
	"  - name: cloud\n"
	"    hosts: ['*.s3.example']\n"
	"    auth: {kind: sigv4, secret: c, region: eu-west-1, service: s3, "
	"assume_role: "
	"'arn:aws:iam::1:role/r'}\n"
	"    allow: [{methods: [GET]}]\n"
	"policies:\n"
	"  p:\n"
	"    connectors: [tracker, admin, cloud]\n"
	"    allow:\n"
	"      - {hosts: [tracker.test], ports: [80], methods: [GET]}\n"
	"      - {hosts: [open.test]}\n"
	"    deny:\n"
	"      - {hosts: [bad.tracker.example]}\n"
	"      - {cidrs: [10.9.0.0/16]}\n"
	"  o: {mode: observe, connectors: [tracker], deny: [{hosts: "
	"[x.tracker.example]}]}\n"
	"resolver: {servers: [192.0.2.1]}\n";

struct question {
	const char *policy, *host;
	uint16_t port;
	enum policy_way way;
	bool is_tls;
	const char *method, *path, *query;
	enum policy_action action;
	enum status reason;
	const char *connector; /* "": none */
};

static const struct question questions[] = {
	{ "p", "tracker.test", 443, WAY_ANY, false, "", "", "", ACTION_INTERCEPT, ST_OK,
	  "tracker" },
	{ "p", "tracker.test", 443, WAY_TLS, false, "", "", "", ACTION_INTERCEPT, ST_OK,
	  "tracker" },
	{ "p", "tracker.test", 443, WAY_TCP, false, "", "", "", ACTION_DENY,
	  ST_NEEDS_TLS, "tracker" },
	{ "p", "tracker.test", 443, WAY_HTTP, false, "GET", "/api/x", "", ACTION_DENY,
	  ST_NEEDS_TLS, "tracker" },
	{ "p", "tracker.test", 443, WAY_HTTP, true, "GET", "/api/x", "a=b",
	  ACTION_CONNECTOR, ST_OK, "tracker" },
	{ "p", "tracker.test", 443, WAY_HTTP, true, "HEAD", "/search", "q=1&page=2",
	  ACTION_CONNECTOR, ST_OK, "tracker" },
	{ "p", "tracker.test", 443, WAY_HTTP, true, "GET", "/search", "q=1&%70%61ge=2&",
	  ACTION_CONNECTOR, ST_OK, "tracker" },
	{ "p", "tracker.test", 443, WAY_HTTP, true, "GET", "/search", "q=1&sort",
	  ACTION_DENY, ST_DENIED_QUERY, "tracker" },
	{ "p", "tracker.test", 443, WAY_HTTP, true, "DELETE", "/api/x", "", ACTION_DENY,
	  ST_DENIED_METHOD, "tracker" },
	{ "p", "tracker.test", 443, WAY_HTTP, true, "GET", "/other", "", ACTION_DENY,
	  ST_DENIED_PATH, "tracker" },
	/* deny wins, also over another connector */
	{ "p", "tracker.test", 443, WAY_HTTP, true, "GET", "/api/admin/x", "",
	  ACTION_DENY, ST_DENIED_RULE, "tracker" },
	{ "p", "tracker.test", 443, WAY_HTTP, true, "PUT", "/api/settings/a", "debug=1",
	  ACTION_DENY, ST_DENIED_RULE, "admin" },
	/* the most specific path wins; the credential's own key may be there */
	{ "p", "tracker.test", 443, WAY_HTTP, true, "PUT", "/api/settings/a",
	  "v=1&key=x", ACTION_CONNECTOR, ST_OK, "admin" },
	{ "p", "tracker.test", 443, WAY_HTTP, true, "PUT", "/api/settings/a", "v=1&w=x",
	  ACTION_DENY, ST_DENIED_QUERY, "admin" },
	{ "p", "tracker.test", 443, WAY_HTTP, true, "GET", "/api/settings/a", "",
	  ACTION_CONNECTOR, ST_OK, "tracker" },
	/* hosts and ports around it */
	{ "p", "a.tracker.example", 443, WAY_TLS, false, "", "", "", ACTION_INTERCEPT,
	  ST_OK, "tracker" },
	{ "p", "bad.tracker.example", 443, WAY_TLS, false, "", "", "", ACTION_DENY,
	  ST_DENIED_RULE, "tracker" },
	{ "p", "tracker.example", 443, WAY_TLS, false, "", "", "", ACTION_DENY,
	  ST_DENIED, "" },
	{ "p", "a.tracker.example", 8443, WAY_TLS, false, "", "", "", ACTION_DENY,
	  ST_DENIED_PORT, "" },
	{ "p", "tracker.test", 80, WAY_HTTP, false, "GET", "/x", "", ACTION_HTTP, ST_OK,
	  "" },
	{ "p", "open.test", 443, WAY_TLS, false, "", "", "", ACTION_TUNNEL, ST_OK, "" },
	{ "p", "open.test", 443, WAY_HTTP, true, "PUT", "/x", "a", ACTION_HTTP, ST_OK,
	  "" },
	/* what belongs to a connector is not for observe to let pass */
	{ "o", "tracker.test", 443, WAY_HTTP, true, "GET", "/other", "", ACTION_DENY,
	  ST_DENIED_PATH, "tracker" },
	{ "o", "x.tracker.example", 443, WAY_TLS, false, "", "", "", ACTION_DENY,
	  ST_DENIED_RULE, "tracker" },
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

	assert_int_equal(dest_from_host_single(str_from(host), port, &d), ST_OK);
	return d;
}

static void
a_request_goes_to_the_connector_that_allows_it_or_nowhere(void **state)
{
	const struct image *im = *state;

	for (size_t i = 0; i < COUNT_OF(questions); i++) {
		const struct question *r = &questions[i];
		struct dest d = dest_of(r->host, r->port);
		struct policy_question q = {
			.may.policy = image_policy_by_name(im, str_from(r->policy)),
			.dest = &d,
			.way = r->way,
			.is_tls = r->is_tls,
			.method = str_from(r->method),
			.path = str_from(r->path),
			.query = str_from(r->query),
		};
		struct policy_answer a;
		policy_judge(im, &q, &a);
		uint32_t want =
			r->connector[0] == '\0'
				? CONNECTOR_NONE
				: image_connector_by_name(im, str_from(r->connector));
		if (a.action != r->action || a.reason != r->reason ||
		    a.connector != want)
			(void)fprintf(stderr, "row %zu %s: %d %s %u\n", i, r->host,
				      a.action, status_code(a.reason), a.connector);
		assert_int_equal(a.action, r->action);
		assert_int_equal(a.reason, r->reason);
		assert_int_equal(a.connector, want);
	}
}

static void
a_filter_that_wants_bytes_makes_no_tunnel(void **state)
{
	const struct image *im = *state;
	struct dest d = dest_of("open.test", 443);
	struct policy_question q = { .may.policy = image_policy_by_name(im, STR("p")),
				     .dest = &d,
				     .way = WAY_TLS,
				     .needs_bytes = true };
	struct policy_answer a;

	policy_judge(im, &q, &a);
	assert_int_equal(a.action, ACTION_INTERCEPT);
	d = dest_of("anything.test", 443);
	q.may.policy = image_policy_by_name(im, STR("o"));
	policy_judge(im, &q, &a);
	assert_int_equal(a.action, ACTION_INTERCEPT);
	assert_true(a.observed);
}

static void
a_connector_dials_its_upstream_and_its_token_endpoint_only(void **state)
{
	static const struct {
		const char *connector, *host;
		uint16_t port;
		bool may;
	} dials[] = {
		{ "tracker", "internal", 8443, true },
		{ "tracker", "internal", 443, false },
		{ "tracker", "tracker.test", 443,
		  false }, /* the upstream is elsewhere */
		{ "admin", "tracker.test", 443, true },
		{ "admin", "tracker.test", 80, false },
		{ "admin", "internal", 8443, false },
		{ "cloud", "b.s3.example", 443, true },
		{ "cloud", "s3.example", 443, false },
		{ "cloud", "sts.eu-west-1.amazonaws.com", 443, true },
	};
	const struct image *im = *state;

	for (size_t i = 0; i < COUNT_OF(dials); i++) {
		struct dest d = dest_of(dials[i].host, dials[i].port);
		uint32_t c = image_connector_by_name(im, str_from(dials[i].connector));
		assert_int_equal(policy_fetch(im, c, &d) == ST_OK, dials[i].may);
	}
	struct dest d = dest_of("internal", 8443);
	assert_int_equal(policy_fetch(im, CONNECTOR_NONE, &d), ST_DENIED);
}

static enum status
fetch(const struct image *im, const char *connector, const char *host, uint16_t port,
      const char *address)
{
	struct dest d = dest_of(host, port);
	struct addr a;
	struct policy_place place = { .addr = &a };

	assert_true(addr_parse(str_from(address), &a));
	return policy_fetch_address(
		im, image_connector_by_name(im, str_from(connector)),
		mandate_of(image_policy_by_name(im, STR("p"))), &d, &place);
}

static void
a_connectors_addresses_are_its_own_and_deny_rules_hold(void **state)
{
	const struct image *im = *state;

	assert_int_equal(fetch(im, "tracker", "internal", 8443, "10.1.2.3"), ST_OK);
	assert_int_equal(fetch(im, "tracker", "internal", 8443, "10.9.2.3"),
			 ST_DENIED_RULE);
	assert_int_equal(fetch(im, "tracker", "internal", 8443, "192.168.0.1"),
			 ST_ADDRESS_PRIVATE);
	assert_int_equal(fetch(im, "tracker", "internal", 8443, "169.254.169.254"),
			 ST_ADDRESS_METADATA);
	assert_int_equal(fetch(im, "tracker", "internal", 8443, "93.184.216.34"),
			 ST_OK);
	assert_int_equal(fetch(im, "admin", "tracker.test", 443, "10.1.2.3"),
			 ST_ADDRESS_PRIVATE);
	assert_int_equal(fetch(im, "admin", "else.test", 443, "93.184.216.34"),
			 ST_DENIED);
}

static void
who_may_use_a_connector_is_a_matter_of_policy_tenant_and_user(void **state)
{
	const struct image *im = *state;
	uint32_t p = image_policy_by_name(im, STR("p")),
		 o = image_policy_by_name(im, STR("o"));
	uint32_t admin = image_connector_by_name(im, STR("admin")),
		 tracker = image_connector_by_name(im, STR("tracker"));

	assert_true(policy_may_use(im, tracker, p, STR(""), STR("")));
	assert_true(policy_may_use(im, tracker, o, STR("any"), STR("any")));
	assert_true(policy_may_use(im, admin, p, STR("acme"), STR("ann")));
	assert_false(policy_may_use(im, admin, p, STR("acme"), STR("bob")));
	assert_false(policy_may_use(im, admin, p, STR("other"), STR("ann")));
	assert_false(policy_may_use(im, admin, o, STR("acme"), STR("ann")));
	assert_false(policy_may_use(im, CONNECTOR_NONE, p, STR("acme"), STR("ann")));
	assert_false(policy_may_use(im, tracker, POLICY_NONE, STR(""), STR("")));
}

static void
a_connector_keeps_what_was_written_and_defaults_for_the_rest(void **state)
{
	const struct image *im = *state;
	size_t n;
	const struct image_connector *all = image_connectors(im, &n), *c;

	assert_int_equal(n, 3);
	c = &all[image_connector_by_name(im, STR("tracker"))];
	assert_true(str_eq(image_str(im, c->group), STR("default")));
	assert_true(str_eq(image_str(im, c->upstream_host), STR("internal")));
	assert_int_equal(c->upstream_port, 8443);
	assert_true(c->is_redacting);
	assert_int_equal(c->auth.kind, AUTH_BEARER);
	assert_true(str_eq(image_str(im, c->auth.secret), STR("t")));
	c = &all[image_connector_by_name(im, STR("admin"))];
	assert_true(str_eq(image_str(im, c->group), STR("acme")));
	assert_int_equal(c->upstream_port, 0);
	c = &all[image_connector_by_name(im, STR("cloud"))];
	assert_true(str_eq(image_str(im, c->auth.token_host),
			   STR("sts.eu-west-1.amazonaws.com")));
	assert_false(c->auth.token_is_explicit);
	assert_string_equal(auth_kind_word((enum auth_kind)c->auth.kind), "sigv4");
	assert_true(policy_is_by_name(im, image_policy_by_name(im, STR("p")),
				      STR("b.s3.example")));
}

static void
patterns_meet_when_some_path_matches_both(void **state)
{
	static const struct {
		const char *a, *b;
		bool meet;
	} pairs[] = {
		{ "/a/**", "/a/b/c", true },       { "/a/**", "/b", false },
		{ "/a/*/c", "/a/b/*", true },      { "/a/*/c", "/a/b/*/d", false },
		{ "/**/x", "/a/**", true },        { "/**/x", "/**/y", false },
		{ "/a/**", "/b/**", false },       { "/a*", "/*b", true },
		{ "/a*c", "/ab*", true },          { "/a*c", "/b*", false },
		{ "/a*c", "/a*d", false },         { "/%61/**", "/a/x", true },
		{ "/**", "/anything/at", true },   { "/a/**/b", "/a/b", true },
		{ "/a/**/b/c", "/**/d/c", false },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(pairs); i++) {
		struct str a = str_from(pairs[i].a), b = str_from(pairs[i].b);
		assert_int_equal(policy_paths_meet(a, b), pairs[i].meet);
		assert_int_equal(policy_paths_meet(b, a), pairs[i].meet);
	}
	assert_true(policy_path_rank(STR("/a/b")) > policy_path_rank(STR("/a/*")));
	assert_true(policy_path_rank(STR("/a/*")) > policy_path_rank(STR("/a/**")));
	assert_true(policy_path_rank(STR("/a/b/**")) > policy_path_rank(STR("/a/*")));
	assert_true(policy_path_rank(STR("/**")) > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_request_goes_to_the_connector_that_allows_it_or_nowhere,
			set_up, make_image_down),
		cmocka_unit_test_setup_teardown(
			a_filter_that_wants_bytes_makes_no_tunnel, set_up,
			make_image_down),
		cmocka_unit_test_setup_teardown(
			a_connector_dials_its_upstream_and_its_token_endpoint_only,
			set_up, make_image_down),
		cmocka_unit_test_setup_teardown(
			a_connectors_addresses_are_its_own_and_deny_rules_hold, set_up,
			make_image_down),
		cmocka_unit_test_setup_teardown(
			who_may_use_a_connector_is_a_matter_of_policy_tenant_and_user,
			set_up, make_image_down),
		cmocka_unit_test_setup_teardown(
			a_connector_keeps_what_was_written_and_defaults_for_the_rest,
			set_up, make_image_down),
		cmocka_unit_test(patterns_meet_when_some_path_matches_both),
	};

	return cmocka_run_group_tests_name("policy_connector", tests, NULL, NULL);
}

/* Execution servers and `exec` as the configuration has them. */
#include "conf/exec.h"
#include "conf/image_format.h"
#include "conf/policy.h"
#include "tests/unit/exec_text.h"

static void
a_server_is_a_connector_that_nobody_may_call(void **state)
{
	struct image *im = make_image(SERVERS(STRONG ONE) CONNECTOR);
	size_t n, connectors_n;
	const struct image_exec_server *s = image_exec_servers(im, &n);
	const struct image_connector *c = image_connectors(im, &connectors_n);

	(void)state;
	assert_int_equal(n, 2);
	assert_true(str_eq(image_str(im, s[0].name), STR("one")));
	assert_int_equal(s[0].tier, EXEC_TIER_STANDARD);
	assert_int_equal(s[1].tier, EXEC_TIER_HIGH);
	assert_int_equal(s[0].weight, 1);
	assert_ptr_equal(image_exec_server_by_name(im, STR("strong")), &s[1]);
	assert_null(image_exec_server_by_name(im, STR("c")));
	assert_ptr_equal(image_exec_server_of(im, s[1].connector), &s[1]);
	assert_null(image_exec_server_of(im, image_connector_by_name(im, STR("c"))));

	c += s[0].connector;
	assert_true(str_eq(image_str(im, c->group), STR("server/one")));
	assert_true(str_eq(image_str(im, c->auth.name), STR("open-sandbox-api-key")));
	assert_true(str_eq(image_str(im, c->auth.secret), STR("os/one")));
	assert_int_equal(c->auth.kind, AUTH_HEADER);
	assert_int_equal(c->hosts_n, 0);
	assert_true(c->is_listed && c->upstream_is_plain);

	/* The address that the url names may be dialled, and no other. */
	struct dest d;
	struct addr here = { 4, { 127, 0, 0, 1 } }, other = { 4, { 127, 0, 0, 2 } };
	struct policy_place place = { .addr = &here };
	assert_int_equal(policy_upstream(im, s[0].connector, &d), ST_OK);
	assert_int_equal(d.port, 8080);
	assert_int_equal(policy_fetch_address(im, s[0].connector,
					      mandate_of(POLICY_NONE), &d, &place),
			 ST_OK);
	place.addr = &other;
	assert_int_equal(policy_fetch_address(im, s[0].connector,
					      mandate_of(POLICY_NONE), &d, &place),
			 ST_ADDRESS_PRIVATE);
	image_close(im);
}

static void
endpoints_lie_where_the_server_says(void **state)
{
	struct image *im =
		make_image(SERVER("url: 'http://127.0.0.1', key: k, endpoints: "
				  "[127.0.0.0/8, 172.30.0.0/16, 'fd00::/8']"));
	const struct image_exec_server *s = image_exec_server_by_name(im, STR("one"));
	static const struct {
		const char *addr;
		bool is_allowed;
	} cases[] = {
		{ "127.0.0.1", true },      { "172.30.255.1", true },
		{ "172.31.0.1", false },    { "::ffff:127.0.0.1", true },
		{ "fd00::1", true },        { "::1", false },
		{ "192.0.2.1", false },     { "169.254.169.254", false },
		{ "fd00:ec2::254", false }, /* metadata, though in range */
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct addr a;
		assert_true(addr_parse(str_from(cases[i].addr), &a));
		assert_int_equal(exec_endpoint_allowed(im, s, &a), cases[i].is_allowed);
	}
	image_close(im);
}

static void
the_first_rule_that_matches_places(void **state)
{
	const struct exec_pair team = { STR("team"), STR("red") };
	const struct str far[] = { STR("a.test"), STR("*.corp.test") };
	const struct str all[] = { STR("*") };
	const struct {
		struct exec_shape shape;
		uint32_t rule;
		enum exec_tier tier;
	} cases[] = {
		{ { .image = STR("x") }, EXEC_NO_RULE, EXEC_TIER_STANDARD },
		{ { .image = STR("odd/x"), .agent = STR("safe") },
		  0,
		  EXEC_TIER_STANDARD },
		{ { .image = STR("odd/x"), .agent = STR("safer") }, 1, EXEC_TIER_HIGH },
		{ { .entrypoint = STR("bash -c x") }, 2, EXEC_TIER_HIGH },
		{ { .labels = &team, .labels_n = 1 }, 3, EXEC_TIER_HIGH },
		{ { .has_volumes = true }, EXEC_NO_RULE, EXEC_TIER_STANDARD },
		{ { .has_volumes = true, .user = STR("u") }, 4, EXEC_TIER_HIGH },
		{ { .hosts = far, .hosts_n = 1 }, EXEC_NO_RULE, EXEC_TIER_STANDARD },
		{ { .hosts = far, .hosts_n = 2 }, 5, EXEC_TIER_HIGH },
		{ { .hosts = all, .hosts_n = 1 }, 5, EXEC_TIER_HIGH },
		{ { .memory = 1073741824 }, EXEC_NO_RULE, EXEC_TIER_STANDARD },
		{ { .memory = 1073741825 }, 6, EXEC_TIER_HIGH },
		{ { .memory = UINT64_MAX }, 6, EXEC_TIER_HIGH },
		{ { .cpu_milli = 2001 }, 7, EXEC_TIER_HIGH },
		{ { .risk = RISK_MEDIUM }, 8, EXEC_TIER_HIGH },
		{ { .risk = RISK_HIGH }, 8, EXEC_TIER_HIGH },
	};
	struct image *im = make_image(
		SERVERS(ONE STRONG) "exec:\n  placement:\n"
				    "  - {tier: standard, agents: [safe]}\n"
				    "  - {tier: high, images: ['odd/*']}\n"
				    "  - {tier: high, entrypoints: ['bash *']}\n"
				    "  - {tier: high, labels: {team: red}}\n"
				    "  - {tier: high, volumes: true, users: [u]}\n"
				    "  - {tier: high, network: [git.corp.test]}\n"
				    "  - {tier: high, memory_over: 1GiB}\n"
				    "  - {tier: high, cpu_over: 2}\n"
				    "  - {tier: high, risk: medium}\n");

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct exec_placing p = exec_place_tier(im, &cases[i].shape);
		assert_int_equal(p.rule, cases[i].rule);
		assert_int_equal(p.tier, cases[i].tier);
	}
	CLEANUP(buf_done) struct buf b = { 0 };
	struct exec_placing p = { EXEC_TIER_HIGH, 1 };
	buf_init(&b, 100);
	exec_put_placing(&b, im, &p);
	assert_string_equal(buf_cstr(&b), "t.yaml:8: tier high");
	image_close(im);
}

static void
without_a_standard_server_all_is_strong(void **state)
{
	struct image *im = make_image(SERVERS(STRONG));
	struct exec_shape s = { .image = STR("x") };

	(void)state;
	assert_int_equal(exec_place_tier(im, &s).tier, EXEC_TIER_HIGH);
	image_close(im);
}

static void
images_volumes_and_ports_are_those_that_are_listed(void **state)
{
	struct image *im = make_image(
		EXEC("images: ['sg/*', python], volumes: ['/data/**', '/x/*/y', "
		     "'pvc:team-*'], login_ports: [8080, 9000-9010]"));
	struct image *open = make_image(SERVERS(ONE));

	(void)state;
	assert_true(exec_image_allowed(im, STR("sg/a/b:1")));
	assert_true(exec_image_allowed(im, STR("python")));
	assert_false(exec_image_allowed(im, STR("python:3")));
	assert_false(exec_image_allowed(im, STR("evil/sg/a")));
	assert_false(exec_image_allowed(im, STR("sg/a\n")));
	assert_true(exec_image_allowed(open, STR("any:1")));
	assert_false(exec_image_allowed(open, STR("")));

	static const char *const fine[] = { "/data", "/data/a/b", "/data/", "/x/z/y",
					    "/data/..a" };
	static const char *const wrong[] = {
		"/",         "",          "data",      "/data/../etc",
		"/data/.",   "/data//a",  "/datas",    "/x/z/z/y",
		"/data/a\n", "/%64ata/a", "pvc:team-a"
	};
	for (size_t i = 0; i < COUNT_OF(fine); i++)
		assert_true(
			exec_volume_allowed(im, EXEC_VOLUME_HOST, str_from(fine[i])));
	for (size_t i = 0; i < COUNT_OF(wrong); i++)
		assert_false(
			exec_volume_allowed(im, EXEC_VOLUME_HOST, str_from(wrong[i])));
	assert_true(exec_volume_allowed(im, EXEC_VOLUME_CLAIM, STR("team-a")));
	assert_false(exec_volume_allowed(im, EXEC_VOLUME_CLAIM, STR("a")));
	assert_false(exec_volume_allowed(im, EXEC_VOLUME_CLAIM, STR("/data/a")));
	assert_false(exec_volume_allowed(open, EXEC_VOLUME_HOST, STR("/data")));

	assert_true(exec_login_goes_on(im, 8080));
	assert_true(exec_login_goes_on(im, 9005));
	assert_false(exec_login_goes_on(im, 8081));
	assert_false(exec_login_goes_on(open, 8080));
	image_close(open);
	image_close(im);
}

static void
variables_that_steer_opensandbox_never_pass(void **state)
{
	struct image *im = make_image(EXEC("env_deny: ['AWS_*']"));
	static const char *const denied[] = {
		"OPENSANDBOX_EGRESS_MITMPROXY_SSL_INSECURE",
		"OPENSANDBOX_CREDENTIAL_PROXY_SOCKET",
		"OPENSANDBOX_LIFECYCLE",
		"opensandbox_egress_deny_webhook",
		"EXECD",
		"EXECD_ENVS",
		"EXECD_ACCESS_TOKEN",
		"EXECD_BOOTSTRAP_PRE_SCRIPT",
		"BOOTSTRAP_CMD",
		"BOOTSTRAP_SHELL",
		"AWS_SECRET_ACCESS_KEY",
		"A=B",
		"EXECD=x",
		"A B",
		"A\n",
		"",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(denied); i++)
		assert_true(exec_env_denied(im, str_from(denied[i])));
	assert_false(exec_env_denied(im, STR("PATH")));
	assert_false(exec_env_denied(im, STR("MY_EXECD")));
	assert_false(exec_env_denied(im, STR("aws_region")));
	image_close(im);
}

static void
quantities_are_read_as_kubernetes_writes_them(void **state)
{
	uint64_t v = 7;

	(void)state;
	assert_true(exec_parse_cpu(STR("500m"), &v) && v == 500);
	assert_true(exec_parse_cpu(STR("2"), &v) && v == 2000);
	assert_true(exec_parse_cpu(STR("0.25"), &v) && v == 250);
	assert_true(exec_parse_memory(STR("512Mi"), &v) && v == 536870912);
	assert_true(exec_parse_memory(STR("1.5G"), &v) && v == 1500000000);
	assert_true(exec_parse_memory(STR("0"), &v) && v == 0);
	static const char *const bad[] = {
		"",    "m",    "-1",  "1.", "1.2345",        "1 Gi",
		"1gb", "0x10", "1e3", "01", "100000000000Ti"
	};
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		assert_false(exec_parse_memory(str_from(bad[i]), &v));
		assert_false(exec_parse_cpu(str_from(bad[i]), &v));
	}
	assert_int_equal(v, 0);
}

static void
a_person_is_asked_from_the_level_on_that_is_written(void **state)
{
	struct image *high = make_image(SERVERS(ONE));
	struct image *medium = make_image(EXEC("approval: medium"));
	struct image *never = make_image(EXEC("approval: never"));

	(void)state;
	assert_true(exec_needs_approval(high, RISK_HIGH));
	assert_false(exec_needs_approval(high, RISK_MEDIUM));
	assert_true(exec_needs_approval(medium, RISK_MEDIUM));
	assert_false(exec_needs_approval(medium, RISK_LOW));
	assert_false(exec_needs_approval(never, RISK_HIGH));
	image_close(high);
	image_close(medium);
	image_close(never);
}

static void
rules_of_risk_are_there_where_nobody_wrote_any(void **state)
{
	struct image *shipped = make_image(SERVERS(ONE));
	struct image *own = make_image(
		SERVERS(ONE) "risk: {rules: [{level: low, why: w, command: [ls]}]}\n");
	struct image *none = make_image("workers: 1\n");
	struct risk_question q = { .kind = RISK_COMMAND, .text = STR("rm -rf /etc") };
	struct risk_answer a;
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	risk_judge(shipped, &q, &a);
	assert_int_equal(a.level, RISK_HIGH);
	buf_init(&b, 1000);
	risk_put_reason(&b, shipped, &a);
	assert_true(
		str_starts(str_from(buf_cstr(&b)), STR("shipped/risk/default.yaml:")));
	risk_judge(own, &q, &a);
	assert_int_equal(a.level, RISK_LOW);
	risk_judge(none, &q, &a);
	assert_int_equal(a.level, RISK_LOW);
	image_close(shipped);
	image_close(own);
	image_close(none);
}

static enum status
load_keys(const char *keys, struct image **ret_im)
{
	static const char text[] = JWT("issuer: i, audience: a, jwks_file: keys.json");
	CLEANUP(report_done) struct report r = { 0 };
	struct conf_files files;
	struct conf *c = NULL;
	int fd = -1;

	assert_int_equal(report_init(&r), ST_OK);
	conf_files_init(&files);
	assert_int_equal(conf_files_add(&files, CONF_MAIN, STR("t.yaml"), STR(text)),
			 ST_OK);
	assert_int_equal(
		conf_files_add(&files, CONF_OTHER, STR("keys.json"), str_from(keys)),
		ST_OK);
	enum status st = conf_compile(&files, &r, &c);
	if (st == ST_OK) {
		assert_int_equal(conf_seal(c, &fd), ST_OK);
		assert_int_equal(image_open(fd, ret_im), ST_OK);
		(void)close(fd);
	}
	conf_free(c);
	conf_files_done(&files);
	return st;
}

static void
keys_of_an_issuer_are_in_the_image(void **state)
{
	static const char *const bad[] = { "",      "[]",   "{",         "{\"keys\":[}",
					   "{} {}", "null", "{\"a\":1}x" };
	struct image *im = NULL;
	size_t n;

	(void)state;
	assert_int_equal(load_keys("{\"keys\": []}\n", &im), ST_OK);
	const struct image_exec_jwt *j = image_exec_jwts(im, &n);
	assert_int_equal(n, 1);
	assert_true(str_eq(image_str(im, j->jwks), STR("{\"keys\": []}\n")));
	assert_true(str_eq(image_str(im, j->user_claim), STR("sub")));
	assert_int_equal(j->jwks_connector, CONNECTOR_NONE);
	assert_int_equal(j->scopes, EXEC_SCOPES_ALL);
	assert_false(j->may_delegate);
	image_close(im);
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		assert_int_equal(load_keys(bad[i], &im), ST_BAD_CONFIG);
}

static void
an_image_without_exec_has_empty_lists(void **state)
{
	struct image *im = make_image("workers: 1\n");
	const struct image_exec *e = image_exec(im);

	(void)state;
	assert_int_equal(e->images_n, 0);
	assert_int_equal(e->webhook, CONNECTOR_NONE);
	assert_int_equal(e->policy, POLICY_NONE);
	assert_int_equal(image_number(im, OPT_EXEC_IDLE), EXEC_IDLE_PAUSE);
	assert_int_equal(image_number(im, OPT_EXEC_TIMEOUT), 3600000);
	image_close(im);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_is_a_connector_that_nobody_may_call),
		cmocka_unit_test(endpoints_lie_where_the_server_says),
		cmocka_unit_test(the_first_rule_that_matches_places),
		cmocka_unit_test(without_a_standard_server_all_is_strong),
		cmocka_unit_test(images_volumes_and_ports_are_those_that_are_listed),
		cmocka_unit_test(variables_that_steer_opensandbox_never_pass),
		cmocka_unit_test(quantities_are_read_as_kubernetes_writes_them),
		cmocka_unit_test(a_person_is_asked_from_the_level_on_that_is_written),
		cmocka_unit_test(rules_of_risk_are_there_where_nobody_wrote_any),
		cmocka_unit_test(keys_of_an_issuer_are_in_the_image),
		cmocka_unit_test(an_image_without_exec_has_empty_lists),
	};

	return cmocka_run_group_tests_name("conf_exec", tests, NULL, NULL);
}

/* Network policies: read into one form, narrowed by each other, and told to the gateway. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "conf/narrow.h"
#include "conf/policy.h"
#include "proxy/control/brain_policy.h"
#include "tests/unit/make_image.h"

static const char config[] =
	"policies:\n"
	"  out:\n"
	"    allow:\n"
	"      - {hosts: [a.test.example, '*.b.example'], ports: [443]}\n"
	"      - {hosts: [fine.example], methods: [GET]}\n"
	"      - {cidrs: [10.0.0.0/8], ports: [443], protocol: tcp}\n"
	"    deny: [{hosts: [x.b.example]}]\n"
	"resolver: {servers: [192.0.2.1]}\n";

static int
image_up(void **state)
{
	return make_image_up(state, config);
}

static json_t *
policy_from(const char *text)
{
	CLEANUP(buf_done) struct buf why = { 0 };
	json_t *from = json_loads(text, JSON_DECODE_ANY, NULL), *to = NULL;

	assert_non_null(from);
	buf_init(&why, 512);
	if (netpolicy_read(from, &to, &why) != ST_OK)
		to = NULL;
	json_decref(from);
	return to;
}

static void
a_policy_is_read_into_one_form(void **state)
{
	static const char *const bad[] = {
		"[]",
		"{\"defaultAction\":\"maybe\"}",
		"{\"default_action\":\"allow\"}",
		"{\"egress\":{}}",
		"{\"egress\":[{\"action\":\"allow\"}]}",
		"{\"egress\":[{\"action\":\"pass\",\"target\":\"a.b\"}]}",
		"{\"egress\":[{\"action\":\"allow\",\"target\":\"*\"}]}",
		"{\"egress\":[{\"action\":\"allow\",\"target\":\"a.*.b\"}]}",
		"{\"egress\":[{\"action\":\"allow\",\"target\":\"http://a.b\"}]}",
		"{\"egress\":[{\"action\":\"allow\",\"target\":\"10.0.0.1/8\"}]}",
		"{\"egress\":[{\"action\":\"allow\",\"target\":\"127.1\"}]}",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		assert_null(policy_from(bad[i]));
	json_t *p = policy_from(
		"{\"egress\":[{\"action\":\"Allow\",\"target\":\"*.EXAMPLE.com\","
		"\"more\":1}]}");
	char *text = json_dumps(p, JSON_COMPACT);
	assert_string_equal(
		text, "{\"defaultAction\":\"deny\",\"egress\":[{\"action\":\"allow\","
		      "\"target\":\"*.example.com\"}]}");
	free(text);
	assert_true(netpolicy_allows(p, STR("a.b.example.com")));
	assert_false(netpolicy_allows(p, STR("example.com")));
	json_decref(p);
	p = policy_from("null");
	assert_string_equal(netpolicy_mode(p), "deny_all");
	json_decref(p);
}

static void
the_first_rule_that_meets_wins(void **state)
{
	json_t *p = policy_from("{\"defaultAction\":\"allow\",\"egress\":["
				"{\"action\":\"allow\",\"target\":\"a.x.test\"},"
				"{\"action\":\"deny\",\"target\":\"*.x.test\"},"
				"{\"action\":\"deny\",\"target\":\"10.0.0.0/8\"}]}");

	(void)state;
	assert_true(netpolicy_allows(p, STR("a.x.test")));
	assert_false(netpolicy_allows(p, STR("b.x.test")));
	assert_true(netpolicy_allows(p, STR("x.test")));
	assert_false(netpolicy_allows(p, STR("10.1.2.3")));
	/* A part of it is denied: not all of it is allowed. */
	assert_false(netpolicy_allows(p, STR("*.test")));
	json_decref(p);
}

/* For every pair of policies and every name: allowed by both, or not at all. */
static void
what_is_narrowed_allows_what_both_allow(void **state)
{
	static const char *const targets[] = {
		"a.test", "*.a.test", "b.a.test",   "*.b.a.test",  "c.b.a.test",
		"*.test", "d.test",   "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3"
	};
	static const char *const asked[] = { "a.test",       "b.a.test", "c.b.a.test",
					     "x.c.b.a.test", "d.test",   "e.test",
					     "10.1.2.3",     "10.2.0.1", "11.0.0.1" };
	unsigned seed = 7;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		json_t *p[2], *both;

		for (int k = 0; k < 2; k++) {
			/* An operator's: denials first, default deny. */
			bool is_ours = k == 0;
			json_t *deny = json_array(), *allow = json_array(), *all;
			int n = rand_r(&seed) % 5;

			for (int i = 0; i < n; i++) {
				bool is_allow = rand_r(&seed) % 2 == 0;
				const char *t = targets[(size_t)rand_r(&seed) %
							COUNT_OF(targets)];
				json_t *rule = json_pack("{s:s, s:s}", "action",
							 is_allow ? "allow" : "deny",
							 "target", t);

				(void)json_array_append_new(
					is_ours && !is_allow ? deny : allow, rule);
			}
			all = deny;
			(void)json_array_extend(all, allow);
			json_decref(allow);
			p[k] = json_pack("{s:s, s:o}", "defaultAction",
					 !is_ours && rand_r(&seed) % 2 ? "allow"
								       : "deny",
					 "egress", all);
		}
		both = netpolicy_narrow(p[0], p[1]);
		assert_non_null(both);
		for (size_t i = 0; i < COUNT_OF(asked); i++) {
			struct str t = str_from(asked[i]);

			assert_int_equal(netpolicy_allows(both, t),
					 netpolicy_allows(p[0], t) &&
						 netpolicy_allows(p[1], t));
		}
		json_decref(both);
		json_decref(p[0]);
		json_decref(p[1]);
	}
}

static void
a_policy_is_told_to_the_gateway_in_its_own_form(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	json_t *p = policy_from("{\"defaultAction\":\"allow\",\"egress\":["
				"{\"action\":\"deny\",\"target\":\"*.x.test\"},"
				"{\"action\":\"allow\",\"target\":\"10.0.0.0/8\"}]}");

	(void)state;
	buf_init(&b, 4096);
	netpolicy_put_narrow(&b, p);
	assert_true(str_eq(str_of(b.p, b.len),
			   STR("default allow\ndeny *.x.test\nallow 10.0.0.0/8\n")));
	assert_true(narrow_is_text(str_of(b.p, b.len)));
	json_decref(p);
	p = policy_from("{}");
	buf_clear(&b);
	netpolicy_put_narrow(&b, p);
	assert_true(narrow_is_text(str_of(b.p, b.len)));
	json_decref(p);
}

static void
an_operators_policy_is_told_by_names_and_nothing_finer(void **state)
{
	const struct image *im = *state;
	json_t *p = netpolicy_of_image(im, image_policy_by_name(im, STR("out")));

	assert_true(netpolicy_allows(p, STR("a.test.example")));
	assert_true(netpolicy_allows(p, STR("y.b.example")));
	assert_false(netpolicy_allows(p, STR("x.b.example")));
	assert_false(netpolicy_allows(p, STR("fine.example")));
	assert_true(netpolicy_allows(p, STR("10.2.3.4")));
	json_decref(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_policy_is_read_into_one_form),
		cmocka_unit_test(a_policy_is_told_to_the_gateway_in_its_own_form),
		cmocka_unit_test(the_first_rule_that_meets_wins),
		cmocka_unit_test(what_is_narrowed_allows_what_both_allow),
		cmocka_unit_test(
			an_operators_policy_is_told_by_names_and_nothing_finer),
	};

	return cmocka_run_group_tests(tests, image_up, make_image_down);
}

/* What callers may ask for when a sandbox is made, and which labels and policies it may have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "conf/narrow.h"
#include "conf/policy.h"
#include "proxy/control/brain_json.h"
#include "proxy/control/brain_label.h"
#include "proxy/control/brain_policy.h"
#include "proxy/control/brain_request.h"
#include "tests/unit/make_image.h"

static const char config[] =
	"policies:\n"
	"  out:\n"
	"    allow:\n"
	"      - {hosts: [a.test.example, '*.b.example'], ports: [443]}\n"
	"      - {hosts: [fine.example], methods: [GET]}\n"
	"      - {cidrs: [10.0.0.0/8], ports: [443], protocol: tcp}\n"
	"    deny: [{hosts: [x.b.example]}]\n"
	"resolver: {servers: [192.0.2.1]}\n"
	"listeners: [{name: e, kind: opensandbox, address: '127.0.0.1:8090'}]\n"
	"servers:\n"
	"  - {name: one, url: 'http://127.0.0.1:8081', key: k/one, tier: standard, "
	"endpoints: "
	"[127.0.0.0/8]}\n"
	"exec:\n"
	"  volumes: ['/data/**', 'pvc:models']\n"
	"  images: ['sg/*']\n"
	"  env_deny: [NOT_THIS]\n"
	"  timeout: 30m\n"
	"  max_timeout: 2h\n";

#define IMAGE "\"image\":{\"uri\":\"sg/base\"},\"entrypoint\":[\"x\"]"

static int
image_up(void **state)
{
	*state = make_image(config);
	return 0;
}

static int
image_down(void **state)
{
	image_close(*state);
	return 0;
}

static enum status
read_it(const struct image *im, const char *text, struct request *r)
{
	CLEANUP(buf_done) struct buf why = { 0 };

	buf_init(&why, 1024);
	enum status st = request_read(im, str_from(text), r, &why);
	/* Every refusal says why, and fits. */
	assert_int_equal(why.st, ST_OK);
	assert_true((st == ST_OK) == (why.len == 0));
	return st;
}

static enum status
outcome(const struct image *im, const char *text)
{
	struct request r = { 0 };
	enum status st = read_it(im, text, &r);

	request_done(&r);
	return st;
}

static void
exactly_one_source_is_wanted(void **state)
{
	const struct image *im = *state;

	assert_int_equal(outcome(im, "{" IMAGE "}"), ST_OK);
	assert_int_equal(outcome(im, "{\"snapshotId\":\"sn-1\"}"), ST_OK);
	assert_int_equal(outcome(im, "{\"templateId\":\"t\"}"), ST_OK);
	assert_int_equal(outcome(im, "{\"extensions\":{\"poolRef\":\"p\"}}"), ST_OK);
	assert_int_equal(outcome(im, "{}"), ST_BAD_PARAMETER);
	assert_int_equal(outcome(im, "{" IMAGE ",\"snapshotId\":\"s\"}"),
			 ST_BAD_PARAMETER);
	assert_int_equal(outcome(im, "{" IMAGE ",\"snapshotId\":null}"), ST_OK);
	assert_int_equal(outcome(im, "{" IMAGE ",\"extensions\":{\"poolRef\":\"p\"}}"),
			 ST_BAD_PARAMETER);
	assert_int_equal(outcome(im, "{\"image\":\"sg/base\"}"), ST_BAD_PARAMETER);
	assert_int_equal(outcome(im, "{\"image\":{\"uri\":7}}"), ST_BAD_PARAMETER);
	assert_int_equal(outcome(im, "[]"), ST_BAD_PARAMETER);
	assert_int_equal(outcome(im, ""), ST_BAD_PARAMETER);
	assert_int_equal(outcome(im, "{\"snapshotId\":\"a\",\"snapshotId\":\"b\"}"),
			 ST_BAD_PARAMETER);
	assert_int_equal(outcome(im, "{\"image\":{\"uri\":\"evil/x\"}}"),
			 ST_EXEC_REFUSED);
}

static void
other_spellings_of_fields_are_refused(void **state)
{
	static const char *const twins[] = {
		"\"network_policy\":{}",   "\"NetworkPolicy\":{}",
		"\"snapshot_id\":\"x\"",   "\"secure_access\":true",
		"\"Volumes\":[]",          "\"ENV\":{}",
		"\"credential_proxy\":{}", "\"resource_limits\":{}",
		"\"time_out\":60",         "\"life-cycle\":{}",
		"\"template_id\":\"x\"",   "\"entry_point\":[]",
	};
	const struct image *im = *state;
	char text[512];

	for (size_t i = 0; i < COUNT_OF(twins); i++) {
		(void)snprintf(text, sizeof text, "{" IMAGE ",%s}", twins[i]);
		assert_int_equal(outcome(im, text), ST_BAD_PARAMETER);
	}
	assert_int_equal(outcome(im, "{" IMAGE ",\"new\":{\"deep\":[1]}}"), ST_OK);
	assert_int_equal(
		outcome(im, "{" IMAGE
			    ",\"lifecycle\":{\"pre_start\":{\"command\":[\"x\"]}}}"),
		ST_BAD_PARAMETER);
	assert_int_equal(outcome(im, "{" IMAGE ",\"extensions\":{\"pool_ref\":\"x\"}}"),
			 ST_BAD_PARAMETER);
}

static void
hooks_have_no_member_that_nobody_reads(void **state)
{
	static const struct {
		const char *hooks;
		enum status want;
	} rows[] = {
		{ "{\"preStart\":{\"command\":[\"x\"],\"timeoutSeconds\":3},"
		  "\"periodic\":"
		  "[{\"name\":\"n\",\"schedule\":\"s\",\"command\":[\"x\"],"
		  "\"timeoutSeconds\":3}]}",
		  ST_OK },
		{ "{\"postStart\":{\"command\":[\"x\"]}}", ST_BAD_PARAMETER },
		{ "{\"preStart\":{\"command\":[\"x\"],\"argv\":[\"y\"]}}",
		  ST_BAD_PARAMETER },
		{ "{\"periodic\":[{\"command\":[\"x\"],\"env\":{\"A\":\"b\"}}]}",
		  ST_BAD_PARAMETER },
		{ "{\"periodic\":[{\"command\":[\"x\"],\"Command\":[\"y\"]}]}",
		  ST_BAD_PARAMETER },
		{ "{\"periodic\":[[\"x\"]]}", ST_BAD_PARAMETER },
		{ "{\"preStart\":[\"x\"]}", ST_BAD_PARAMETER },
	};
	char text[512];

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		(void)snprintf(text, sizeof text, "{" IMAGE ",\"lifecycle\":%s}",
			       rows[i].hooks);
		if (outcome(*state, text) != rows[i].want)
			fail_msg("%s", text);
	}
}

static void
timeouts_have_bounds_and_a_default(void **state)
{
	const struct image *im = *state;
	struct request r = { 0 };

	assert_int_equal(read_it(im, "{" IMAGE "}", &r), ST_OK);
	assert_int_equal(r.timeout_s, 1800);
	assert_int_equal(json_integer_value(json_object_get(r.body, "timeout")), 1800);
	request_done(&r);
	assert_int_equal(read_it(im, "{" IMAGE ",\"timeout\":null}", &r), ST_OK);
	assert_int_equal(r.timeout_s, 7200);
	request_done(&r);
	assert_int_equal(outcome(im, "{" IMAGE ",\"timeout\":60}"), ST_OK);
	assert_int_equal(outcome(im, "{" IMAGE ",\"timeout\":7200}"), ST_OK);
	assert_int_equal(outcome(im, "{" IMAGE ",\"timeout\":7201}"), ST_BAD_PARAMETER);
	assert_int_equal(outcome(im, "{" IMAGE ",\"timeout\":59}"), ST_BAD_PARAMETER);
	assert_int_equal(outcome(im, "{" IMAGE ",\"timeout\":-1}"), ST_BAD_PARAMETER);
	assert_int_equal(outcome(im, "{" IMAGE ",\"timeout\":\"60\"}"),
			 ST_BAD_PARAMETER);
	assert_int_equal(outcome(im, "{" IMAGE ",\"timeout\":60.5}"), ST_BAD_PARAMETER);
}

static void
variables_that_steer_the_server_are_taken_out(void **state)
{
	struct request r = { 0 };

	assert_int_equal(
		read_it(*state,
			"{" IMAGE
			",\"env\":{\"A\":\"1\",\"OPENSANDBOX_LIFECYCLE\":\"x\","
			"\"EXECD_ACCESS_TOKEN\":\"x\",\"BOOTSTRAP_CMD\":\"x\","
			"\"EXECD\":\"x\","
			"\"OPENSANDBOX_EGRESS_MITMPROXY_SSL_INSECURE\":\"1\","
			"\"OPENSANDBOX_EGRESS_DENY_WEBHOOK\":\"u\",\"NOT_THIS\":\"1\"}"
			"}",
			&r),
		ST_OK);
	assert_int_equal(json_object_size(json_object_get(r.body, "env")), 1);
	assert_int_equal(json_array_size(r.stripped), 7);
	request_done(&r);
	assert_int_equal(outcome(*state, "{" IMAGE ",\"env\":{\"A\":1}}"),
			 ST_BAD_PARAMETER);
	assert_int_equal(outcome(*state, "{" IMAGE ",\"env\":[]}"), ST_BAD_PARAMETER);
}

#define VOLUME(text)                                                                   \
	"{" IMAGE ",\"volumes\":[{\"name\":\"v\",\"mountPath\":\"/m\"," text "}]}"

static void
only_volumes_that_are_allowed_are_mounted(void **state)
{
	static const char *const refused[] = {
		VOLUME("\"host\":{\"path\":\"/etc\"}"),
		VOLUME("\"host\":{\"path\":\"/data\"},\"subPath\":\"../etc\""),
		VOLUME("\"host\":{\"path\":\"/data/../etc\"}"),
		VOLUME("\"host\":{\"path\":\"/data//x\"}"),
		VOLUME("\"host\":{\"path\":\"data/x\"}"),
		VOLUME("\"host\":{\"path\":\"/data/"
		       "x\"},\"pvc\":{\"claimName\":\"models\"}"),
		VOLUME("\"host\":{\"path\":\"/data/x\"},\"sub_path\":\"../..\""),
		VOLUME("\"host\":{\"path\":\"/data/x\",\"Path\":\"/etc\"}"),
		VOLUME("\"pvc\":{\"claimName\":\"other\"}"),
		VOLUME("\"pvc\":{\"claimName\":\"models\",\"claim_name\":\"other\"}"),
		VOLUME("\"ossfs\":{\"bucket\":\"b\"}"),
		VOLUME("\"nfs\":{\"path\":\"/\"}"),
		"{" IMAGE ",\"volumes\":{}}",
		"{" IMAGE ",\"volumes\":[7]}",
		"{" IMAGE
		",\"volumes\":[{\"name\":\"v\",\"mountPath\":\"m\",\"host\":{\"path\":"
		"\"/data/x\"}}]}",
		"{" IMAGE
		",\"volumes\":[{\"name\":\"v\",\"mountPath\":\"/m/../etc\",\"host\":{"
		"\"path\":\"/data/x\"}}]}",
	};
	const struct image *im = *state;

	for (size_t i = 0; i < COUNT_OF(refused); i++)
		assert_int_not_equal(outcome(im, refused[i]), ST_OK);
	assert_int_equal(outcome(im, VOLUME("\"host\":{\"path\":\"/data/x\"}")), ST_OK);
	assert_int_equal(
		outcome(im,
			VOLUME("\"host\":{\"path\":\"/data/x\"},\"subPath\":\"a/b\"")),
		ST_OK);
	assert_int_equal(outcome(im, VOLUME("\"pvc\":{\"claimName\":\"models\"}")),
			 ST_OK);
}

/* "{where}" and "{name}" of a volume that is allowed otherwise. */
static enum status
mounted(const struct image *im, const char *name, const char *where)
{
	char text[512];

	(void)snprintf(text, sizeof text,
		       "{" IMAGE ",\"volumes\":[{\"name\":\"%s\",\"mountPath\":\"%s\","
		       "\"host\":{\"path\":\"/data/x\"}}]}",
		       name, where);
	return outcome(im, text);
}

static void
no_volume_lies_over_the_parts_of_opensandbox(void **state)
{
	static const char *const refused[] = {
		"/",
		"/opt",
		"/opt/opensandbox",
		"/opt/opensandbox/execd",
		"/opt/opensandbox/mitmproxy-ca-cert.pem",
	};
	static const char *const fine[] = { "/op",    "/opt/open", "/opt/opensandboxes",
					    "/opt/x", "/data",     "/optical" };

	for (size_t i = 0; i < COUNT_OF(refused); i++)
		assert_int_equal(mounted(*state, "v", refused[i]), ST_EXEC_REFUSED);
	for (size_t i = 0; i < COUNT_OF(fine); i++)
		assert_int_equal(mounted(*state, "v", fine[i]), ST_OK);
	assert_int_equal(mounted(*state, "sandgate-ca", "/data"), ST_EXEC_REFUSED);
}

static void
nobody_asks_for_a_container_with_more_rights(void **state)
{
	static const char *const asked[] = {
		"{" IMAGE ",\"extensions\":{\"bootstrap.execd.isolation\":\"enable\"}}",
		"{" IMAGE ",\"platform\":{\"os\":\"windows\",\"arch\":\"amd64\"}}",
		"{" IMAGE ",\"platform\":{\"os\":\"Windows\",\"arch\":\"amd64\"}}",
		"{" IMAGE ",\"platform\":{\"arch\":\"amd64\"}}",
	};
	char more[1024];
	struct image *im;

	(void)snprintf(more, sizeof more, "%s  more_rights: true\n", config);
	im = make_image(more);
	for (size_t i = 0; i < COUNT_OF(asked); i++) {
		assert_int_equal(outcome(*state, asked[i]), ST_EXEC_REFUSED);
		assert_int_equal(outcome(im, asked[i]), ST_OK);
	}
	image_close(im);
	assert_int_equal(outcome(*state, "{" IMAGE ",\"platform\":{\"os\":\"linux\","
					 "\"arch\":\"amd64\"}}"),
			 ST_OK);
	assert_int_equal(outcome(*state, "{" IMAGE ",\"platform\":{\"os\":\"linux\","
					 "\"OS\":\"windows\"}}"),
			 ST_BAD_PARAMETER);
}

static void
the_policy_and_labels_are_not_the_servers_to_see(void **state)
{
	struct request r = { 0 };

	assert_int_equal(
		read_it(*state,
			"{" IMAGE ",\"metadata\":{\"a\":\"b\"},\"networkPolicy\":{},"
			"\"credentialProxy\":{\"enabled\":true},\"extensions\":"
			"{\"sandgate.reuse\":\"agent\",\"x\":\"y\"}}",
			&r),
		ST_OK);
	assert_null(json_object_get(r.body, "metadata"));
	assert_null(json_object_get(r.body, "networkPolicy"));
	assert_null(json_object_get(r.body, "credentialProxy"));
	assert_int_equal(json_object_size(json_object_get(r.body, "extensions")), 1);
	assert_true(str_eq(r.reuse, STR("agent")));
	assert_non_null(r.policy);
	request_done(&r);
	assert_int_equal(outcome(*state, "{" IMAGE ",\"extensions\":{\"a\":1}}"),
			 ST_BAD_PARAMETER);
	assert_int_equal(
		outcome(*state, "{" IMAGE ",\"credentialProxy\":{\"enabled\":1}}"),
		ST_BAD_PARAMETER);
}

static void
commands_of_hooks_are_seen(void **state)
{
	struct request r = { 0 };

	assert_int_equal(
		read_it(*state,
			"{" IMAGE ",\"lifecycle\":{\"preStart\":{\"command\":[\"sh\","
			"\"-c\",\"a\"]},"
			"\"periodic\":[{\"name\":\"n\",\"schedule\":\"* * * * *\","
			"\"command\":[\"b\"]}]}}",
			&r),
		ST_OK);
	assert_int_equal(json_array_size(r.commands), 3);
	request_done(&r);
	assert_int_equal(outcome(*state, "{" IMAGE ",\"lifecycle\":{\"preStart\":{}}}"),
			 ST_BAD_PARAMETER);
	assert_int_equal(
		outcome(*state,
			"{" IMAGE
			",\"lifecycle\":{\"preStart\":{\"command\":\"rm -rf\"}}}"),
		ST_BAD_PARAMETER);
	assert_int_equal(
		outcome(*state, "{\"image\":{\"uri\":\"sg/x\"},\"entrypoint\":[]}"),
		ST_BAD_PARAMETER);
}

static void
amounts_are_read_as_kubernetes_writes_them(void **state)
{
	static const struct {
		const char *text;
		bool milli;
		uint64_t v; /* UINT64_MAX: refused */
	} rows[] = {
		{ "512Mi", false, 512ULL << 20 },
		{ "1Gi", false, 1ULL << 30 },
		{ "1.5Gi", false, 3ULL << 29 },
		{ "100M", false, 100000000 },
		{ "128974848", false, 128974848 },
		{ "500m", true, 500 },
		{ "2", true, 2000 },
		{ "0.25", true, 250 },
		{ "", true, UINT64_MAX },
		{ "m", true, UINT64_MAX },
		{ "-1", true, UINT64_MAX },
		{ "1e9", false, UINT64_MAX },
		{ "1 Gi", false, UINT64_MAX },
		{ "9999999999999Ti", false, UINT64_MAX },
		{ "999999999999Ti", false, UINT64_MAX },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint64_t v = UINT64_MAX;

		if (!request_quantity(str_from(rows[i].text), rows[i].milli, &v))
			v = UINT64_MAX;
		assert_int_equal(v, rows[i].v);
	}
}

static void
shape_of(const struct image *im, const char *text, bool with_policy, char ret[65])
{
	const struct request_counts counts = { .policy = with_policy };

	CLEANUP(buf_done) struct buf b = { 0 };
	struct request r = { 0 };

	assert_int_equal(read_it(im, text, &r), ST_OK);
	buf_init(&b, REQUEST_SHAPE);
	request_put_shape(&b, &r, &counts);
	assert_int_equal(b.len, REQUEST_SHAPE);
	memcpy(ret, b.p, 64);
	ret[64] = '\0';
	request_done(&r);
}

static void
a_shape_is_all_that_makes_two_differ(void **state)
{
	static const char *const same[] = {
		"{\"entrypoint\":[\"x\"],\"image\":{\"uri\":\"sg/"
		"base\"},\"timeout\":100}",
		"{" IMAGE ",\"metadata\":{\"a\":\"b\"}}",
		"{\"image\":{\"uri\":\"sg/"
		"base\",\"auth\":{\"username\":\"u\",\"password\":\"p\"}},"
		"\"entrypoint\":[\"x\"]}",
	};
	static const char *const others[] = {
		"{\"image\":{\"uri\":\"sg/base2\"},\"entrypoint\":[\"x\"]}",
		"{\"image\":{\"uri\":\"sg/base\"},\"entrypoint\":[\"y\"]}",
		"{" IMAGE ",\"env\":{\"A\":\"1\"}}",
		"{" IMAGE ",\"resourceLimits\":{\"cpu\":\"1\"}}",
		"{" IMAGE ",\"secureAccess\":true}",
		"{" IMAGE ",\"unknown\":1}",
	};
	const struct image *im = *state;
	char first[65], next[65];

	shape_of(im, "{" IMAGE "}", true, first);
	for (size_t i = 0; i < COUNT_OF(same); i++) {
		shape_of(im, same[i], true, next);
		assert_string_equal(first, next);
	}
	for (size_t i = 0; i < COUNT_OF(others); i++) {
		shape_of(im, others[i], true, next);
		assert_string_not_equal(first, next);
	}
	shape_of(im, "{" IMAGE ",\"networkPolicy\":{}}", true, next);
	assert_string_not_equal(first, next);
	shape_of(im, "{" IMAGE "}", false, first);
	shape_of(im, "{" IMAGE ",\"networkPolicy\":{}}", false, next);
	assert_string_equal(first, next);
}

static void
labels_are_of_kubernetes_form_and_never_ours(void **state)
{
	(void)state;
	assert_true(label_key_is_good(STR("name")));
	assert_true(label_key_is_good(STR("example.com/name")));
	assert_false(label_key_is_good(STR("")));
	assert_false(label_key_is_good(STR("/x")));
	assert_false(label_key_is_good(STR("x/")));
	assert_false(label_key_is_good(STR("a/b/c")));
	assert_false(label_key_is_good(STR("Example.com/name")));
	assert_false(label_key_is_good(STR("-x")));
	assert_true(label_value_is_good(STR("")));
	assert_false(label_value_is_good(STR("a b")));
	assert_false(label_value_is_good(STR("a-")));
	assert_true(label_is_reserved(STR("sandgate/user")));
	assert_true(label_is_reserved(STR("opensandbox.io/id")));
	assert_true(label_is_reserved(STR("x.opensandbox.io/id")));
	assert_false(label_is_reserved(STR("notopensandbox.io/id")));
	assert_false(label_is_reserved(STR("sandgate")));
}

static void
a_user_is_told_by_a_hash_that_tenants_do_not_share(void **state)
{
	CLEANUP(buf_done) struct buf a = { 0 }, b = { 0 };

	(void)state;
	buf_init(&a, LABEL_MAX);
	buf_init(&b, LABEL_MAX);
	label_put_user(&a, STR("t"), STR("u"));
	label_put_user(&b, STR("tu"), STR(""));
	assert_int_equal(a.st, ST_OK);
	assert_true(label_value_is_good(str_of(a.p, a.len)));
	assert_false(str_eq(str_of(a.p, a.len), str_of(b.p, b.len)));
}

/* Policies. */

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

static void
times_are_read_with_zones_and_bounds(void **state)
{
	static const struct {
		const char *text;
		uint64_t s; /* 0: refused */
	} rows[] = {
		{ "2026-01-02T03:04:05Z", 1767323045 },
		{ "2026-01-02T03:04:05.000000Z", 1767323045 },
		{ "2026-01-02T03:04:05.5Z", 1767323046 },
		{ "2026-01-02T04:04:05+01:00", 1767323045 },
		{ "2026-01-02t02:04:05-01:00", 1767323045 },
		{ "2026-01-02T03:04:05", 0 },
		{ "2026-13-02T03:04:05Z", 0 },
		{ "2026-01-02 03:04:05Z", 0 },
		{ "1969-01-02T03:04:05Z", 0 },
		{ "", 0 },
		{ "2026-01-02T03:04:05.Z", 0 },
		{ "2026-01-02T03:04:05Zx", 0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint64_t s = 0;

		assert_int_equal(brain_time_read(str_from(rows[i].text), &s),
				 rows[i].s != 0);
		assert_int_equal(s, rows[i].s);
	}
}

static void
ids_are_renamed_wherever_they_stand(void **state)
{
	const struct str up = STR("0f0e0d0c-1"), ours = STR("sb-x");
	json_t *v = json_loads(
		"{\"id\":\"0f0e0d0c-1\",\"m\":\"Sandbox 0f0e0d0c-1: "
		"0f0e0d0c-1\",\"a\":[{\"sandboxId\":\"0f0e0d0c-1\"}],\"n\":1}",
		0, NULL);

	(void)state;
	brain_json_rename(v, up, ours);
	char *text = json_dumps(v, JSON_COMPACT);
	assert_string_equal(text, "{\"id\":\"sb-x\",\"m\":\"Sandbox sb-x: sb-x\","
				  "\"a\":[{\"sandboxId\":\"sb-x\"}],\"n\":1}");
	free(text);
	json_decref(v);
	/* A short id is renamed where an id stands, and not in words. */
	v = json_loads("{\"id\":\"a\",\"m\":\"a\",\"state\":\"a\"}", 0, NULL);
	brain_json_rename(v, STR("a"), ours);
	text = json_dumps(v, JSON_COMPACT);
	assert_string_equal(text, "{\"id\":\"sb-x\",\"m\":\"a\",\"state\":\"a\"}");
	free(text);
	json_decref(v);
}

static void
queries_are_decoded_once_and_strictly(void **state)
{
	CLEANUP(buf_done) struct buf k = { 0 }, v = { 0 };
	struct str rest = STR("a=1&&b%3d=c%20d+e&f");
	bool bad = false;

	(void)state;
	buf_init(&k, 64);
	buf_init(&v, 64);
	assert_true(brain_query_next(&rest, &k, &v, &bad));
	assert_true(str_eq(str_of(k.p, k.len), STR("a")));
	assert_true(brain_query_next(&rest, &k, &v, &bad));
	assert_true(str_eq(str_of(k.p, k.len), STR("b=")));
	assert_true(str_eq(str_of(v.p, v.len), STR("c d e")));
	assert_true(brain_query_next(&rest, &k, &v, &bad));
	assert_int_equal(v.len, 0);
	assert_false(brain_query_next(&rest, &k, &v, &bad));
	assert_false(bad);
	for (size_t i = 0; i < 4; i++) {
		static const char *const broken[] = { "a=%", "a=%4", "a=%zz", "a=%00" };

		rest = str_from(broken[i]);
		bad = false;
		assert_false(brain_query_next(&rest, &k, &v, &bad));
		assert_true(bad);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hooks_have_no_member_that_nobody_reads),
		cmocka_unit_test(exactly_one_source_is_wanted),
		cmocka_unit_test(other_spellings_of_fields_are_refused),
		cmocka_unit_test(timeouts_have_bounds_and_a_default),
		cmocka_unit_test(variables_that_steer_the_server_are_taken_out),
		cmocka_unit_test(only_volumes_that_are_allowed_are_mounted),
		cmocka_unit_test(no_volume_lies_over_the_parts_of_opensandbox),
		cmocka_unit_test(nobody_asks_for_a_container_with_more_rights),
		cmocka_unit_test(the_policy_and_labels_are_not_the_servers_to_see),
		cmocka_unit_test(commands_of_hooks_are_seen),
		cmocka_unit_test(amounts_are_read_as_kubernetes_writes_them),
		cmocka_unit_test(a_shape_is_all_that_makes_two_differ),
		cmocka_unit_test(labels_are_of_kubernetes_form_and_never_ours),
		cmocka_unit_test(a_user_is_told_by_a_hash_that_tenants_do_not_share),
		cmocka_unit_test(a_policy_is_read_into_one_form),
		cmocka_unit_test(a_policy_is_told_to_the_gateway_in_its_own_form),
		cmocka_unit_test(the_first_rule_that_meets_wins),
		cmocka_unit_test(what_is_narrowed_allows_what_both_allow),
		cmocka_unit_test(
			an_operators_policy_is_told_by_names_and_nothing_finer),
		cmocka_unit_test(times_are_read_with_zones_and_bounds),
		cmocka_unit_test(ids_are_renamed_wherever_they_stand),
		cmocka_unit_test(queries_are_decoded_once_and_strictly),
	};

	return cmocka_run_group_tests(tests, image_up, image_down);
}

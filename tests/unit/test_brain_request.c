/* What callers may ask for when a sandbox is made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proxy/control/brain_request.h"
#include "tests/unit/make_image.h"

static const char config[] =
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
	return make_image_up(state, config);
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
	};

	return cmocka_run_group_tests(tests, image_up, make_image_down);
}

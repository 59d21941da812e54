/* Sandboxes that are started with our authority (`ca_file`). */
#include "tests/unit/brain_world.h"

#include "proxy/control/ca_file.h"

static const char trust_config[] =
	"policies: {p: {allow: [{hosts: ['*.example.test']}]}}\n"
	"resolver: {servers: [192.0.2.1]}\n"
	"listeners: [{name: e, kind: opensandbox, address: '127.0.0.1:8090'}]\n"
	"servers:\n"
	"  - {name: one, url: 'http://127.0.0.1:8081', key: k/one, network: sg, "
	"endpoints: [127.0.0.0/8], ca_file: /srv/ca/ca.pem}\n"
	"exec: {policy: p, volumes: ['/data/**'], env_deny: ['SOME*'], warm: [{name: "
	"w, "
	"tier: standard, size: 1, image: sg/warm}]}\n";

#define AUTHORITY                                                                      \
	"{\"name\":\"sandgate-ca\",\"mountPath\":"                                     \
	"\"/opt/opensandbox/mitmproxy-ca-cert.pem\",\"readOnly\":true,\"host\":"       \
	"{\"path\":\"/srv/ca/ca.pem\"}}"

static int
trust_up(void **state)
{
	int rc = world_up_with(state, trust_config);
	struct world *w = *state;

	map_init(&w->c.published, CA_FILE_PATHS);
	return rc;
}

static int
trust_down(void **state)
{
	struct world *w = *state;

	map_done(&w->c.published);
	return world_down(state);
}

#define WITH_TRUST(test) cmocka_unit_test_setup_teardown(test, trust_up, trust_down)

static struct fake_answer *
create(struct world *w, const char *body)
{
	return world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", body));
}

static void
written(struct world *w)
{
	assert_int_equal(map_put(&w->c.published, STR("/srv/ca/ca.pem"), w), ST_OK);
}

static void
before_the_authority_lies_there_no_sandbox_is_made(void **state)
{
	struct world *w = *state;
	size_t before = w->calls_n;
	struct fake_answer *f = create(w, CREATE_BODY);

	assert_int_equal(f->a.st, ST_UPSTREAM_UNAVAILABLE);
	brain_pool(w->c.brain);
	world_run(w);
	assert_int_equal(w->calls_n, before);
	written(w);
	assert_int_equal(create(w, CREATE_BODY)->a.http, 202);
}

/* As Jansson writes it. */
static void
assert_dressed(const struct world *w, const char *volumes)
{
	json_t *sent = json_loads(w->last_body, 0, NULL);
	json_t *wanted = json_loads(volumes, 0, NULL);
	json_t *env = json_object_get(sent, "env");

	assert_non_null(wanted);
	assert_string_equal(json_string_value(json_object_get(
				    env, "OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT")),
			    "true");
	assert_true(json_equal(json_object_get(sent, "volumes"), wanted));
	json_decref(wanted);
	json_decref(sent);
}

static void
what_is_made_is_started_with_it_and_known_to_trust_it(void **state)
{
	struct world *w = *state;

	written(w);
	assert_int_equal(create(w, CREATE_BODY)->a.http, 202);
	assert_dressed(w, "[" AUTHORITY "]");
	assert_true(w->trusts_ca);
}

static void
the_callers_own_variables_and_volumes_stay_and_can_not_stand_for_it(void **state)
{
	struct world *w = *state;
	json_t *sent;

	written(w);
	assert_int_equal(
		create(w,
		       "{\"image\":{\"uri\":\"sg/x\"},\"entrypoint\":[\"x\"],\"env\":"
		       "{\"A\":\"1\",\"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT\":"
		       "\"false\"},\"volumes\":[{\"name\":\"v\",\"mountPath\":\"/"
		       "v\",\"host\":{\"path\":\"/data/v\"}}]}")
			->a.http,
		202);
	assert_dressed(w, "[{\"name\":\"v\",\"mountPath\":\"/v\",\"host\":{\"path\":"
			  "\"/data/v\"}}," AUTHORITY "]");
	sent = json_loads(w->last_body, 0, NULL);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(sent, "env"), "A")),
		"1");
	json_decref(sent);
}

static void
warm_ones_have_it_too(void **state)
{
	struct world *w = *state;

	written(w);
	brain_pool(w->c.brain);
	world_run(w);
	assert_dressed(w, "[" AUTHORITY "]");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TRUST(before_the_authority_lies_there_no_sandbox_is_made),
		WITH_TRUST(what_is_made_is_started_with_it_and_known_to_trust_it),
		WITH_TRUST(
			the_callers_own_variables_and_volumes_stay_and_can_not_stand_for_it),
		WITH_TRUST(warm_ones_have_it_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What docker says is believed only where it is exactly what was asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/locator/docker.h"

#define ID  "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define NET "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"
#define MAC "02:42:ac:12:00:02"
#define IP  "172.18.0.2"
#define IP6 "fd00::2"
#define DATA(id, label, state, mac, ip, ip6)                                           \
	"{\"Id\":\"" id "\",\"State\":" state                                          \
	",\"Config\":{\"Labels\":{\"opensandbox.io/id\":\"" label                      \
	"\"}},\"NetworkSettings\":{\"Networks\":{\"net\":{\"NetworkID\":\"" NET        \
	"\",\"MacAddress\":\"" mac "\",\"IPAddress\":\"" ip                            \
	"\",\"GlobalIPv6Address\":\"" ip6 "\"}}}}"
#define RUNS "{\"Running\":true,\"Pid\":4711}"

static enum status
container(const char *json, struct docker_ids *ids, struct place *p)
{
	memset(ids, 0, sizeof *ids);
	memset(p, 0, sizeof *p);
	(void)snprintf(ids->container, sizeof ids->container, "%s", ID);
	return docker_container(str_from(json), STR("box-1"), STR("net"), ids, p);
}

static void
a_container_is_read(void **state)
{
	struct docker_ids ids;
	struct place p;

	(void)state;
	assert_int_equal(container(DATA(ID, "box-1", RUNS, MAC, IP, IP6), &ids, &p),
			 ST_OK);
	assert_int_equal(ids.pid, 4711);
	assert_string_equal(ids.network, NET);
	assert_int_equal(p.addrs_n, 2);
	assert_memory_equal(p.mac, "\x02\x42\xac\x12\x00\x02", 6);
	assert_int_equal(container(DATA(ID, "box-1", RUNS, MAC, "", IP6), &ids, &p),
			 ST_OK);
	assert_int_equal(p.addrs_n, 1);
	assert_int_equal(p.addrs[0].family, 6);
}

static void
a_container_that_is_another_or_broken_is_refused(void **state)
{
	static const struct {
		const char *json;
		enum status st;
	} cases[] = {
		{ DATA(NET, "box-1", RUNS, MAC, IP, IP6), ST_UPSTREAM_BAD },
		{ DATA(ID, "box-2", RUNS, MAC, IP, IP6), ST_UPSTREAM_BAD },
		{ DATA(ID, "box-1", "{\"Running\":false,\"Pid\":0}", MAC, IP, IP6),
		  ST_NOT_FOUND },
		{ DATA(ID, "box-1", "{\"Running\":true,\"Pid\":1}", MAC, IP, IP6),
		  ST_UPSTREAM_BAD },
		{ DATA(ID, "box-1", "{\"Running\":true,\"Pid\":\"2\"}", MAC, IP, IP6),
		  ST_UPSTREAM_BAD },
		{ DATA(ID, "box-1", "{\"Running\":true,\"Pid\":4294967298}", MAC, IP,
		       IP6),
		  ST_UPSTREAM_BAD },
		{ DATA(ID, "box-1", "[]", MAC, IP, IP6), ST_UPSTREAM_BAD },
		{ DATA(ID, "box-1", RUNS, "", IP, IP6), ST_UPSTREAM_BAD },
		{ DATA(ID, "box-1", RUNS, "03:42:ac:12:00:02", IP, IP6),
		  ST_UPSTREAM_BAD },
		{ DATA(ID, "box-1", RUNS, "00:00:00:00:00:00", IP, IP6),
		  ST_UPSTREAM_BAD },
		{ DATA(ID, "box-1", RUNS, "02-42-ac-12-00-02", IP, IP6),
		  ST_UPSTREAM_BAD },
		{ DATA(ID, "box-1", RUNS, MAC, "", ""), ST_UPSTREAM_BAD },
		{ DATA(ID, "box-1", RUNS, MAC, "127.0.0.1", ""), ST_UPSTREAM_BAD },
		{ DATA(ID, "box-1", RUNS, MAC, "169.254.169.254", ""),
		  ST_UPSTREAM_BAD },
		{ DATA(ID, "box-1", RUNS, MAC, IP6, ""), ST_UPSTREAM_BAD },
		{ DATA(ID, "box-1", RUNS, MAC, "172.18.0.2 }; flush", ""),
		  ST_UPSTREAM_BAD },
		{ "{\"Id\":\"" ID "\",\"Id\":\"" ID "\"}", ST_UPSTREAM_BAD },
		{ "[]", ST_UPSTREAM_BAD },
		{ "", ST_UPSTREAM_BAD },
	};
	struct docker_ids ids;
	struct place p;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		assert_int_equal(container(cases[i].json, &ids, &p), cases[i].st);
		assert_int_equal(p.addrs_n, 0);
		assert_int_equal(ids.pid, 0);
	}
}

static void
exactly_one_container_is_the_sandbox(void **state)
{
	char id[DOCKER_ID + 1] = "";

	(void)state;
	assert_int_equal(docker_list(STR("[]"), id), ST_NOT_FOUND);
	assert_int_equal(
		docker_list(STR("[{\"Id\":\"" ID "\"},{\"Id\":\"" NET "\"}]"), id),
		ST_CONFLICT);
	assert_int_equal(docker_list(STR("{}"), id), ST_UPSTREAM_BAD);
	assert_int_equal(docker_list(STR("[{\"Id\":\"../x\"}]"), id), ST_UPSTREAM_BAD);
	assert_string_equal(id, "");
	assert_int_equal(docker_list(STR("[{\"Id\":\"" ID "\"}]"), id), ST_OK);
	assert_string_equal(id, ID);
}

#define BRIDGE(driver, options)                                                        \
	STR("{\"Id\":\"" NET "\",\"Driver\":\"" driver "\",\"Options\":{" options "}"  \
	    "}")
#define NAME "\"com.docker.network.bridge.name\":"

static void
a_network_is_a_bridge_with_a_name_that_an_interface_can_have(void **state)
{
	char name[PLACE_NAME + 1] = "";

	(void)state;
	assert_int_equal(docker_network(BRIDGE("macvlan", ""), NET, name),
			 ST_UPSTREAM_BAD);
	assert_int_equal(docker_network(BRIDGE("bridge", NAME "\"a b\""), NET, name),
			 ST_UPSTREAM_BAD);
	assert_int_equal(docker_network(BRIDGE("bridge", NAME "\"sixteen-octets-x\""),
					NET, name),
			 ST_UPSTREAM_BAD);
	assert_int_equal(docker_network(BRIDGE("bridge", ""), ID, name),
			 ST_UPSTREAM_BAD);
	assert_string_equal(name, "");
	assert_int_equal(docker_network(BRIDGE("bridge", ""), NET, name), ST_OK);
	assert_string_equal(name, "br-ffeeddccbbaa");
	assert_int_equal(docker_network(BRIDGE("bridge", NAME "\"sgbr0\""), NET, name),
			 ST_OK);
	assert_string_equal(name, "sgbr0");
}

static void
only_words_may_stand_in_a_question(void **state)
{
	(void)state;
	assert_true(docker_is_word(STR("4f0c-2a.b_C")));
	assert_false(docker_is_word(STR("")));
	assert_false(docker_is_word(STR("..")));
	assert_false(docker_is_word(STR("a/b")));
	assert_false(docker_is_word(STR("a%22")));
	assert_false(docker_is_word(STR("a b")));
	assert_false(docker_is_word(STR("a\r\n")));
}

#define STATS(memory) "{\"id\":\"" ID "\",\"memory_stats\":" memory "}"

static void
what_a_container_holds_is_read_as_docker_counts(void **state)
{
	static const struct {
		const char *json;
		enum status st;
		uint64_t octets;
	} cases[] = {
		/* cgroups of version 2, of version 1, and of a kernel that tells less */
		{ STATS("{\"usage\":700,\"stats\":{\"anon\":1,\"inactive_file\":300}}"),
		  ST_OK, 400 },
		{ STATS("{\"usage\":700,\"stats\":{\"inactive_file\":1,"
			"\"total_inactive_file\":600}}"),
		  ST_OK, 100 },
		{ STATS("{\"usage\":700}"), ST_OK, 700 },
		{ STATS("{\"usage\":0,\"stats\":{}}"), ST_OK, 0 },
		{ STATS("{\"usage\":7,\"stats\":{\"inactive_file\":8}}"), ST_OK, 7 },
		/* one whose processes have no limit */
		{ "{\"id\":\"" ID "\",\"pids_stats\":{\"current\":1,\"limit\":"
		  "18446744073709551615},\"memory_stats\":{\"usage\":7}}",
		  ST_OK, 7 },
		{ STATS("{\"usage\":9007199254740992}"), ST_OK, 1ULL << 53 },
		{ STATS("{\"usage\":18446744073709551615}"), ST_UPSTREAM_BAD, 5 },
		{ STATS("{\"usage\":1e300}"), ST_UPSTREAM_BAD, 5 },
		/* one that doesn't run */
		{ STATS("{}"), ST_NOT_FOUND, 5 },
		{ STATS("null"), ST_NOT_FOUND, 5 },
		{ STATS("{\"usage\":-1}"), ST_UPSTREAM_BAD, 5 },
		{ STATS("{\"usage\":1.5}"), ST_UPSTREAM_BAD, 5 },
		{ STATS("{\"usage\":\"7\"}"), ST_UPSTREAM_BAD, 5 },
		{ STATS("{\"usage\":99999999999999999999}"), ST_UPSTREAM_BAD, 5 },
		{ STATS("{\"usage\":7,\"usage\":8}"), ST_UPSTREAM_BAD, 5 },
		{ STATS("{\"usage\":7,\"stats\":{\"inactive_file\":-2}}"),
		  ST_UPSTREAM_BAD, 5 },
		{ "{\"id\":\"" NET "\",\"memory_stats\":{\"usage\":7}}",
		  ST_UPSTREAM_BAD, 5 },
		{ "[]", ST_UPSTREAM_BAD, 5 },
		{ "", ST_UPSTREAM_BAD, 5 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		uint64_t octets = 5;

		assert_int_equal(docker_memory(str_from(cases[i].json), ID, &octets),
				 cases[i].st);
		assert_int_equal(octets, cases[i].octets);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_container_is_read),
		cmocka_unit_test(a_container_that_is_another_or_broken_is_refused),
		cmocka_unit_test(exactly_one_container_is_the_sandbox),
		cmocka_unit_test(what_a_container_holds_is_read_as_docker_counts),
		cmocka_unit_test(
			a_network_is_a_bridge_with_a_name_that_an_interface_can_have),
		cmocka_unit_test(only_words_may_stand_in_a_question),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

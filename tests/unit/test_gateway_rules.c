#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/cli/gateway_rules.c"

static const char *
text_of(const struct gateway_rules *r, struct buf *b)
{
	buf_init(b, 16384);
	gateway_put_rules(b, r);
	const char *text = buf_cstr(b);
	assert_non_null(text);
	return text;
}

static void
a_pin_is_port_mac_and_address_and_nothing_else(void **state)
{
	static const char *const bad[] = {
		"",
		"veth0",
		"veth0,aa:bb:cc:dd:ee:ff",
		"veth0,aa:bb:cc:dd:ee:f,10.0.0.2",
		"veth0,aa-bb-cc-dd-ee-ff,10.0.0.2",
		"veth0,aa:bb:cc:dd:ee:ff,10.0.0.02",
		"veth\"0,aa:bb:cc:dd:ee:ff,10.0.0.2",
		"a-name-that-is-too-long,aa:bb:cc:dd:ee:ff,10.0.0.2"
	};
	struct gateway_pin p = { 0 };

	(void)state;
	assert_true(gateway_pin_parse(STR("veth0,aa:bb:cc:dd:ee:ff,10.0.0.2"), &p));
	assert_string_equal(p.port, "veth0");
	assert_string_equal(p.mac, "aa:bb:cc:dd:ee:ff");
	assert_int_equal(p.ip.family, 4);
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		assert_false(gateway_pin_parse(str_from(bad[i]), &p));
}

static void
all_that_is_not_redirected_is_dropped_in_both_directions(void **state)
{
	struct gateway_rules r = { .interface = "br0",
				   .tcp_port = 15001,
				   .dns_port = 5353 };
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	const char *text = text_of(&r, &b);
	assert_non_null(
		strstr(text, "iifname \"br0\" meta l4proto tcp redirect to :15001"));
	assert_non_null(strstr(text, "iifname \"br0\" counter drop"));
	assert_non_null(strstr(text, "oifname \"br0\" counter drop"));
	assert_null(strstr(text, "tproxy"));
}

/* In one chain the second copy would drop what the first has taken the mark from. */
static void
rules_that_are_loaded_twice_let_pass_what_is_pinned(void **state)
{
	struct gateway_rules r = { .interface = "br0", .sandboxes = true };
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	const char *text = text_of(&r, &b);
	const char *judged = strstr(text, "iifname \"br0\" meta mark !=");
	assert_non_null(judged);
	const char *chain = strstr(judged, "chain unmark");
	assert_non_null(chain);
	const char *taken = strstr(chain, "iifname \"br0\" meta mark set 0");
	assert_non_null(taken);
	assert_non_null(strstr(chain, "priority -299"));
}

static void
pinned_neighbours_exchange_no_frames(void **state)
{
	struct gateway_pin pin = { 0 };
	struct gateway_rules r = { .interface = "br0", .pins = &pin, .pins_n = 1 };
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	assert_true(gateway_pin_parse(STR("veth0,aa:bb:cc:dd:ee:ff,10.0.0.2"), &pin));
	const char *text = text_of(&r, &b), *between = strstr(text, "chain between");
	assert_non_null(between);
	assert_non_null(strstr(between, "iifname \"veth0\" counter drop"));
	assert_non_null(strstr(between, "oifname \"veth0\" counter drop"));
}

static void
a_port_may_have_an_address_of_each_family(void **state)
{
	struct gateway_pin pins[2] = { 0 };
	struct gateway_rules r = { .interface = "br0", .pins = pins, .pins_n = 2 };
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	assert_true(
		gateway_pin_parse(STR("veth0,aa:bb:cc:dd:ee:ff,10.0.0.2"), &pins[0]));
	assert_true(
		gateway_pin_parse(STR("veth0,aa:bb:cc:dd:ee:ff,fd00::2"), &pins[1]));
	const char *text = text_of(&r, &b),
		   *drop = strstr(text, "iifname \"veth0\" drop");
	const char *six =
		strstr(text, "ether saddr aa:bb:cc:dd:ee:ff ip6 saddr fd00::2 "
			     "accept");
	assert_non_null(drop);
	assert_non_null(six);
	assert_true(six < drop);
}

static void
frames_that_no_bridge_passes_on_bring_nothing(void **state)
{
	struct gateway_rules r = { .interface = "br0", .sandboxes = true };
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	const char *text = text_of(&r, &b), *arp = strstr(text, "table arp"),
		   *inet = strstr(text, "table inet");
	assert_non_null(arp);
	assert_non_null(inet);
	assert_non_null(strstr(arp, "01:80:c2:00:00:00 counter drop"));
	assert_non_null(strstr(inet, "01:80:c2:00:00:00 counter drop"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pin_is_port_mac_and_address_and_nothing_else),
		cmocka_unit_test(rules_that_are_loaded_twice_let_pass_what_is_pinned),
		cmocka_unit_test(pinned_neighbours_exchange_no_frames),
		cmocka_unit_test(a_port_may_have_an_address_of_each_family),
		cmocka_unit_test(frames_that_no_bridge_passes_on_bring_nothing),
		cmocka_unit_test(
			all_that_is_not_redirected_is_dropped_in_both_directions),
	};

	return cmocka_run_group_tests_name("gateway_rules", tests, NULL, NULL);
}

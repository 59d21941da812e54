#include "tests/unit/make_image.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "conf/policy.h"

/* Without one there is a warning of that. */
#define RESOLVER "resolver: {servers: [192.0.2.1]}\n"
#define P        "policies:\n  p:\n    allow:\n"
#define R        P "      - "

/* "" means not a word. */
static const struct told rows[] = {
	{ "workers: 2\n", "" },
	{ "", "t.yaml:1:1: the file is empty\n" },
	{ "# nothing\n", "t.yaml:1:1: the file is empty\n" },
	{ "[]\n", "t.yaml:1:1: a list where a mapping belongs\n" },
	{ "listners: []\n",
	  "t.yaml:1:1: unknown key `listners`; did you mean listeners?\n" },
	{ "zzzzzzzzzz: 1\n", "t.yaml:1:1: unknown key `zzzzzzzzzz`\n" },
	{ "limits: {conections: 5}\n",
	  "t.yaml:1:10: unknown key `conections`; did you mean connections?\n" },
	{ "workers: 2\nworkers: 3\n",
	  "t.yaml:2:1: `workers` is already set in line 1\n" },
	{ "workers: many\n", "t.yaml:1:10: `many` is not a whole number\n" },
	{ "workers: 65\n", "t.yaml:1:10: 65 is out of bounds: 1 to 64\n" },
	{ "workers: -1\n", "t.yaml:1:10: `-1` is not a whole number\n" },
	{ "workers: [1]\n", "t.yaml:1:10: a list where one value belongs\n" },
	{ "workers:\n", "t.yaml:1:9: `` is not a whole number\n" },
	{ "workers: auto\n", "" },
	{ "log_level: inof\n",
	  "t.yaml:1:12: `inof` is not one of error|info|debug; did you mean info?\n" },
	{ "timeouts: {connect: 5}\n", "t.yaml:1:21: `5` is not a time; write a whole "
				      "number and ms, s, m, h or d\n" },
	{ "timeouts: {connect: 5s, tunnel_idle: 7d, drain: 0}\n", "" },
	{ "timeouts: {connect: 50ms}\n",
	  "t.yaml:1:21: 50ms is out of bounds: 100ms to 300000ms\n" },
	{ "timeouts: {connect: 99999999999999999999h}\n",
	  "t.yaml:1:21: `99999999999999999999h` is not a time; write a whole number "
	  "and ms, s, m, h or d\n" },
	{ "limits: {request_body: 64KiB, bytes: 1GiB, header_line: 4096}\n", "" },
	{ "limits: {request_body: 64kb}\n",
	  "t.yaml:1:24: `64kb` is not a size; write a whole number and KiB, MiB, GiB "
	  "or nothing\n" },
	{ "require_landlock: yes\n", "t.yaml:1:19: `yes` is neither true nor false\n" },
	{ "timeouts: 5s\n", "t.yaml:1:11: a single value where a mapping belongs\n" },
	{ "resolver: {ttl_min: 10s, ttl_max: 5s}\n",
	  "t.yaml:1:21: resolver.ttl_min is above resolver.ttl_max\n" },
	{ "admin: {token_sha256: abc}\n",
	  "t.yaml:1:23: not a SHA-256: 64 hex digits; make one with `sha256sum`\n" },
	{ "admin: {address: '127.0.0.1:9000'}\n",
	  "t.yaml:1:18: HOST:PORT needs admin.token_sha256, or a role with a token\n" },
	{ "admin: {address: '127.0.0.1:9000', roles: [{uid: 7, name: a, role: "
	  "viewer}]}\n",
	  "t.yaml:1:18: HOST:PORT needs admin.token_sha256, or a role with a token\n" },
	{ "admin: {roles: [{uid: 7, role: viewer}]}\n",
	  "t.yaml:1:17: `name` is missing\n" },
	{ "admin: {roles: [{uid: 7, name: a}]}\n", "t.yaml:1:17: `role` is missing\n" },
	{ "admin: {roles: [{name: a, role: viewer}]}\n",
	  "t.yaml:1:17: either `uid` or `token_sha256` says who this is\n" },
	{ "admin: {roles: [{uid: 7, name: a b, role: viewer}]}\n",
	  "t.yaml:1:32: a name is 1 to 128 letters, digits and -_.@+:|=~\n" },
	{ "admin: {roles: [{uid: 7, name: a, role: viewer}, {uid: 7, name: b, role: "
	  "operator}]}\n",
	  "t.yaml:1:50: another role has this uid, or this token\n" },
	{ "admin: {address: '0.0.0.0:9000', token_sha256: "
	  "0123456789012345678901234567890123456789012345678901234567890123}\n",
	  "t.yaml:1:18: the admin address must be on loopback\n" },
	{ "upstream_proxy: {address: 'proxy', no_proxy: [a.test, .b.test]}\n",
	  "t.yaml:1:27: `proxy` is not HOST:PORT\n" },
	{ "servers: []\n", "" },
	/* YAML that means more than it says */
	{ "workers: &a 2\n",
	  "t.yaml:1:10: anchors (&name) are not accepted; write the value out\n" },
	{ "workers: *a\n",
	  "t.yaml:1:10: aliases (*name) are not accepted; write the value out\n" },
	{ "workers: !!int 2\n", "t.yaml:1:10: tags (!name) are not accepted\n" },
	{ "workers: 2\n---\nworkers: 3\n",
	  "t.yaml:2:1: a second document; one file holds one\n" },
	{ "limits: {<<: {}}\n",
	  "t.yaml:1:10: merge keys (<<) are not accepted; write the values out\n"
	  "t.yaml:1:10: unknown key `<<`\n" },
	{ "? [a]\n: b\n", "t.yaml:1:3: a key must be a single word\n" },
	{ "tests: [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]\n",
	  "t.yaml:1:23: nested too deeply\n" },
	{ "workers: 'x\n",
	  "t.yaml:2:1: not YAML: found unexpected end of stream, while scanning a "
	  "quoted scalar that begins in line 1\n" },
	{ "\xff\n",
	  "t.yaml:1:1: not UTF-8 text: invalid leading UTF-8 octet at byte 0\n" },
	/* listeners */
	{ "listeners: [{name: a, kind: proxi, address: '127.0.0.1:1'}]\n",
	  "t.yaml:1:29: `proxi` is not one of transparent|proxy|dns|opensandbox; did "
	  "you mean proxy?\n" },
	{ "listeners: [{name: a, kind: proxy, address: '127.0.0.1:0'}]\n",
	  "t.yaml:1:45: `127.0.0.1:0` is not ADDRESS:PORT, like 127.0.0.1:3128 or "
	  "[::1]:3128\n" },
	{ "listeners: [{name: a, kind: proxy, address: '[::1]:80'}, {name: b, kind: "
	  "dns, address: '0.0.0.0:53'}]\n",
	  "" },
	{ "listeners: [{name: a, kind: proxy, address: '::1:80'}]\n",
	  "t.yaml:1:45: `::1:80` is not ADDRESS:PORT, like 127.0.0.1:3128 or "
	  "[::1]:3128\n" },
	{ "listeners: [{name: a, kind: opensandbox, address: '127.0.0.1:1'}]\n",
	  "t.yaml:1:13: an opensandbox listener needs `servers` that it stands for\n" },
	{ "listeners: [{name: a, kind: proxy, address: '127.0.0.1:1', tls: {}}]\n",
	  "" },
	{ "listeners: [{name: a, kind: proxy, address: '[::]:1', tls: {}}]\n",
	  "t.yaml:1:55: `names` is missing: what clients connect to when they come to "
	  "this listener\n" },
	{ "listeners: [{name: a, kind: dns, address: '127.0.0.1:1', tls: {}}]\n",
	  "t.yaml:1:58: tls is for proxy and opensandbox listeners\n" },
	{ "listeners: [{name: a, kind: proxy, address: '127.0.0.1:1', tls: {nmaes: "
	  "a}}]\n",
	  "t.yaml:1:66: unknown key `nmaes`; did you mean names?\n" },
	{ "listeners: [{name: a, kind: proxy, address: '127.0.0.1:1', tls: {names: "
	  "[a.test, '*.b.test', A.test, 'c:1', '::1', '[::1]', 010.0.0.1]}}]\n",
	  "t.yaml:1:82: no pattern here: write each name that clients connect to\n"
	  "t.yaml:1:94: `a.test` is there twice\n"
	  "t.yaml:1:102: `c:1` is no host name and no address; ports and schemes do "
	  "not "
	  "belong here\n"
	  "t.yaml:1:116: `::1` is there twice\n"
	  "t.yaml:1:125: `010.0.0.1` is no host name and no address; ports and schemes "
	  "do "
	  "not belong here\n" },
	{ "listeners: [{kind: dns}]\n", "t.yaml:1:13: `address` is missing\n"
					"t.yaml:1:13: `name` is missing\n" },
	/* hosts */
	{ R "{hosts: ['*.com']}\n",
	  "t.yaml:4:18: `*.com` covers a public suffix, where anyone may register "
	  "names; name the hosts\n" },
	{ R "{hosts: ['*.co.uk']}\n",
	  "t.yaml:4:18: `*.co.uk` covers a public suffix, where anyone may register "
	  "names; name the hosts\n" },
	{ R "{hosts: ['*.ck']}\n", "t.yaml:4:18: `*.ck` covers a public suffix, where "
				   "anyone may register names; name the hosts\n" },
	{ R "{hosts: ['*.kawasaki.jp']}\n",
	  "t.yaml:4:18: `*.kawasaki.jp` covers a public suffix, where anyone may "
	  "register names; name the hosts\n" },
	{ R "{hosts: ['*.github.io']}\n",
	  "t.yaml:4:18: `*.github.io` covers sites of many owners on shared hosting; "
	  "name the hosts, or say `shared_suffix: true`\n" },
	{ R "{hosts: ['*.github.io'], ports: [80], shared_suffix: true}\n" RESOLVER,
	  "" },
	{ R "{hosts: ['*']}\n", "t.yaml:4:18: `*`: `*` can only be the whole first "
				"label, like *.example.com\n" },
	{ R "{hosts: ['a.*.test']}\n", "t.yaml:4:18: `a.*.test`: `*` can only be the "
				       "whole first label, like *.example.com\n" },
	{ R "{hosts: [localhost]}\n",
	  "t.yaml:4:18: `localhost` has one label; write the full name\n" },
	{ R "{hosts: [10.0.0.1]}\n", "t.yaml:4:18: 10.0.0.1 is an address; write it "
				     "under `cidrs:` with `protocol: tcp`\n" },
	{ R "{hosts: ['[::1]']}\n", "t.yaml:4:18: [::1] is an address; write it under "
				    "`cidrs:` with `protocol: tcp`\n" },
	{ R "{hosts: ['https://a.test/x']}\n",
	  "t.yaml:4:18: `https://a.test/x` is not a host; leave out scheme and path "
	  "(see `paths:`)\n" },
	{ R "{hosts: ['a.test:443']}\n",
	  "t.yaml:4:18: `a.test:443` is not a host; ports belong under `ports:`\n" },
	{ R "{hosts: [b\xc3\xbc"
	    "cher.example]}\n",
	  "t.yaml:4:18: `b\xc3\xbc"
	  "cher.example` is not ASCII; did you mean xn--bcher-kva.example?\n" },
	{ R "{hosts: ['a b.test']}\n", "t.yaml:4:18: `a b.test` is not a host name\n" },
	{ R "{hosts: []}\n",
	  "t.yaml:4:17: `hosts` is empty; list something or leave it out\n" },
	{ R "{hosts: a.test}\n" RESOLVER, "" },
	/* rules */
	{ R "{host: [a.test]}\n",
	  "t.yaml:4:9: an allow rule must name `hosts` (or `cidrs` with protocol: "
	  "tcp)\n"
	  "t.yaml:4:10: unknown key `host`; did you mean hosts?\n" },
	{ R "{hosts: [a.test], ports: ['443', 9000-9100]}\n" RESOLVER, "" },
	{ R "{hosts: [a.test], ports: [0]}\n",
	  "t.yaml:4:35: `0` is not a port; write 1 to 65535, or a range like "
	  "9000-9100\n" },
	{ R "{hosts: [a.test], ports: [65536, 20-10, 0443]}\n",
	  "t.yaml:4:35: `65536` is not a port; write 1 to 65535, or a range like "
	  "9000-9100\n"
	  "t.yaml:4:42: the range 20-10 ends before it starts\n"
	  "t.yaml:4:49: `0443` is not a port; write 1 to 65535, or a range like "
	  "9000-9100\n" },
	{ R "{hosts: [a.test], protocol: tcp}\n",
	  "t.yaml:4:9: a tcp rule must list `ports`\n" },
	{ R "{hosts: [a.test], protocol: tcp, ports: [1], methods: [GET]}\n",
	  "t.yaml:4:9: methods and paths belong to http, not to protocol: tcp\n" },
	{ R "{any_host: true}\n" RESOLVER, "" },
	{ R "{any_host: false}\n" RESOLVER,
	  "t.yaml:4:9: an allow rule must name `hosts` (or `cidrs` with protocol: "
	  "tcp)\n" },
	{ R "{any_host: true, hosts: [a.test]}\n" RESOLVER,
	  "t.yaml:4:9: `any_host` stands alone: without hosts and cidrs\n" },
	{ R "{cidrs: [192.0.2.0/24]}\n",
	  "t.yaml:4:9: `cidrs` needs `protocol: tcp`\n" },
	{ R "{cidrs: [192.0.2.1/24], protocol: tcp, ports: [1]}\n",
	  "t.yaml:4:18: `192.0.2.1/24` is not a range of addresses like 10.0.0.0/8 "
	  "(bits behind the prefix must be 0)\n" },
	{ R "{hosts: [a.test], methods: [get], ports: [80]}\n",
	  "t.yaml:4:37: `get` is not a method; did you mean GET?\n" },
	{ R "{hosts: [a.test], methods: [CONNECT], ports: [80]}\n",
	  "t.yaml:4:37: CONNECT is never forwarded\n" },
	{ R "{hosts: [a.test], ports: [80], paths: [v1, /a?b, /../x, /a**]}\n",
	  "t.yaml:4:48: `v1`: a path starts with `/`\n"
	  "t.yaml:4:52: `/a?b`: only the path: no query, blank or byte outside ASCII "
	  "(write %XX)\n"
	  "t.yaml:4:58: `/../x`: `.` and `..` never reach a rule: such requests are "
	  "refused\n"
	  "t.yaml:4:65: `/a**`: `**` must be a whole segment\n" },
	{ R "{hosts: [a.test], methods: [GET], query: [page, 'a=b']}\n" RESOLVER,
	  "t.yaml:4:57: `a=b` is not the key of a query parameter: at most 128 bytes, "
	  "without `=` and `&`\n" },
	{ R "{hosts: [a.test], addresses: [169.254.169.254]}\n",
	  "t.yaml:4:39: 169.254.169.254 covers a cloud metadata service, which is "
	  "never reachable\n" },
	{ R "{hosts: [a.test], addresses: [0.0.0.0/0]}\n",
	  "t.yaml:4:39: 0.0.0.0/0 is too wide: name the private range that is meant "
	  "(public addresses need no entry)\n" },
	{ R "{hosts: [a.test], countries: [de]}\n",
	  "t.yaml:4:39: `de` is not a country: two capital letters, like DE\n" },
	{ R "{hosts: [a.test], countries: [DE]}\n",
	  "t.yaml:4:9: rules with `countries` need geo.country_db\n" },
	{ R "{hosts: [a.test], asns: [AS64500, x]}\n",
	  "t.yaml:4:43: `x` is not the number of a network, like 64500\n" },
	{ "policies:\n  p: {allow: [], deny: [{hosts: [a.test], protocol: tcp}]}\n",
	  "t.yaml:2:43: a deny rule covers every protocol; leave `protocol` out\n" },
	{ "policies:\n  p: {deny: [{hosts: [a.test]}]}\n" RESOLVER,
	  "t.yaml:2:3: warning: policy `p` has no `allow`: nothing passes\n" },
	/* references */
	{ "sandboxes: [{id: a, policy: codng}]\npolicies: {coding: {allow: []}}\n",
	  "t.yaml:1:29: no policy `codng`; did you mean coding?\n" },
	{ "sandboxes: [{id: a, source: 10.0.0.1}, {id: a, source: 10.0.0.1}]\n",
	  "t.yaml:1:13: warning: no `policy`: nothing is allowed here\n"
	  "t.yaml:1:40: warning: no `policy`: nothing is allowed here\n"
	  "t.yaml:1:45: another sandbox has this id, in line 1\n"
	  "t.yaml:1:56: another sandbox has this source, in line 1\n" },
	{ "sandboxes:\n"
	  "  - {id: a, policy: p, source: ['fd00::1', '::ffff:10.0.0.1', 10.0.0.1]}\n"
	  "  - {id: b, policy: p, source: [10.0.0.2, 'fd00::1']}\n"
	  "  - {id: c, policy: p, source: []}\n"
	  "  - {id: d, policy: p, source: ['::1','::2','::3','::4','::5','::6','::7',"
	  "'::8','::9']}\n"
	  "  - {id: e, policy: p, source: {a: b}}\n"
	  "policies: {p: {allow: []}}\n",
	  "t.yaml:2:63: this sandbox has this source twice\n"
	  "t.yaml:3:43: another sandbox has this source, in line 2\n"
	  "t.yaml:4:32: 0 addresses; 1 to 8 may stand here\n"
	  "t.yaml:5:32: 9 addresses; 1 to 8 may stand here\n"
	  "t.yaml:6:32: a mapping where a list belongs\n" },
	{ "sandboxes: [{id: a, token: '{user}/y', policy: p}]\npolicies: {p: {allow: "
	  "[]}}\n",
	  "t.yaml:1:28: `token` is a name in the vault, not the token itself\n" },
	{ "sandboxes: [{id: a, token: files/ci, policy: p}]\npolicies: {p: {allow: "
	  "[]}}\n",
	  "t.yaml:1:28: `files/ci` is not kept in the vault: put the token there, or "
	  "its SHA-256 under `token_sha256`\n" },
	{ "exec: {docker: run/docker.sock}\n",
	  "t.yaml:1:16: `run/docker.sock` is no absolute path\n" },
	{ "sandboxes: [{source: 10.0.0.999, policy: p}]\npolicies: {p: {allow: []}}\n",
	  "t.yaml:1:13: `id` is missing\n"
	  "t.yaml:1:22: `10.0.0.999` is not an IP address\n" },
	{ "policies: {p: {connectors: [trakcer], allow: []}}\n"
	  "connectors: [{name: tracker, hosts: [t.example], auth: {kind: bearer, "
	  "secret: x}, allow: [{methods: [GET]}]}]\n",
	  "t.yaml:1:29: no connector `trakcer`; did you mean tracker?\n"
	  "t.yaml:2:14: warning: no policy lists connector `tracker` under "
	  "`connectors`: nobody may use it\n" },
	{ "connectors: [{name: t, auth: {kind: barer}}]\n"
	  "policies: {p: {connectors: [t], allow: []}}\n",
	  "t.yaml:1:14: a connector must name its `hosts`\n"
	  "t.yaml:1:14: a connector must say what it `allow`s; for all of its hosts: "
	  "[{paths: [\"/**\"]}]\n"
	  "t.yaml:1:37: `barer` is not one of "
	  "bearer|basic|header|query|path|form|oauth2_client_credentials|oauth2_"
	  "refresh|jwt_bearer|sigv4|hmac|mtls|passthrough; did you mean bearer?\n" },
	{ "tests: [{policy: p, url: 'https://a.test/', expect: alow, code: nope}]\n",
	  "t.yaml:1:9: no policy `p`\n"
	  "t.yaml:1:53: `alow` is not one of allow|deny; did you mean allow?\n"
	  "t.yaml:1:65: no refusal has the code `nope`\n" },
};

static void
every_fault_is_told_with_its_place_in_one_go(void **state)
{
	(void)state;
	assert_told(rows, COUNT_OF(rows));
}

static const char all_values[] =
	"workers: 3\nlog_level: debug\nrequire_landlock: true\n"
	"state_dir: /x/y\n"
	"timeouts: {connect: 2s, connect_delay: 100ms}\n"
	"limits: {bytes: 1GiB, connections: 7}\n"
	"upstream_proxy: {address: 'proxy.example:3128', no_proxy: "
	"[a.test, .b.test]}\n"
	"resolver: {servers: [192.0.2.1, '192.0.2.2:5353', '::1'], "
	"hosts: {build: [10.0.0.5, '::2'], a.test: 10.0.0.6}}\n"
	"listeners: [{name: t, kind: transparent, address: "
	"'[::]:15001', tproxy: true}, {name: s, kind: proxy, address: '[::1]:2', tls: "
	"{names: [GW.test., '2001:db8:0::1', 10.0.0.1]}}, {name: d, kind: proxy, "
	"address: '[::1]:3', tls: {}}]\n"
	"sandboxes:\n"
	"  - {id: zeta, source: 10.0.0.1, user: u, agent: a, "
	"session: s, policy: p, limits: {connections: 9}}\n"
	"  - {id: alpha, source: ['fd00::2', '::ffff:10.0.0.2'], policy: p, "
	"trusts_ca: true}\n"
	"policies: {p: {allow: []}}\n";

static void
values_arrive_in_the_image(void **state)
{
	struct image *im = make_image(all_values);
	size_t n;

	(void)state;
	assert_int_equal(image_number(im, OPT_WORKERS), 3);
	assert_int_equal(image_number(im, OPT_LOG_LEVEL), 2);
	assert_true(image_flag(im, OPT_REQUIRE_LANDLOCK));
	assert_true(str_eq(image_text(im, OPT_STATE_DIR), STR("/x/y")));
	assert_int_equal(image_number(im, OPT_CONNECT_TIMEOUT), 2000);
	assert_int_equal(image_number(im, OPT_CONNECT_DELAY), 100);
	assert_int_equal(image_number(im, OPT_TUNNEL_IDLE_TIMEOUT), 3600000);
	assert_true(str_eq(image_text(im, OPT_NO_PROXY), STR("a.test,.b.test")));

	const struct image_server *servers = image_resolvers(im, &n);
	assert_int_equal(n, 3);
	assert_int_equal(servers[0].port, 53);
	assert_int_equal(servers[1].port, 5353);
	assert_int_equal(servers[2].addr.family, 6);
	(void)image_host_addrs(im, STR("build"), &n);
	assert_int_equal(n, 2);
	const struct addr *a = image_host_addrs(im, STR("a.test"), &n);
	assert_int_equal(n, 1);
	assert_int_equal(a->b[3], 6);
	(void)image_host_addrs(im, STR("b.test"), &n);
	assert_int_equal(n, 0);
	image_close(im);
}

static void
listeners_and_sandboxes_arrive_in_the_image(void **state)
{
	struct image *im = make_image(all_values);
	size_t n;

	(void)state;
	const struct image_listener *l = image_listeners(im, &n);
	assert_int_equal(n, 3);
	assert_int_equal(l->port, 15001);
	assert_int_equal(l->tproxy, 1);
	assert_int_equal(l->names_n, 0);
	l = image_listener_by_name(im, STR("s"));
	assert_int_equal(l->names_n, 3);
	assert_true(str_eq(image_word(im, l->names), STR("gw.test")));
	assert_true(str_eq(image_word(im, l->names + 1), STR("2001:db8::1")));
	assert_true(str_eq(image_word(im, l->names + 2), STR("10.0.0.1")));
	l = image_listener_by_name(im, STR("d"));
	assert_int_equal(l->names_n, 1);
	assert_true(str_eq(image_word(im, l->names), STR("::1")));
	assert_null(image_listener_by_name(im, STR("x")));

	const struct image_sandbox *s = image_sandbox_by_id(im, STR("zeta"));
	assert_non_null(s);
	assert_int_equal(image_limits(im, s->limits)->connections, 9);
	assert_true(image_limits(im, s->limits)->bytes == 1073741824);
	assert_int_equal(image_limits(im, 0)->connections, 7);
	struct addr source = { .family = 4, .b = { 10, 0, 0, 2, 99 } };
	s = image_sandbox_by_source(im, &source);
	assert_non_null(s);
	assert_true(str_eq(image_str(im, s->id), STR("alpha")));
	assert_int_equal(s->trusts_ca, 1);
	const struct addr *sources = image_sources(im, s, &n);
	assert_int_equal(n, 2);
	assert_int_equal(sources[0].family, 6);
	assert_ptr_equal(image_sandbox_by_source(im, &sources[0]), s);
	assert_true(addr_eq(&sources[1], &(struct addr){ 4, { 10, 0, 0, 2 } }));
	assert_null(image_sandbox_by_id(im, STR("beta")));
	assert_int_equal(image_policy_by_name(im, STR("q")), POLICY_NONE);
	image_close(im);
}

static void
a_policy_may_live_in_a_file_of_its_own(void **state)
{
	CLEANUP(report_done) struct report r = { 0 };
	struct conf_files files;
	struct conf *c;
	struct image *im;
	int fd;

	(void)state;
	assert_int_equal(report_init(&r), ST_OK);
	conf_files_init(&files);
	assert_int_equal(conf_files_add(&files, CONF_MAIN, STR("m.yaml"),
					STR("sandboxes: [{id: a, policy: one}]\n")),
			 ST_OK);
	assert_int_equal(conf_files_add(&files, CONF_POLICY, STR("policies/one.yaml"),
					STR("allow: [{hosts: [a.test]}]\n")),
			 ST_OK);
	assert_int_equal(
		conf_files_add(
			&files, CONF_POLICY, STR("policies/more.yaml"),
			STR("two: {allow: []}\nthree: {allow: [], connectors: [c]}\n")),
		ST_OK);
	assert_int_equal(conf_files_add(&files, CONF_CONNECTOR,
					STR("connectors/c.yaml"),
					STR("name: c\nhosts: [c.test]\nauth: {kind: "
					    "bearer, secret: s}\nallow: [{paths: "
					    "['/**']}]\n")),
			 ST_OK);
	assert_int_equal(conf_compile(&files, &r, &c), ST_OK);
	assert_int_equal(conf_seal(c, &fd), ST_OK);
	assert_int_equal(image_open(fd, &im), ST_OK);
	assert_int_not_equal(image_policy_by_name(im, STR("one")), POLICY_NONE);

	struct dest d;
	assert_int_equal(dest_from_host(STR("c.test"), 443, &d), ST_OK);
	struct policy_question q = { .may.policy =
					     image_policy_by_name(im, STR("three")),
				     .dest = &d,
				     .way = WAY_TLS };
	struct policy_answer a;
	policy_judge(im, &q, &a);
	assert_int_equal(a.action, ACTION_INTERCEPT);
	assert_int_equal(a.connector, image_connector_by_name(im, STR("c")));
	image_close(im);
	(void)close(fd);
	conf_free(c);
	conf_files_done(&files);
}

static void
the_files_beside_the_main_one_are_read(void **state)
{
	CLEANUP(report_done) struct report r = { 0 };
	CLEANUP(buf_done) struct buf b = { 0 };
	char dir[] = "/tmp/sandgate-conf-XXXXXX", path[64], sub[64];
	int fd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof path, "%s/main.yaml", dir);
	(void)snprintf(sub, sizeof sub, "%s/policies", dir);
	assert_int_equal(mkdir(sub, 0700), 0);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs("workers: 1\nsandboxes: [{id: a, policy: x}]\n", f) >= 0);
	assert_int_equal(fclose(f), 0);
	(void)snprintf(sub, sizeof sub, "%s/policies/x.yaml", dir);
	f = fopen(sub, "we");
	assert_non_null(f);
	assert_true(fputs("allow: [{hots: [a.test]}]\n", f) >= 0);
	assert_int_equal(fclose(f), 0);

	assert_int_equal(report_init(&r), ST_OK);
	buf_init(&b, 4096);
	assert_int_equal(conf_load(path, &r, &fd), ST_BAD_CONFIG);
	report_put(&b, &r);
	assert_non_null(strstr(
		buf_cstr(&b),
		"/policies/x.yaml:1:10: unknown key `hots`; did you mean hosts?"));
	assert_int_equal(unlink(sub), 0);
	assert_int_equal(unlink(path), 0);
	(void)snprintf(sub, sizeof sub, "%s/policies", dir);
	assert_int_equal(rmdir(sub), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void
a_file_that_is_not_there_is_said_so(void **state)
{
	CLEANUP(report_done) struct report r = { 0 };
	CLEANUP(buf_done) struct buf b = { 0 };
	int fd;

	(void)state;
	assert_int_equal(report_init(&r), ST_OK);
	buf_init(&b, 4096);
	assert_int_equal(conf_load("/nonexistent/x.yaml", &r, &fd), ST_BAD_CONFIG);
	report_put(&b, &r);
	assert_string_equal(buf_cstr(&b),
			    "/nonexistent/x.yaml: No such file or directory\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_fault_is_told_with_its_place_in_one_go),
		cmocka_unit_test(values_arrive_in_the_image),
		cmocka_unit_test(listeners_and_sandboxes_arrive_in_the_image),
		cmocka_unit_test(a_policy_may_live_in_a_file_of_its_own),
		cmocka_unit_test(the_files_beside_the_main_one_are_read),
		cmocka_unit_test(a_file_that_is_not_there_is_said_so),
	};

	return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}

/* What is said of execution servers and `exec` in a configuration. */
#include "tests/unit/exec_text.h"

/* Behind a server with a network: all that belongs to it. */
#define PINNED "policies: {p: {allow: []}}\nexec: {docker: /d.sock, policy: p}\n"

static const struct told rows[] = {
	{ SERVERS(ONE STRONG), "" },
	{ "listeners: [{name: e, kind: opensandbox, address: '0.0.0.0:18080', plain: "
	  "true, sandbox: box, token_sha256: " HASH "}]\n",
	  "" },
	{ "listeners: [{name: e, kind: opensandbox, address: '127.0.0.1:18080', "
	  "sandbox: box}]\n",
	  "t.yaml:1:13: `sandbox` and `token_sha256` belong together: whose egress API "
	  "it is, and who may ask there\n" },
	{ "listeners: [{name: e, kind: dns, address: '127.0.0.1:53', sandbox: box}]\n",
	  "t.yaml:1:59: sandbox and token_sha256 are for opensandbox listeners\n" },
	{ SERVER("url: 'https://os.test:8443', key: k, tier: high, endpoints: "
		 "[10.0.0.0/8], addresses: [10.1.0.0/16], network: boxes, weight: 3")
		  PINNED,
	  "" },
	{ SERVER("url: 'http://os.test:8080', plain: true, key: k, endpoints: "
		 "[10.0.0.0/8]"),
	  "" },
	{ SERVER("url: 'http://127.0.0.1', key: k, endpoints: [127.0.0.1], network: b, "
		 "ca_file: /var/lib/x/ca.pem") PINNED,
	  "" },
	{ SERVER("url: 'http://127.0.0.1', key: k, endpoints: [127.0.0.1], "
		 "ca_file: /var/lib/x/ca.pem"),
	  "t.yaml:3:83: `ca_file` is of a server whose sandboxes the gateway stands "
	  "before: it needs `network`\n" },
	{ SERVER("url: 'http://127.0.0.1', key: k, endpoints: [127.0.0.1], network: b, "
		 "ca_file: '/a:/etc'") PINNED,
	  "t.yaml:3:95: " CA_FILE },
	{ SERVER("url: 'http://127.0.0.1', key: k, endpoints: [127.0.0.1], network: b, "
		 "ca_file: /a/../etc/ca.pem") PINNED,
	  "t.yaml:3:95: " CA_FILE },
	{ SERVER("url: 'http://127.0.0.1', key: k, endpoints: [127.0.0.1], network: b, "
		 "ca_file: ca.pem") PINNED,
	  "t.yaml:3:95: " CA_FILE },
	{ SERVER(LOCAL ", network: b") "policies: {p: {allow: []}}\nexec: {policy: "
				       "p}\n",
	  "t.yaml:3:95: warning: nothing is pinned here: without exec.docker a "
	  "sandbox's address is its server's word, and another sandbox may send under "
	  "it\n" },
	{ EXEC("docker: /d.sock"), "" }, /* it counts memory, too */
	{ SERVER("url: 'http://[::1]:8080', key: k, endpoints: ['::1']"), "" },
	{ SERVER("url: 'http://os.test:8080', key: k, endpoints: [10.0.0.0/8]"),
	  "t.yaml:3:22: the server's key would travel readable; write https://, "
	  "an address on loopback (127.0.0.1, no name), or "
	  "`plain: true` if nobody listens on that network\n" },
	{ SERVER("url: 'http://10.0.0.1', plain: false, key: k, endpoints: "
		 "[10.0.0.0/8]"),
	  "t.yaml:3:22: the server's key would travel readable; write https://, "
	  "an address on loopback (127.0.0.1, no name), or "
	  "`plain: true` if nobody listens on that network\n" },
	{ SERVER("url: 'http://127.0.0.1/v1', key: k, endpoints: [127.0.0.1]"),
	  "t.yaml:3:22: `url` is a scheme, a host and a port; leave out `/v1`\n" },
	{ SERVER("key: k, tier: weak, endpoints: [127.0.0.1]"),
	  "t.yaml:3:5: an execution server must say its `url`\n"
	  "t.yaml:3:31: `weak` is not one of standard|high\n" },
	{ SERVER("url: 'http://127.0.0.1', endpoints: [0.0.0.0/0]"),
	  "t.yaml:3:5: an execution server must say its `key`: the name in the vault "
	  "of what it takes as OPEN-SANDBOX-API-KEY\n"
	  "t.yaml:3:54: 0.0.0.0/0 is too wide: name the private range that is meant "
	  "(public addresses need no entry)\n" },
	{ SERVER("url: 'http://127.0.0.1', key: 'k/{user}'"),
	  "t.yaml:3:5: an execution server must say where its `endpoints` may lie: "
	  "[\"127.0.0.0/8\"] when sandboxes run on this machine\n"
	  "t.yaml:3:47: `k/{user}` is not a name in the vault, without {user}\n" },
	{ SERVERS(ONE ONE), "t.yaml:4:12: an execution server is called `one` already, "
			    "in t.yaml:3\n" },
	{ SERVERS(ONE) "policies: {p: {allow: [], connectors: [one]}}\n",
	  "t.yaml:4:40: `one` is an execution server, which no sandbox may call\n" },
	{ SERVERS("  - {" LOCAL "}\n"), "t.yaml:3:5: `name` is missing\n" },
	{ SERVERS("  - {name: "
		  "a123456789012345678901234567890123456789012345678, " LOCAL "}\n"),
	  "t.yaml:3:5: the name of an execution server has 48 bytes at most\n" },
	{ "servers:\n" ONE, "t.yaml:1:1: warning: no listener is of kind opensandbox: "
			    "nobody reaches these servers\n" },
	{ LISTENER, "t.yaml:1:13: an opensandbox listener needs `servers` that it "
		    "stands for\n" },
	{ "listeners: [{name: e, kind: opensandbox, address: "
	  "'0.0.0.0:1'}]\nservers:\n" ONE,
	  "t.yaml:1:13: keys of callers would travel readable; give the listener "
	  "`tls`, an address on loopback, or `plain: true` if nobody listens on that "
	  "network\n" },
	{ "listeners: [{name: e, kind: opensandbox, address: '0.0.0.0:1', plain: "
	  "true}]\nservers:\n" ONE,
	  "" },
	{ "listeners: [{name: e, kind: opensandbox, address: '10.0.0.1:1', tls: "
	  "{}}]\nservers:\n" ONE,
	  "" },
	{ "listeners: [{name: e, kind: proxy, address: '127.0.0.1:1', plain: true}]\n",
	  "t.yaml:1:60: plain is for opensandbox listeners\n" },

	{ EXEC("approval: medium, approval_timeout: 5m, max_timeout: 2h, timeout: 30m, "
	       "idle: snapshot, idle_after: 5m, kill_after: 0, file_max: 1GiB, images: "
	       "['sg/*'], volumes: ['/data/**', 'pvc:team-*'], labels: {team: x}, "
	       "env_deny: [AWS_*], login_ports: [8080, 9000-9010]"),
	  "" },
	{ EXEC("max_timeout: 30m"), "" },
	{ EXEC("max_timeout: 30m, timeout: 1h"),
	  "t.yaml:4:35: exec.timeout is above exec.max_timeout\n" },
	{ EXEC("kill_after: 1m"),
	  "t.yaml:4:20: exec.kill_after is below exec.idle_after: nothing would ever "
	  "be kept\n" },
	{ EXEC("images: []"),
	  "t.yaml:4:16: `images` is empty; list something or leave it out\n" },
	{ EXEC("images: ['a b']"),
	  "t.yaml:4:17: `a b` is not a glob: printable ASCII without blanks, 256 bytes "
	  "at most\n" },
	{ EXEC("volumes: [data, 'pvc:', '/a/../b', '/a//b', '/a/b**', '/a/./b']"),
	  "t.yaml:4:18: `data`: a path starts with `/`, a claim is pvc:NAME\n"
	  "t.yaml:4:24: `pvc:`: a path starts with `/`, a claim is pvc:NAME\n"
	  "t.yaml:4:32: `/a/../b`: `.` and `..` are in no path that is allowed\n"
	  "t.yaml:4:43: `/a//b`: slashes stand alone\n"
	  "t.yaml:4:52: `/a/b**`: `**` must be a whole segment\n"
	  "t.yaml:4:62: `/a/./b`: `.` and `..` are in no path that is allowed\n" },
	{ EXEC("labels: {'-x': y, sandgate/user: z, a: 'b c'}"),
	  "t.yaml:4:17: not a label: letters, digits and inside of it `-`, `_` and "
	  "`.`; the value has 63 bytes at most\n"
	  "t.yaml:4:26: labels that begin with opensandbox.io/ or sandgate/ are set by "
	  "these themselves\n"
	  "t.yaml:4:44: not a label: letters, digits and inside of it `-`, `_` and "
	  "`.`; the value has 63 bytes at most\n" },
	{ EXEC("login_ports: [44772, 18000-19000]"),
	  "t.yaml:4:22: 44772 and 18080 are no ports of applications\n"
	  "t.yaml:4:29: 44772 and 18080 are no ports of applications\n" },
	{ EXEC("policy: p"), "t.yaml:4:16: no policy `p`\n" },
	{ EXEC("policy: codin") "policies: {coding: {allow: [{hosts: [a.test]}]}}\n",
	  "t.yaml:4:16: no policy `codin`; did you mean coding?\n" },
	{ EXEC("policy: p, approval_webhook: c") "policies: {p: {allow: "
						 "[]}}\n" CONNECTOR,
	  "" },
	{ EXEC("approval_webhook: one"),
	  "t.yaml:4:26: `one` is not one of the `connectors`; add one for the system "
	  "that is to be called\n" },
	{ EXEC("approval_webhook: c") "connectors: [{name: c, hosts: ['*.c.test'], "
				      "auth: {kind: passthrough}, "
				      "allow: [{paths: ['/**']}]}]\n",
	  "t.yaml:4:26: connector `c` has only patterns of hosts, and here the gateway "
	  "calls it for itself\n" },
	{ EXEC("aproval: high"),
	  "t.yaml:4:8: unknown key `aproval`; did you mean approval?\n" },
	{ EXEC("plcement: []"),
	  "t.yaml:4:8: unknown key `plcement`; did you mean placement?\n" },

	{ EXEC("placement: [{tier: standard, images: ['a*'], entrypoints: ['sh -c *'], "
	       "agents: [a], users: [u], labels: {k: v}, volumes: true, network: "
	       "['*.corp'], memory_over: 4GiB, cpu_over: 500m, risk: medium}]"),
	  "" },
	{ EXEC("placement: [{tier: high, risk: high}]"),
	  "t.yaml:4:27: none of `servers` is of tier high: give one `tier: high`\n" },
	{ EXEC("placement: [{risk: high}]"),
	  "t.yaml:4:20: `tier` is missing: one of standard|high\n" },
	{ EXEC("placement: [{tier: standard}, {tier: standard, agents: [a]}]"),
	  "t.yaml:4:38: warning: never asked: the rule in line 4 matches "
	  "everything\n" },
	{ EXEC("placement: [{tier: standard, network: [Corp], volumes: false, "
	       "cpu_over: many, labels: {}}]"),
	  "t.yaml:4:47: `Corp`: write hosts in lower case\n"
	  "t.yaml:4:63: `volumes: true` asks for some; leave it out otherwise\n"
	  "t.yaml:4:80: `many` is not a number of processors, like 4 or 500m\n"
	  "t.yaml:4:94: `labels` is empty; list something or leave it out\n" },

	{ EXEC("warm: [{name: py, size: 2, image: 'sg/base:local', entrypoint: [tail, "
	       "-f, /dev/null], env: {A: '', B: x}, limits: {cpu: 500m, memory: "
	       "256Mi}}]"),
	  "" },
	{ EXEC("warm: [{tier: high}]"),
	  "t.yaml:4:15: `name` is missing\n"
	  "t.yaml:4:15: `size` is missing\n"
	  "t.yaml:4:15: `image` is missing\n"
	  "t.yaml:4:22: none of `servers` is of tier high: give one `tier: high`\n" },
	{ EXEC("warm: [{name: a, size: 1, image: i}, {name: a, size: 1001, image: i, "
	       "env: {EXECD_ENVS: x}, limits: {memory: lots, disk: 1}}]"),
	  "t.yaml:4:52: another of `warm` is called `a`\n"
	  "t.yaml:4:61: 1001 is out of bounds: 0 to 1000\n"
	  "t.yaml:4:83: `EXECD_ENVS` is not a variable that may be set: it steers a "
	  "part of OpenSandbox, or is no name\n"
	  "t.yaml:4:116: not a limit: cpu like 2 or 500m, memory like 512Mi, or gpu\n"
	  "t.yaml:4:128: not a limit: cpu like 2 or 500m, memory like 512Mi, or "
	  "gpu\n" },

	{ JWT("issuer: 'https://id.test', audience: a, jwks_connector: c, jwks_path: "
	      "/keys, scopes: [run, read], tenant: t, may_delegate: true") CONNECTOR,
	  "" },
	{ JWT("issuer: i, audience: a"),
	  "t.yaml:4:14: keys come from one of `jwks_file` and `jwks_connector`\n" },
	{ JWT("issuer: i, audience: a, jwks_connector: c, jwks_path: /a}, {issuer: i, "
	      "audience: a, jwks_connector: c, jwks_path: /b") CONNECTOR,
	  "t.yaml:4:74: another of `jwt` has this issuer and audience\n" },
	{ JWT("jwks_connector: c") CONNECTOR,
	  "t.yaml:4:14: `issuer` is missing\n"
	  "t.yaml:4:14: `audience` is missing: without it tokens for other services "
	  "would be good here\n"
	  "t.yaml:4:14: `jwks_connector` and `jwks_path` go together\n" },
	{ JWT("issuer: i, audience: a, jwks_file: keys.json"),
	  "t.yaml:4:50: `keys.json` is not a readable file\n" },
	{ JWT("issuer: i, audience: a, jwks_connector: c, jwks_path: keys, scopes: "
	      "[walk]") CONNECTOR,
	  "t.yaml:4:69: `keys` is not the path of a request, from its `/` on\n"
	  "t.yaml:4:84: `walk` is not one of run|read|files|egress\n" },
};

static void
every_fault_is_told_with_its_place(void **state)
{
	(void)state;
	assert_told(rows, COUNT_OF(rows));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_fault_is_told_with_its_place),
	};

	return cmocka_run_group_tests_name("conf_exec_faults", tests, NULL, NULL);
}

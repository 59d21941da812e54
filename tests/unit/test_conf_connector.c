#include "tests/unit/make_image.h"

#define TAIL                                                                           \
	"policies: {p: {connectors: [c], allow: []}}\nresolver: {servers: "            \
	"[192.0.2.1]}\n"
#define CONNECTOR(members)                                                             \
	"connectors:\n  - {name: c, hosts: [c.test], " members "}\n" TAIL
#define ALLOW         "allow: [{methods: [GET]}]"
#define AUTH(members) CONNECTOR(ALLOW ", auth: {" members "}")
#define BEARER        "auth: {kind: bearer, secret: s}"

static const struct told rows[] = {
	/* every kind in its least form, and with all it takes */
	{ AUTH("kind: bearer, secret: s"), "" },
	{ AUTH("kind: bearer, secret: 'users/{user}/s', prefix: 'token ', placeholder: "
	       "'ghp_****************', env: GH_TOKEN"),
	  "" },
	{ AUTH("kind: bearer, secret: s, user: x-access-token"), "" },
	{ AUTH("kind: basic, secret: s, user: bot"), "" },
	{ AUTH("kind: header, secret: s, name: X-Api-Key"), "" },
	{ AUTH("kind: query, secret: s, name: key"), "" },
	{ AUTH("kind: path, secret: s, prefix: /bot"), "" },
	{ AUTH("kind: form, secret: s, name: token"), "" },
	{ AUTH("kind: oauth2_client_credentials, secret: s, client_id: i, token_url: "
	       "'https://login.test/token', scopes: [a, b], style: post"),
	  "" },
	{ AUTH("kind: oauth2_refresh, secret: s, token_url: "
	       "'https://login.test/token', "
	       "client_id: i, client_secret: t"),
	  "" },
	{ AUTH("kind: jwt_bearer, secret: s, issuer: '12', exchange: github_app, "
	       "token_url: 'https://c.test/app/installations/1/access_tokens'"),
	  "" },
	{ AUTH("kind: jwt_bearer, secret: s, issuer: me, exchange: none, algorithm: "
	       "ES256, audience: you"),
	  "" },
	{ AUTH("kind: sigv4, secret: s, region: eu-west-1, service: s3, assume_role: "
	       "'arn:aws:iam::1:role/r', external_id: x, session_token: t"),
	  "" },
	{ AUTH("kind: hmac, secret: s, name: x-sig, message: '{timestamp}.{body}', "
	       "timestamp: x-time, algorithm: sha512, encoding: base64"),
	  "" },
	{ AUTH("kind: mtls, secret: s, certificate: t"), "" },
	{ AUTH("kind: passthrough"), "" },
	/* keys that are missing, have no use, or don't go together */
	{ AUTH("kind: bearer"), "t.yaml:2:65: auth kind bearer needs `secret`\n" },
	{ AUTH("kind: passthrough, secret: s"),
	  "t.yaml:2:85: `secret` has no use with auth kind passthrough\n" },
	{ AUTH("kind: basic, secret: s, prefix: x"),
	  "t.yaml:2:90: `prefix` has no use with auth kind basic\n" },
	{ AUTH("secret: s"), "t.yaml:2:65: `kind` is missing: one of "
			     "bearer|basic|header|query|path|form|oauth2_client_"
			     "credentials|oauth2_refresh|jwt_bearer|sigv4|hmac|mtls|"
			     "passthrough\n" },
	{ AUTH("kind: bearer, secret: s, user: a, prefix: b"),
	  "t.yaml:2:65: `user` (Basic) leaves no `prefix`\n" },
	{ AUTH("kind: bearer, secret: s, env: A"),
	  "t.yaml:2:65: `env` needs `placeholder`\n" },
	{ AUTH("kind: bearer, secret: s, placeholder: short**"),
	  "t.yaml:2:104: `short**` is not printable ASCII with 16 or more `*`, each of "
	  "which becomes a random letter or digit\n" },
	{ AUTH("kind: bearer, secret: ../s"),
	  "t.yaml:2:88: `../s` is not a name in the vault: letters, digits, `-`, `_`, "
	  "`.` and `/`; {user} may be a whole part of it\n" },
	{ AUTH("kind: bearer, secret: 'a{user}'"),
	  "t.yaml:2:88: `a{user}` is not a name in the vault: letters, digits, `-`, "
	  "`_`, `.` and `/`; {user} may be a whole part of it\n" },
	{ AUTH("kind: header, secret: s, name: Host"),
	  "t.yaml:2:97: `Host` frames or routes a message; only the gateway writes "
	  "it\n" },
	{ AUTH("kind: header, secret: s, name: content_length"),
	  "t.yaml:2:97: `content_length` frames or routes a message; only the gateway "
	  "writes it\n" },
	{ AUTH("kind: query, secret: s, name: 'a=b'"),
	  "t.yaml:2:96: `a=b` is not the name of a parameter: at most 64 printable "
	  "bytes "
	  "without & = # % + and blank\n" },
	{ AUTH("kind: path, secret: s, prefix: bot"),
	  "t.yaml:2:65: auth kind path: `prefix` is how the path begins, like /bot\n" },
	{ AUTH("kind: oauth2_refresh, secret: s, token_url: 'http://login.test/token'"),
	  "t.yaml:2:110: a credential never travels in plain text; write https://\n" },
	{ AUTH("kind: oauth2_refresh, secret: s, token_url: 'login.test/token'"),
	  "t.yaml:2:110: `login.test/token` is not a URL: https://HOST[:PORT]\n" },
	{ AUTH("kind: oauth2_refresh, secret: s, token_url: 'https://a@login.test/'"),
	  "t.yaml:2:110: `https://a@login.test/` is not a URL: https://HOST[:PORT], "
	  "maybe "
	  "a path; no user, query or fragment\n" },
	{ AUTH("kind: jwt_bearer, secret: s, issuer: me"),
	  "t.yaml:2:65: auth kind jwt_bearer needs `token_url`, or exchange: none\n" },
	{ AUTH("kind: jwt_bearer, secret: s, issuer: me, exchange: none, algorithm: "
	       "sha1"),
	  "t.yaml:2:134: with auth kind jwt_bearer: RS256 or ES256\n" },
	{ AUTH("kind: sigv4, secret: s, region: r, service: s3, external_id: x"),
	  "t.yaml:2:65: `external_id`, `session_name` and `token_url` need "
	  "`assume_role`\n" },
	{ AUTH("kind: hmac, secret: s, name: x-sig, message: '{timestamp}'"),
	  "t.yaml:2:65: {timestamp} in `message` and `timestamp`, the field that it is "
	  "sent in, belong together\n" },
	{ AUTH("kind: hmac, secret: s, name: x-sig, message: '{bdy}'"),
	  "t.yaml:2:111: `{bdy}` is not text with {method}, {path}, {query}, {host}, "
	  "{timestamp}, {body} or {body_sha256}\n" },
	{ AUTH("kind: bearer, sceret: s"),
	  "t.yaml:2:65: auth kind bearer needs `secret`\n"
	  "t.yaml:2:80: unknown key `sceret`; did you mean secret?\n" },
	/* the connector around it */
	{ CONNECTOR(BEARER),
	  "t.yaml:2:5: a connector must say what it `allow`s; for all of "
	  "its hosts: [{paths: [\"/**\"]}]\n" },
	{ CONNECTOR(ALLOW), "t.yaml:2:5: a connector must say its `auth`\n" },
	{ CONNECTOR(BEARER ", allow: []"),
	  "t.yaml:2:72: `allow` is empty; list something or leave it out\n" },
	{ CONNECTOR(BEARER ", allow: [{}]"),
	  "t.yaml:2:73: say what: methods, paths or query; paths: [\"/**\"] is every "
	  "path\n" },
	{ CONNECTOR(BEARER "," ALLOW ", upstream: 'http://i.test'"),
	  "t.yaml:2:101: a credential never travels in plain text; write https://, or "
	  "use "
	  "auth kind passthrough\n" },
	{ CONNECTOR("auth: {kind: passthrough}," ALLOW ", upstream: 'http://i:8080'"),
	  "" },
	{ CONNECTOR(BEARER "," ALLOW ", upstream: 'https://i.test/v1'"),
	  "t.yaml:2:101: `upstream` is a scheme, a host and a port; leave out "
	  "`/v1`\n" },
	{ CONNECTOR(BEARER "," ALLOW ", approval: always"), "" },
	{ CONNECTOR(BEARER "," ALLOW ", approval: first"), "" },
	{ CONNECTOR(BEARER "," ALLOW ", approval: sometimes"),
	  "t.yaml:2:101: `sometimes` is not one of never|first|always\n" },
	{ CONNECTOR(BEARER "," ALLOW ", limits: {requests_burst: 5}"),
	  "t.yaml:2:99: `requests_burst` needs `requests_per_second`\n" },
	{ CONNECTOR(BEARER "," ALLOW ", headers: {request: {add: {X-A: ' b'}}}"),
	  "t.yaml:2:122: a field's value is printable ASCII, without blanks at its "
	  "ends\n" },
	{ CONNECTOR(BEARER "," ALLOW ", headers: {response: {strip: [Connection]}}"),
	  "t.yaml:2:120: `Connection` frames or routes a message; only the gateway "
	  "writes "
	  "it\n" },
	{ "connectors: {name: c, hosts: ['*.github.io'], " BEARER ", " ALLOW "}\n" TAIL,
	  "t.yaml:1:31: `*.github.io` covers sites of many owners on shared hosting; "
	  "name "
	  "the hosts, or say `shared_suffix: true`\n" },
	{ "connectors: {name: c, hosts: ['*.github.io'], shared_suffix: true, " BEARER
	  ", " ALLOW "}\n" TAIL,
	  "" },
	{ "connectors:\n  - {name: c, hosts: [c], " BEARER ", " ALLOW
	  "}\n  - {name: c, hosts: [d], " BEARER ", " ALLOW "}\n" TAIL,
	  "t.yaml:3:12: a connector is called `c` already, in t.yaml:2\n" },
	{ "connectors: [{name: c, hosts: [c], " BEARER ", " ALLOW
	  "}]\npolicies: {p: {connectors: [c, c], allow: []}}\n",
	  "t.yaml:2:32: connector `c` is listed twice\n" },
	{ "connectors: [{name: c, hosts: [c], auth: {kind: bearer, secret: "
	  "'u/{user}'}, " ALLOW "}]\n" TAIL
	  "sandboxes: [{id: a, policy: p}, {id: b, policy: p, user: u}]\n",
	  "t.yaml:4:13: warning: no `user`: connector `c` of its policy has a secret "
	  "for "
	  "each user and will give none\n" },
};

static void
every_fault_of_a_connector_is_told_with_its_place(void **state)
{
	(void)state;
	assert_told(rows, COUNT_OF(rows));
}

#define TWO(one, two)                                                                  \
	"connectors:\n  - {name: a, " BEARER ", " one "}\n  - {name: b, " BEARER       \
	", " two "}\n"
#define BOTH     "policies: {p: {connectors: [a, b], allow: []}}\n" RESOLVER
#define RESOLVER "resolver: {servers: [192.0.2.1]}\n"
#define TIE                                                                            \
	"t.yaml:3:73: connectors `b` and `a` (t.yaml:2) match the same requests and "  \
	"neither path is more specific\n"

static const struct told overlaps[] = {
	{ TWO("hosts: [x.test], allow: [{paths: ['/a/**']}]",
	      "hosts: [x.test], allow: [{paths: ['/b/**']}]") BOTH,
	  "" },
	{ TWO("hosts: [x.test], allow: [{paths: ['/a/**']}]",
	      "hosts: [x.test], allow: [{paths: ['/a/b/**']}]") BOTH,
	  "" },
	{ TWO("hosts: [x.test], allow: [{paths: ['/a/**']}]",
	      "hosts: [x.test], allow: [{paths: ['/a/**']}]") BOTH,
	  TIE },
	{ TWO("hosts: [x.test], allow: [{paths: ['/a/*/c']}]",
	      "hosts: [x.test], allow: [{paths: ['/a/b/*']}]") BOTH,
	  TIE },
	{ TWO("hosts: [x.test], allow: [{methods: [GET]}]",
	      "hosts: [x.test], allow: [{methods: [PUT]}]") BOTH,
	  "" },
	{ TWO("hosts: [x.test], allow: [{methods: [GET]}]",
	      "hosts: [x.test], allow: [{methods: [HEAD]}]") BOTH,
	  TIE },
	{ TWO("hosts: ['*.test.example'], allow: [{methods: [GET]}]",
	      "hosts: [x.test.example], allow: [{methods: [GET]}]") BOTH,
	  "t.yaml:3:81: connectors `b` and `a` (t.yaml:2) match the same requests and "
	  "neither path is more specific\n" },
	{ TWO("hosts: [x.test], allow: [{methods: [GET]}]",
	      "hosts: [x.test], ports: [8443], allow: [{methods: [GET]}]") BOTH,
	  "" },
	/* only what one policy lists can tie */
	{ TWO("hosts: [x.test], allow: [{methods: [GET]}]",
	      "hosts: [x.test], allow: [{methods: [GET]}]") "policies: {p: "
							    "{connectors: [a], "
							    "allow: []}, q: "
							    "{connectors: "
							    "[b], allow: "
							    "[]}}\n" RESOLVER,
	  "" },
	/* a raw rule that reaches a host of a connector */
	{ CONNECTOR(BEARER ", " ALLOW) "", "" },
	{ "connectors: [{name: c, hosts: [c.test.example], " BEARER ", " ALLOW
	  "}]\npolicies:\n  p:\n    connectors: [c]\n    allow:\n"
	  "      - {hosts: ['*.test.example']}\n"
	  "      - {hosts: [c.test.example], ports: [80]}\n"
	  "      - {hosts: [c.test.example], ports: [22], protocol: tcp}\n"
	  "      - {hosts: [d.test.example, c.test.example], ports: [400-500], "
	  "protocol: "
	  "tcp}\n" RESOLVER,
	  "t.yaml:6:9: *.test.example reaches a host of connector `c` past the "
	  "connector's `allow`; name other hosts or ports, or take the connector out "
	  "of "
	  "this policy\n"
	  "t.yaml:9:9: c.test.example reaches a host of connector `c` past the "
	  "connector's `allow`; name other hosts or ports, or take the connector out "
	  "of "
	  "this policy\n" },
	/* rules that change nothing */
	{ "policies:\n  p:\n    allow:\n"
	  "      - {hosts: [a.test, b.x.test]}\n"
	  "      - {hosts: [a.test], methods: [GET]}\n"
	  "      - {hosts: [a.test], ports: [8080], methods: [GET]}\n"
	  "      - {hosts: ['*.x.test'], paths: [/]}\n"
	  "    deny:\n"
	  "      - {hosts: ['*.x.test']}\n" RESOLVER,
	  "t.yaml:5:9: warning: methods, paths and query make no difference here: the "
	  "rule at t.yaml:4 allows these hosts without\n"
	  "t.yaml:7:9: warning: this rule never applies: the deny rule at t.yaml:9 "
	  "covers its hosts\n" },
};

static void
rules_that_lie_over_each_other_are_told(void **state)
{
	(void)state;
	assert_told(overlaps, COUNT_OF(overlaps));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_fault_of_a_connector_is_told_with_its_place),
		cmocka_unit_test(rules_that_lie_over_each_other_are_told),
	};

	return cmocka_run_group_tests_name("conf_connector", tests, NULL, NULL);
}

#ifndef TESTS_UNIT_EXEC_TEXT_H
#define TESTS_UNIT_EXEC_TEXT_H
/* exec_text: pieces of a configuration with execution servers. */
#include "tests/unit/make_image.h"

#define LISTENER                                                                       \
	"listeners: [{name: e, kind: opensandbox, address: '127.0.0.1:8090'}]\n"
#define LOCAL  "url: 'http://127.0.0.1:8080', key: os/one, endpoints: [127.0.0.0/8]"
#define ONE    "  - {name: one, " LOCAL "}\n"
#define STRONG "  - {name: strong, tier: high, " LOCAL "}\n"
#define CA_FILE                                                                        \
	"`ca_file` is an absolute path without `:`, `.`, `..` and empty parts, like "  \
	"/var/lib/sandgate-ca/ca.pem\n"
#define HASH            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define SERVERS(all)    LISTENER "servers:\n" all
#define SERVER(members) SERVERS("  - {name: one, " members "}\n")
#define EXEC(members)   SERVERS(ONE) "exec: {" members "}\n"
#define JWT(members)    EXEC("jwt: [{" members "}]")
#define CONNECTOR                                                                      \
	"connectors: [{name: c, hosts: [c.test], auth: {kind: passthrough}, allow: "   \
	"[{paths: ['/**']}]}]\nresolver: {servers: [192.0.2.1]}\n"

#endif

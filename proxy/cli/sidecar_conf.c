#include <ifaddrs.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/base/enc.h"
#include "proxy/cli/resolvers.h"
#include "proxy/cli/sidecar.h"

#define PREFIX "OPENSANDBOX_EGRESS_"

/* What is passed on by the server, some of it from who creates the sandbox. */
enum honour {
	HONOURED,
	NOT_NEEDED, /* it is always so here, or means nothing here */
	IGNORED,    /* it would weaken the gateway: said so */
	REFUSED,    /* to go on without would break a promise, so nothing is begun */
};

static const struct {
	const char *name;
	enum honour honour;
	const char *why;
} variables[] = {
	{ "RULES", HONOURED, "" },
	{ "MODE", NOT_NEEDED, "" },
	{ "TOKEN", HONOURED, "" },
	{ "SANDBOX_ID", HONOURED, "" },
	{ "LOG_LEVEL", HONOURED, "" },
	{ "MITMPROXY_TRANSPARENT", HONOURED, "" },
	{ "MITMPROXY_EXTRA_PORTS", NOT_NEEDED, "" },
	{ "DNS_UPSTREAM_TIMEOUT", NOT_NEEDED, "" },
	{ "CREDENTIAL_VAULT_REQUIRE_SCOPED_MATCH", NOT_NEEDED, "" },
	{ "CREDENTIAL_VAULT_REQUIRE_TLS", REFUSED,
	  "the egress API has no TLS in this form" },
	{ "UPSTREAM_PROXY", REFUSED,
	  "write upstream_proxy into a configuration of the image" },
	{ "UPSTREAM_PROXY_AUTH", REFUSED,
	  "write upstream_proxy into a configuration of the image" },
	{ "MITMPROXY_SSL_INSECURE", IGNORED, "hosts are always verified" },
	{ "MITMPROXY_SCRIPT", IGNORED, "nobody's code runs in the gateway" },
	{ "CREDENTIAL_VAULT_TRUSTED_PROXY_CIDRS", IGNORED,
	  "no address is believed to be somebody" },
	{ "DENY_WEBHOOK", IGNORED, "the gateway sends nothing on its own" },
	{ "METRICS_EXTRA_ATTRS", IGNORED, "the gateway sends nothing on its own" },
	{ "POLICY_FILE", IGNORED, "a caller names no file of the gateway's" },
};

static bool
is_truthy(const char *value)
{
	static const char *const yes[] = { "1", "true", "yes", "y", "on" };

	for (size_t i = 0; value != NULL && i < COUNT_OF(yes); i++)
		if (str_ieq(str_trim(str_from(value)), str_from(yes[i])))
			return true;
	return false;
}

/* False: it must not begin. */
static bool
hear(struct str name, const char *value)
{
	size_t i = 0;

	while (i < COUNT_OF(variables) && !str_eq(name, str_from(variables[i].name)))
		i++;
	enum honour honour = i < COUNT_OF(variables) ? variables[i].honour : IGNORED;
	const char *why = i < COUNT_OF(variables) ? variables[i].why : "it isn't known";
	bool is_off = value[0] == '\0' || str_eq(str_from(value), STR("false")) ||
		      str_eq(str_from(value), STR("0"));

	if (honour == HONOURED || honour == NOT_NEEDED || is_off)
		return true;
	(void)fprintf(stderr, "sandgate sidecar: %s%.*s is %s: %s\n", PREFIX,
		      STR_ARG(name), honour == REFUSED ? "refused" : "not honoured",
		      why);
	return honour != REFUSED;
}

static bool
hear_all(void)
{
	bool may_begin = true;

	for (char **at = environ; *at != NULL; at++) {
		struct str rest = str_from(*at), name = str_cut(&rest, '=');

		if (str_starts(name, STR(PREFIX)) && rest.p != NULL)
			may_begin = hear(str_skip(name, sizeof PREFIX - 1), rest.p) &&
				    may_begin;
	}
	return may_begin;
}

static bool
has_addr(const struct sidecar *s, const struct addr *a)
{
	for (size_t i = 0; i < s->addrs_n; i++)
		if (addr_eq(&s->addrs[i], a))
			return true;
	return false;
}

static void
take_addr(struct sidecar *s, const struct addr *a)
{
	enum addr_class class = addr_classify(a);

	if (class == ADDR_LOOPBACK)
		s->has_v6 = s->has_v6 || a->family == 6;
	else if (class != ADDR_LINK_LOCAL && s->addrs_n < SIDECAR_ADDRS &&
		 !has_addr(s, a))
		s->addrs[s->addrs_n++] = *a;
}

/* Connections of the sandbox come from these. */
static bool
read_addrs(struct sidecar *s)
{
	struct ifaddrs *all;
	struct addr a;
	uint16_t port;

	if (getifaddrs(&all) < 0)
		return false;
	for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next)
		if (i->ifa_addr != NULL && addr_from_sockaddr(i->ifa_addr, &a, &port))
			take_addr(s, &a);
	freeifaddrs(all);
	return true;
}

bool
sidecar_read(struct sidecar *s)
{
	const char *id = getenv(PREFIX "SANDBOX_ID");

	*s = (struct sidecar){ .rules = getenv(PREFIX "RULES"),
			       .token = getenv(PREFIX "TOKEN"),
			       .log_level = getenv(PREFIX "LOG_LEVEL"),
			       .id = "sandbox",
			       .knows_sockets = true };
	if (id != NULL && str_is_name(str_from(id)))
		s->id = id;
	s->intercepts = is_truthy(getenv(PREFIX "MITMPROXY_TRANSPARENT"));
	if (!hear_all())
		return false;
	if (s->token == NULL || s->token[0] == '\0') {
		(void)fputs("sandgate sidecar: " PREFIX "TOKEN is missing: whoever "
			    "reaches the egress API could open the policy\n",
			    stderr);
		return false;
	}
	if (!read_addrs(s)) {
		(void)fputs("sandgate sidecar: no addresses can be read\n", stderr);
		return false;
	}
	return true;
}

/* The configuration. */

static void
put_token_hash(struct buf *b, const char *token)
{
	uint8_t hash[32] = { 0 };
	unsigned n = sizeof hash;

	if (EVP_Digest(token, strlen(token), hash, &n, EVP_sha256(), NULL) != 1)
		b->st = ST_NOMEM;
	enc_put_hex(b, str_of(hash, sizeof hash));
}

static void
put_listeners(struct buf *b, const struct sidecar *s)
{
	buf_putf(b,
		 "listeners:\n"
		 "  - {name: egress, kind: transparent, address: \"127.0.0.1:%u\"}\n"
		 "  - {name: dns, kind: dns, address: \"127.0.0.1:%u\"}\n",
		 SIDECAR_TCP, SIDECAR_DNS);
	if (s->has_v6)
		buf_putf(b,
			 "  - {name: egress6, kind: transparent, address: "
			 "\"[::1]:%u\"}\n"
			 "  - {name: dns6, kind: dns, address: \"[::1]:%u\"}\n",
			 SIDECAR_TCP, SIDECAR_DNS);
	buf_putf(b,
		 "  - {name: api, kind: opensandbox, address: \"0.0.0.0:%u\", plain: "
		 "true,\n     sandbox: ",
		 SIDECAR_API);
	buf_put_json(b, str_from(s->id));
	buf_put(b, STR(", token_sha256: "));
	put_token_hash(b, s->token);
	buf_put(b, STR("}\n"));
}

static void
put_log_level(struct buf *b, const char *level)
{
	static const char *const known[] = { "error", "info", "debug" };

	for (size_t i = 0; level != NULL && i < COUNT_OF(known); i++)
		if (str_ieq(str_from(level), str_from(known[i])))
			buf_putf(b, "log_level: %s\n", known[i]);
}

/* As far as the sandbox's own networkPolicy goes: public addresses, by HTTP and TLS on every
 * port, by name and any protocol on all ports but 80 and 443.  Where TLS is to be ended, a rule
 * about paths makes every request be looked at.  An image may bring a policy of its own. */
static void
put_policy(struct buf *b, const char *name, bool intercepts)
{
	char path[128];
	int n = snprintf(path, sizeof path, "%s/policies/%s.yaml", SIDECAR_DIR, name);

	if (n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0)
		return;
	buf_putf(b,
		 "policies:\n  %s:\n    allow:\n"
		 "      - {any_host: true, ports: [\"1-65535\"]%s}\n"
		 "      - {any_host: true, protocol: tcp, ports: [\"1-79\", "
		 "\"81-442\", \"444-65535\"]}\n",
		 name, intercepts ? ", paths: [\"/**\"]" : "");
}

void
sidecar_put_config(struct buf *b, const struct sidecar *s)
{
	const char *policy = sidecar_policy(s);

	buf_putf(b, "state_dir: %s\nworkers: 1\negress_mark: %u\n", SIDECAR_STATE,
		 SIDECAR_MARK);
	buf_put(b, STR("timeouts: {drain: 2s}\nledger: {max_size: 64MiB}\n"));
	put_log_level(b, s->log_level);
	put_listeners(b, s);
	resolvers_put(b);
	if (access(SIDECAR_DIR "/secrets", F_OK) == 0)
		buf_put(b, STR("vault: {files: " SIDECAR_DIR "/secrets}\n"));
	buf_putf(b, "exec: {policy: %s}\n", policy);
	put_policy(b, policy, s->intercepts);
}

const char *
sidecar_policy(const struct sidecar *s)
{
	return s->intercepts ? "sidecar-intercept" : "sidecar";
}

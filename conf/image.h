#ifndef CONF_IMAGE_H
#define CONF_IMAGE_H
/*
 * image: a compiled configuration, flat in one sealed memfd.  Everything is an offset
 * or an index into a table; image_open() checks each of them once, so the readers
 * below never fail and never look outside.  Same bytes in every role.
 *
 * Owner: whoever opened it.  Views (struct str, const pointers) live until
 * image_close().
 */
#include "proxy/base/addr.h"

#define OPTION(name, key, type, min, max, def, unit, help) OPT_##name,
enum option {
#include "conf/options.def"
	OPT_COUNT
};
#undef OPTION

enum listener_kind {
	LISTENER_TRANSPARENT,
	LISTENER_PROXY,
	LISTENER_DNS,
	LISTENER_OPENSANDBOX
};

/* In one certificate, and their text together. */
enum { LISTENER_NAMES_MAX = 16, LISTENER_NAMES_TEXT = 1000 };

#define AUTH(name, word, needs, takes, help) AUTH_##name,
enum auth_kind {
#include "conf/auth_kinds.def"
	AUTH_KINDS
};
#undef AUTH

/* Text members of `auth:`, and the parts of a sandbox that a secret's name may hold. */
enum auth_algorithm { AUTH_SHA256, AUTH_SHA1, AUTH_SHA512, AUTH_RS256, AUTH_ES256 };
enum auth_encoding { AUTH_HEX, AUTH_BASE64 };
enum auth_style { AUTH_STYLE_BASIC, AUTH_STYLE_POST };
enum auth_exchange {
	AUTH_EXCHANGE_OAUTH,
	AUTH_EXCHANGE_GITHUB_APP,
	AUTH_EXCHANGE_NONE
};
enum upstream_http { UPSTREAM_HTTP_AUTO, UPSTREAM_HTTP_1, UPSTREAM_HTTP_2 };

/* Whether a person is asked before it is used. */
enum approval_when {
	APPROVAL_NEVER,
	APPROVAL_FIRST, /* before it is used at all */
	APPROVAL_EACH,  /* before each request */
	APPROVAL_WHENS
};

struct image; /* opaque: a mapped image */

struct image_ref { /* bytes in the string table */
	uint32_t offset, length;
};

/* Members called gap and end are where a compiler would leave holes: named, so that an
 * initialiser zeroes them and nothing of a stack gets into an image. */

struct image_listener {
	struct image_ref name;
	struct addr addr;
	uint8_t gap[1];
	uint16_t port;
	uint8_t kind;   /* enum listener_kind */
	uint8_t tproxy; /* TPROXY instead of REDIRECT */
	uint8_t end[2];
	/* Words: what its certificate says, as mint writes hosts.  None: no TLS. */
	uint32_t names, names_n;
	/* Of kind opensandbox: it serves the egress API of this one sandbox and nothing else,
	 * to who has the token of this SHA-256; or empty. */
	struct image_ref sandbox;
	uint8_t token_hash[32];
};

/* Each may what those before it may. */
enum admin_role {
	ADMIN_VIEWER,   /* read */
	ADMIN_APPROVER, /* decide on what waits for a person */
	ADMIN_OPERATOR, /* everything */
	ADMIN_ROLES
};

/* Who asks the gateway: by the user of the process at the other end of the socket, or by a
 * token. */
struct image_admin {
	struct image_ref name;
	uint8_t token_hash[32]; /* SHA-256; not looked at with has_uid */
	uint32_t uid;
	uint8_t has_uid;
	uint8_t role; /* enum admin_role */
	uint8_t end[2];
};

struct image_sandbox {
	struct image_ref id, user, agent, session, tenant;
	uint8_t token_hash[32];      /* SHA-256 of the token, all zero: none */
	struct image_ref token;      /* or its name in the vault of its tenant */
	uint32_t sources, sources_n; /* see image_sources() */
	uint32_t policy;             /* index or POLICY_NONE */
	uint32_t limits;             /* index of a limits record, 0: the defaults */
	uint8_t trusts_ca;           /* the operator installed our CA there */
	uint8_t end[3];
};

struct image_rule {
	uint32_t policy;
	/* One entry of a connector's `allow` or `deny` stands in each policy that lists
	 * the connector: its index, else CONNECTOR_NONE. */
	uint32_t connector;
	uint8_t is_deny, is_tcp, is_shared_suffix;
	uint8_t approval;    /* enum approval_when; of a rule with CONNECTOR_NONE */
	uint8_t is_any_host; /* an allow rule without hosts, which covers all of them */
	uint8_t gap[3];
	struct image_ref file; /* where it was written */
	uint32_t line, column;
	/* ranges into tables of the image; conf/ alone knows their layout */
	uint32_t hosts, hosts_n, ports, ports_n, cidrs, cidrs_n, methods, methods_n,
		paths, paths_n, query, query_n, addresses, addresses_n, countries,
		countries_n, asns, asns_n;
};

/*
 * How a connector shows its credential: what auth_kinds.def says of the kind; what was
 * not given is empty.  secret, client_secret, session_token and certificate are names in
 * the vault, the first may hold {user}; they are the only ones that LEASE gives out.
 */
struct image_auth {
	uint8_t kind;      /* enum auth_kind */
	uint8_t algorithm; /* enum auth_algorithm; of its kind's own default if not given */
	uint8_t encoding; /* of hmac: enum auth_encoding */
	uint8_t style; /* of a token request: enum auth_style, how the client shows itself */
	uint8_t exchange;     /* of jwt_bearer: enum auth_exchange */
	uint8_t is_delegated; /* secret holds {user}: LEASE needs the sandbox's socket */
	uint8_t token_is_explicit; /* token_url was written, not made of the region */
	uint8_t gap[1];
	struct image_ref secret, client_secret, session_token, certificate;
	struct image_ref user; /* literal: Basic with this user instead of Bearer */
	struct image_ref name; /* header field (lower case), query or form parameter */
	struct image_ref
		prefix; /* "Bearer " and the like, with its blank; of path: "/bot" */
	struct image_ref token_url,
		token_host; /* https only; the host as a dest has it */
	struct image_ref client_id, audience, issuer, subject, key_id;
	struct image_ref scopes; /* joined by blanks */
	struct image_ref region, service, assume_role, external_id, session_name;
	struct image_ref
		message; /* of hmac: {method} {path} {query} {timestamp} {body} ... */
	struct image_ref timestamp; /* of hmac: the field that {timestamp} is sent in */
	struct image_ref
		placeholder;  /* shape: each `*` becomes a random letter or digit */
	struct image_ref env; /* variable that exec and attach set to the placeholder */
	uint16_t token_port;
	uint8_t end[2];
};

struct image_header_line { /* a header field that a connector adds */
	struct image_ref name, value;
};

/*
 * A company system.  Sandboxes name one of its hosts (over TLS, on one of its ports); the
 * connector calls that same host, or `upstream` if one is given, always by TLS unless
 * the upstream says http://, which only passthrough may.  Sorted by name.
 */
struct image_connector {
	struct image_ref name;   /* stays the first member */
	struct image_ref tenant; /* whose it is; empty: everybody's */
	struct image_ref
		group; /* one process for each: default the tenant, then "default" */
	struct image_ref file; /* where it was written */
	uint32_t line, column;
	uint32_t hosts, hosts_n, ports,
		ports_n;                     /* as of a rule; ports are never none */
	uint32_t addresses, addresses_n;     /* may be private on purpose */
	uint32_t users, users_n;             /* words: who may; none: all */
	uint32_t request_add, request_add_n; /* see image_headers() */
	uint32_t response_add, response_add_n;
	uint32_t request_strip, request_strip_n; /* words: names in lower case */
	uint32_t response_strip, response_strip_n;
	struct image_ref upstream_host; /* empty: the host that the sandbox named */
	uint16_t upstream_port;         /* 0: the port that the sandbox named */
	uint8_t upstream_is_plain;      /* http:// */
	uint8_t upstream_http;          /* enum upstream_http */
	uint8_t is_redacting; /* echoes of the secret are replaced; default on */
	uint8_t is_listed;    /* by some policy; else nobody uses it */
	uint8_t approval;     /* enum approval_when */
	uint8_t end[1];
	/* 0: none.  Of all sandboxes together; request_body of each request. */
	uint32_t requests_per_second, requests_burst, concurrent;
	uint32_t gap;
	uint64_t request_body;
	struct image_auth auth;
};

/* How a source of secrets is logged in to. */
enum store_login { STORE_TOKEN, STORE_APPROLE, STORE_KUBERNETES, STORE_LOGINS };

/*
 * A source of secrets: OpenBao or HashiCorp Vault, KV version 2.  It is read by the connector
 * of the same name, which does nothing else, in a process of its own (its group holds a '/',
 * as no other does).  auth.secret of that connector is what it logs in with.
 */
struct image_store {
	struct image_ref name; /* its secrets are called NAME/... */
	uint32_t connector;
	uint8_t login; /* enum store_login */
	uint8_t end[3];
	struct image_ref login_mount, role; /* role: or role id; not of STORE_TOKEN */
	struct image_ref space;             /* its namespace; empty: the root one */
	uint64_t refresh_ms;
	uint64_t keep_ms; /* so long after it was read a value may be given out */
	uint32_t items, items_n;
};

/* One of its secrets. */
struct image_store_item {
	struct image_ref name; /* NAME/... */
	struct image_ref mount, path, field;
	uint32_t store;
	uint32_t version; /* 0: the newest */
};

/* How much a server keeps its sandboxes apart; a later one is stronger. */
enum exec_tier { EXEC_TIER_STANDARD, EXEC_TIER_HIGH, EXEC_TIERS };

/* What a caller may do there, as bits. */
enum exec_scope {
	EXEC_SCOPE_RUN = 1,    /* create, change, execute, end */
	EXEC_SCOPE_READ = 2,   /* list, look */
	EXEC_SCOPE_FILES = 4,  /* of a sandbox */
	EXEC_SCOPE_EGRESS = 8, /* narrow what it reaches */
	EXEC_SCOPES_ALL = 15
};

/* `exec.idle`, in the order of its words. */
enum exec_idle { EXEC_IDLE_NONE, EXEC_IDLE_PAUSE, EXEC_IDLE_SNAPSHOT, EXEC_IDLE_KILL };

/*
 * An OpenSandbox server.  Its API is called through the connector of the same name,
 * which does nothing else, in a process of its own (group "server/NAME").
 */
struct image_exec_server {
	struct image_ref name; /* stays the first member; sorted by it */
	struct image_ref
		network; /* its sandboxes are on this docker network; or empty */
	struct image_ref ca_file; /* where its docker finds our CA; or empty */
	uint32_t connector;
	uint32_t weight;                 /* among those of its tier; never 0 */
	uint32_t endpoints, endpoints_n; /* where endpoints that it returns may lie */
	uint8_t tier;                    /* enum exec_tier */
	uint8_t end[3];
};

/* A rule of `exec.placement`: all of its conditions hold; of a list one entry does. */
struct image_exec_placement {
	struct image_ref file; /* where it was written */
	uint32_t line, column;
	/* Words: globs of images, entrypoints (joined by blanks) and hosts; names.  Of
	 * labels a key and its value by turns, which all must be there. */
	uint32_t images, images_n, entrypoints, entrypoints_n, agents, agents_n, users,
		users_n, labels, labels_n, hosts, hosts_n;
	uint64_t memory_over; /* bytes; 0: no such condition */
	uint64_t cpu_over;    /* thousandths of a processor; 0: none */
	uint8_t tier;
	uint8_t risk; /* from this enum risk_level on; low: no such condition */
	uint8_t needs_volumes;
	uint8_t end[5];
};

enum { EXEC_WARM_MAX = 1000 };

/* Sandboxes that are kept ready. */
struct image_exec_warm {
	struct image_ref name, image;
	uint32_t entrypoint, entrypoint_n; /* words */
	uint32_t env, env_n;               /* words: a name and its value by turns */
	uint32_t limits, limits_n;         /* the same */
	uint32_t size;
	uint8_t tier;
	uint8_t end[3];
};

/* Whose tokens (RFC 7519) are taken. */
struct image_exec_jwt {
	struct image_ref issuer, audience;
	struct image_ref jwks; /* the text of jwks_file; or empty: */
	struct image_ref jwks_path;
	uint32_t jwks_connector; /* or CONNECTOR_NONE */
	struct image_ref user_claim, agent_claim, tenant;
	uint8_t scopes; /* enum exec_scope */
	uint8_t may_delegate;
	uint8_t end[2];
};

/* The lists of `exec`, one record or none. */
struct image_exec {
	uint32_t images, images_n;   /* words: globs; none: every image */
	uint32_t volumes, volumes_n; /* words: globs of paths, pvc:NAME; none: none */
	uint32_t labels, labels_n;   /* words: a key and its value by turns */
	uint32_t env_deny, env_deny_n;
	uint32_t login_ports, login_ports_n;
	uint32_t webhook; /* a connector, or CONNECTOR_NONE */
	uint32_t policy;  /* of what sandboxes reach, or POLICY_NONE */
};

struct image_policy {
	struct image_ref name;
	uint32_t rules, rules_n; /* contiguous in the rule table */
	uint32_t loose_n; /* the first of them: with cidrs, or a deny for every host */
	uint8_t is_observe;
	uint8_t end[3];
};

/* One row of limits: per sandbox, resolved at compile time from defaults and overrides.
 */
struct image_limits {
	uint32_t connections, connections_per_second, connections_burst,
		requests_per_second, requests_burst;
	uint32_t gap;
	uint64_t bytes; /* both directions, per gateway run; 0: none */
};

struct image_server { /* a resolver */
	struct addr addr;
	uint8_t gap[1];
	uint16_t port;
};

/* Map and check.  The descriptor must be sealed against write, grow and shrink; it
 * stays the caller's.  ST_BAD_MESSAGE when anything does not fit. */
enum status image_open(int memfd, struct image **ret_im) MUSTCHECK;
void image_close(struct image *im);

struct str image_str(const struct image *im, struct image_ref ref);

uint64_t image_number(const struct image *im,
		      enum option opt); /* durations in ms, sizes in bytes */
bool image_flag(const struct image *im, enum option opt);
struct str image_text(const struct image *im, enum option opt);

/* Of admin.roles; none: who runs the gateway, and the one token, are operators. */
const struct image_admin *image_admins(const struct image *im, size_t *ret_n);
const struct image_listener *image_listeners(const struct image *im, size_t *ret_n);
const struct image_listener *image_listener_by_name(const struct image *im,
						    struct str name); /* or NULL */
/* The one that serves the egress API of this sandbox, or NULL. */
const struct image_listener *image_listener_of_sandbox(const struct image *im,
						       struct str id);
const struct image_sandbox *image_sandboxes(const struct image *im, size_t *ret_n);
const struct image_policy *image_policies(const struct image *im, size_t *ret_n);
const struct image_rule *image_rules(const struct image *im, size_t *ret_n);
/* Index in the table is what policy_answer.connector and image_rule.connector mean. */
const struct image_connector *image_connectors(const struct image *im, size_t *ret_n);
uint32_t image_connector_by_name(const struct image *im,
				 struct str name); /* or CONNECTOR_NONE */
/* The fields of request_add and response_add. */
const struct image_header_line *image_headers(const struct image *im, uint32_t first);
/* One word of names, users, request_strip or response_strip: first + i. */
struct str image_word(const struct image *im, uint32_t index);
const struct image_store *image_stores(const struct image *im, size_t *ret_n);
const struct image_store_item *image_store_items(const struct image *im, size_t *ret_n);
/* NULL: no source reads it, or this connector reads none. */
const struct image_store_item *image_store_item_by_name(const struct image *im,
							struct str name);
const struct image_store *image_store_of(const struct image *im, uint32_t connector);
/* Does the name begin as the secrets of some source do? */
bool image_is_store_name(const struct image *im, struct str secret);
/* Of `exec`; never NULL: without one all lists are empty. */
const struct image_exec *image_exec(const struct image *im);
const struct image_exec_server *image_exec_servers(const struct image *im,
						   size_t *ret_n);
const struct image_exec_server *
image_exec_server_by_name(const struct image *im, struct str name); /* or NULL */
/* The server that this connector calls, or NULL: it calls none. */
const struct image_exec_server *image_exec_server_of(const struct image *im,
						     uint32_t connector);
const struct image_exec_placement *image_exec_placements(const struct image *im,
							 size_t *ret_n);
const struct image_exec_warm *image_exec_warms(const struct image *im, size_t *ret_n);
const struct image_exec_jwt *image_exec_jwts(const struct image *im, size_t *ret_n);
const struct image_limits *image_limits(const struct image *im, uint32_t index);
const struct image_server *image_resolvers(const struct image *im, size_t *ret_n);

/* Addresses of a name in resolver.hosts; n == 0 when it is not there. */
const struct addr *image_host_addrs(const struct image *im, struct str name,
				    size_t *ret_n);
uint32_t image_policy_by_name(const struct image *im,
			      struct str name); /* or POLICY_NONE */
const struct image_sandbox *image_sandbox_by_id(const struct image *im, struct str id);
/* The addresses that a sandbox connects from, in the order of the file. */
const struct addr *image_sources(const struct image *im, const struct image_sandbox *s,
				 size_t *ret_n);
const struct image_sandbox *image_sandbox_by_source(const struct image *im,
						    const struct addr *a);

void image_put_rule(struct buf *b, const struct image *im,
		    uint32_t rule); /* "file:line" or "-" */

#endif

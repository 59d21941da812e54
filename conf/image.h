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
};

struct image_sandbox {
	struct image_ref id, user, agent, session, tenant;
	uint8_t token_hash[32];      /* SHA-256 of the token, all zero: none */
	uint32_t sources, sources_n; /* see image_sources() */
	uint32_t policy;             /* index or POLICY_NONE */
	uint32_t limits;             /* index of a limits record, 0: the defaults */
	uint8_t trusts_ca;           /* the operator installed our CA there */
	uint8_t end[3];
};

struct image_rule {
	uint32_t policy;
	uint8_t is_deny, is_tcp, is_shared_suffix;
	uint8_t is_connector; /* the hosts belong to a connector: never dialled directly
			       */
	struct image_ref file; /* where it was written */
	uint32_t line, column;
	/* ranges into tables of the image; conf/ alone knows their layout */
	uint32_t hosts, hosts_n, ports, ports_n, cidrs, cidrs_n, methods, methods_n,
		paths, paths_n, addresses, addresses_n, countries, countries_n, asns,
		asns_n;
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

const struct image_listener *image_listeners(const struct image *im, size_t *ret_n);
const struct image_sandbox *image_sandboxes(const struct image *im, size_t *ret_n);
const struct image_policy *image_policies(const struct image *im, size_t *ret_n);
const struct image_rule *image_rules(const struct image *im, size_t *ret_n);
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

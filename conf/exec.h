#ifndef CONF_EXEC_H
#define CONF_EXEC_H
/*
 * exec: what the configuration says of a request to make a sandbox, or to use one: on
 * which tier, and whether image, volumes, variables and endpoints are allowed.  Pure, as
 * policy.h is.  Globs: `*` is any run of characters; of host paths it stops at slashes
 * and `**` is any number of segments.
 */
#include "conf/risk.h"

#define EXEC_NO_RULE UINT32_MAX

/* Where OpenSandbox keeps its parts inside of a sandbox, and where the start-up script there
 * looks for the certificates of an authority. */
#define EXEC_PARTS     "/opt/opensandbox"
#define EXEC_CA_INSIDE EXEC_PARTS "/mitmproxy-ca-cert.pem"

struct exec_pair {
	struct str key, value;
};

/* A sandbox as somebody wants it, as far as placement looks. */
struct exec_shape {
	struct str image;
	struct str entrypoint; /* joined by single blanks */
	struct str agent, user;
	const struct exec_pair *labels;
	size_t labels_n;
	/* What its network policy would let it reach, in lower case: names, `*.NAME`, addresses;
	 * `*` stands for everything, and meets every rule with hosts. */
	const struct str *hosts;
	size_t hosts_n;
	uint64_t memory;    /* bytes; UINT64_MAX: not limited, or not understood */
	uint64_t cpu_milli; /* thousandths of a processor; the same */
	bool has_volumes;
	enum risk_level risk;
};

struct exec_placing {
	enum exec_tier tier;
	uint32_t rule; /* of image_exec_placements(), or EXEC_NO_RULE */
};

/* The first rule of placement that matches; none: the weakest tier that has a server.
 * Whether that tier has a server that can take it is another matter: there is no other
 * one to go to. */
struct exec_placing exec_place_tier(const struct image *im, const struct exec_shape *s);
const char *exec_tier_word(enum exec_tier t); /* "standard" */
/* "FILE:LINE: tier high"; without a rule only the tier. */
void exec_put_placing(struct buf *b, const struct image *im,
		      const struct exec_placing *p);

/* Must a person be asked for this? */
bool exec_needs_approval(const struct image *im, enum risk_level level);

/* `uri` of an image, as sent. */
bool exec_image_allowed(const struct image *im, struct str uri);

enum exec_volume { EXEC_VOLUME_HOST, EXEC_VOLUME_CLAIM };
/* Of a host path with its subPath joined, or of the name of a claim.  Paths that aren't
 * absolute and plain (`.`, `..`, doubled slashes, control characters) never are. */
bool exec_volume_allowed(const struct image *im, enum exec_volume kind,
			 struct str what);

/*
 * Must this variable not reach a server?  What steers OpenSandbox's own parts (its
 * sidecar, execd, the script that starts both), in any case of letters; what
 * `exec.env_deny` lists, as it is written; and every name that is none.  The second
 * looks at no configuration.
 */
bool exec_env_denied(const struct image *im, struct str name);
bool exec_env_is_own(struct str name);

/* May an endpoint that this server returned be dialled there?  Metadata never. */
bool exec_endpoint_allowed(const struct image *im, const struct image_exec_server *s,
			   const struct addr *a);

/* Do Authorization and Cookie of callers go on to an application on this port? */
bool exec_login_goes_on(const struct image *im, uint16_t port);

/* Quantities as Kubernetes writes them: 500m, 0.5 or 2 processors, in thousandths; 512Mi,
 * 1.5G or 1024 bytes.  False: not understood, which is no reason to take it for small. */
bool exec_parse_cpu(struct str s, uint64_t *ret_milli) MUSTCHECK;
bool exec_parse_memory(struct str s, uint64_t *ret_bytes) MUSTCHECK;

#endif

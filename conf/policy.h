#ifndef CONF_POLICY_H
#define CONF_POLICY_H
/*
 * policy: the one matcher.  Worker, dns, dialer, explain and check ask here, so a
 * question has one answer whatever way it came in.  Pure: reads the image, keeps
 * nothing, allocates nothing.
 *
 * Deny rules win.  Among allow rules the one with the fewest conditions left open
 * does not matter: any that matches allows.  In observe mode a refusal by name, port,
 * method or path is turned into an allowance with `observed` set; addresses, limits
 * and framing are enforced all the same.
 *
 * A sandbox's narrowing (conf/narrow.h) is asked here too, last and in observe mode as well:
 * what passes, both allow.
 */
#include "conf/image.h"
#include "conf/narrow.h"

struct head;

enum policy_way {
	WAY_ANY,  /* before any byte is known: CONNECT, SOCKS, DNS: could anything pass?
		   */
	WAY_TLS,  /* a TLS hello with this name */
	WAY_HTTP, /* a plain HTTP request: method and path are known */
	WAY_TCP,  /* other bytes, or a server that speaks first */
};

enum policy_action {
	ACTION_DENY,
	ACTION_TUNNEL, /* carry TLS unread */
	ACTION_HTTP,   /* parse and forward requests */
	ACTION_TCP,    /* carry anything unread */
	/* Of WAY_TLS: end TLS here, then ask again for each request with WAY_HTTP and
	 * is_tls.  Of WAY_ANY: so for TLS; nothing else may pass. */
	ACTION_INTERCEPT,
	ACTION_CONNECTOR, /* of WAY_HTTP: this request goes to answer.connector */
};

/* Not an enum: ISO C wants those to fit int. */
#define POLICY_NONE    UINT32_MAX
#define RULE_NONE      UINT32_MAX
#define CONNECTOR_NONE UINT32_MAX

struct policy_question {
	struct mandate may; /* with POLICY_NONE: ST_NO_POLICY */
	const struct dest *dest;
	enum policy_way way;
	struct str method, path; /* WAY_HTTP only; path without the query */
	struct str query;        /* WAY_HTTP only: behind the `?`, or empty */
	/* WAY_HTTP: its fields, or NULL.  A method that they or the query ask for beside
	 * the request's own must be allowed as well. */
	const struct head *head;
	bool is_tls;      /* WAY_HTTP: inside TLS that was ended here */
	bool needs_bytes; /* WAY_TLS: a filter wants to see requests: never a tunnel */
};

struct policy_answer {
	enum policy_action action;
	enum status reason; /* ST_OK unless refused, or what observe would have said */
	uint32_t rule; /* index in the image of the rule that decided, or RULE_NONE */
	bool observed; /* allowed only because of observe */
	/*
	 * The connector that the request goes to (ACTION_CONNECTOR) or that refuses it
	 * for the policy; of other ways some connector that covers host and port, which
	 * means that the host is never dialled for a worker.  Else CONNECTOR_NONE.
	 */
	uint32_t connector;
};

void policy_judge(const struct image *im, const struct policy_question *q,
		  struct policy_answer *ret_a);

/* Of what it allows: is a person asked before it goes on? */
enum approval_when policy_approval(const struct image *im,
				   const struct policy_answer *a);

/*
 * DNS: a question has no port.  As policy_judge() with WAY_ANY, for the port that
 * allows most: allowed if some allow rule covers the name on some port and no deny rule
 * covers it on all ports.  d->port is not looked at.
 */
void policy_judge_name(const struct image *im, struct mandate may, const struct dest *d,
		       struct policy_answer *ret_a);

/* Where an address lies, as the dialer found it. */
struct policy_place {
	const struct addr *addr;
	char country[3]; /* ISO 3166 alpha-2, "" unknown */
	uint32_t asn;    /* 0 unknown */
};

/*
 * May this policy dial this address for this destination?  Asked for each address just
 * before connect.  ST_OK, ADDRESS_PRIVATE, ADDRESS_METADATA, DENIED_COUNTRY or the
 * refusal of the name itself.  ret_rule: the rule that decided, or RULE_NONE.
 * d->port 0: some port, as policy_judge_name(), so that a DNS answer holds no address
 * that could not be dialled.
 */
enum status policy_address(const struct image *im, struct mandate may,
			   const struct dest *d, const struct policy_place *place,
			   uint32_t *ret_rule) MUSTCHECK;

/*
 * A connector's dial: may it reach this at all?  Its upstream, or without one its hosts
 * and ports, or where it gets its tokens.  ST_OK or ST_DENIED.
 */
enum status policy_fetch(const struct image *im, uint32_t connector,
			 const struct dest *d) MUSTCHECK;
/* The one place that it calls: its upstream, or the first of its hosts that is no pattern.
 * ST_NOT_FOUND: only patterns. */
enum status policy_upstream(const struct image *im, uint32_t connector,
			    struct dest *ret_d) MUSTCHECK;
/* And this address of it?  may: of the sandbox that the dial is for, whose deny rules hold
 * here too, or with POLICY_NONE: the connector's own business. */
enum status policy_fetch_address(const struct image *im, uint32_t connector,
				 struct mandate may, const struct dest *d,
				 const struct policy_place *place) MUSTCHECK;
/* May this sandbox use the connector: its policy lists it, and tenant and users fit? */
bool policy_may_use(const struct image *im, uint32_t connector, uint32_t policy,
		    struct str tenant, struct str user);

/* May the gateway itself call its system (CALL)?  Those of `servers`, exec.approval_webhook
 * and exec.jwt; all others are for sandboxes. */
bool policy_may_call(const struct image *im, uint32_t connector);

/* True if a `protocol: tcp` rule with a name or a connector covers the host on any port:
 * DNS then answers with a synthetic address of that sandbox, which stands for the name.
 * (What a connector calls is its own matter, and may have no public address.) */
bool policy_is_by_name(const struct image *im, uint32_t policy, struct str name);

/*
 * Which of two patterns that match the same path is more specific: the higher.  More
 * octets that must be as written come first, then no `**`, then no `*`.  0: no pattern.
 */
uint32_t policy_path_rank(struct str pattern);
/* Is there a path that both patterns match? */
bool policy_paths_meet(struct str a, struct str b);

/* Path globs: `*` within a segment, `**` any number of segments, all else literal; a
 * percent triplet equals the octet it stands for, except %2f. */
bool policy_path_matches(struct str pattern, struct str path);
/* The same for what must not pass: could some server read this path as one that matches?
 * With letters of the other case, doubled slashes, encoded ones, parameters (`;v=1`) or a
 * slash at its end. */
bool policy_path_may_mean(struct str pattern, struct str path);

/* The same globs over what is no part of a URL, octet by octet: a path of a file; and any
 * other text, in which `*` is any run of octets, slashes too. */
bool policy_file_matches(struct str pattern, struct str path);
bool policy_text_matches(struct str pattern, struct str text);
/* Is there a name that both match?  Sometimes yes when there is none. */
bool policy_hosts_meet(struct str a, struct str b);

#endif

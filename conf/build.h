#ifndef CONF_BUILD_H
#define CONF_BUILD_H
/*
 * build: from the trees of the files to a draft of the image.  Private to conf/.  Every
 * function reports all that is wrong in its part and goes on, so that one run tells
 * everything.
 */
#include "conf/conf.h"
#include "conf/draft.h"
#include "conf/node.h"
#include "conf/option.h"

struct policy_source { /* where a policy is written */
	struct str name;
	const struct node *node;
	struct place at;
	struct policy_source *next;
};

struct connector_source; /* see build_connector.h */

struct build {
	struct conf *conf;
	const struct conf_files *files;
	struct report *report;
	struct draft *draft;
	struct arena *arena;
	struct policy_source *policies, *policies_last; /* in order of the files */
	size_t policies_n;
	struct map policy_index; /* name to 1 + index */
	/* By index: a connector of the policy whose secret holds {user}, or empty. */
	struct str *policy_wants_user;
	struct connector_source *connectors;
	size_t connectors_n;
	bool is_spare; /* the file at hand lies in connectors/, where some lie unused */
	struct map connector_index; /* name to struct connector_source * */
	struct map ids, sources;    /* of sandboxes, to const struct node * */
	const struct node *option_nodes[OPT_COUNT]; /* where each was set */
	const struct node *exec_listener;           /* the first of kind opensandbox */
	bool needs_country, needs_asn;
	struct place country_at, asn_at; /* the first rule that does */
};

typedef void (*build_field_fn)(struct build *b, const struct node *n, void *ctx);
struct build_field {
	const char *key;
	build_field_fn fn; /* NULL: known, read elsewhere */
};

/* Calls the function of each key; unknown ones are errors with a guess. */
void build_fields(struct build *b, const struct node *map,
		  const struct build_field *fields, size_t fields_n, void *ctx);
/* Calls fn for each item of a list; a single scalar counts as a list of one. */
void build_items(struct build *b, const struct node *list, build_field_fn fn,
		 void *ctx);

struct build_part { /* where a list goes */
	enum image_section table;
	build_field_fn fn; /* puts one item there */
};
/* A list that may not be empty: that would silently mean "no condition". */
void build_list(struct build *b, const struct node *list, void *ctx,
		struct build_part part, uint32_t *ret_first, uint32_t *ret_n);
void build_word(struct build *b, struct str s); /* adds one to WORDS */
bool build_is_kind(struct build *b, const struct node *n, enum node_kind kind);
void build_unknown(struct build *b, const struct node *n, struct str words);

/* The text of a file that n names, from where the configuration lies. */
bool build_file(struct build *b, const struct node *n, size_t max,
		struct str *ret_text);

/* key "limits.connections": parse into the draft's options.  False: no such option. */
bool build_option(struct build *b, const struct node *n, struct str key);
void build_options_default(struct build *b);
void build_options_group(struct build *b, const struct node *group, void *ctx);
uint64_t build_number(struct build *b, enum option opt); /* after the options */

void build_listeners(struct build *b, const struct node *n, void *ctx);
/* Its `tls`: the names of its certificate. */
void build_listener_tls(struct build *b, const struct node *n,
			struct image_listener *l);
void build_resolver(struct build *b, const struct node *n, void *ctx);
void build_upstream_proxy(struct build *b, const struct node *n, void *ctx);
void build_connectors_gather(struct build *b, const struct node *n, void *ctx);
void build_stores_gather(struct build *b, const struct node *n, void *ctx);
void build_servers_gather(struct build *b, const struct node *n, void *ctx);
/* `exec`, but its options; after connectors and policies, which it names. */
void build_exec(struct build *b, const struct node *root);
void build_tier(struct build *b, const struct node *n, uint8_t *ret_tier);
/* Its roles. */
void build_admin_roles(struct build *b, const struct node *n, void *ctx);
void build_risks(struct build *b, const struct node *n, void *ctx);
/* The rules that come with us, if a listener needs some and nobody wrote any. */
void build_risks_shipped(struct build *b);
void build_connectors(struct build *b);        /* all that were gathered */
void build_connectors_unused(struct build *b); /* after the policies */
void build_policies_named(struct build *b, const struct node *map); /* gather */
void build_policy_named(struct build *b, struct str name, const struct node *n,
			struct place at);
void build_policies(struct build *b); /* all that were gathered */
void build_sandboxes(struct build *b, const struct node *n, void *ctx);
/* An error: there is none of this name, with a guess. */
void build_no_policy(struct build *b, struct place at, struct str name);
void build_tests(struct build *b, const struct node *n, void *ctx);

struct rule_context {
	uint32_t policy;
	bool is_deny;
	struct image_rule rule; /* the one at hand */
	bool has_hosts, has_cidrs, is_shared_suffix_asked;
	const struct node *ports, *protocol;
};
/* Parses one rule; false if it can't be used. */
bool build_rule(struct build *b, const struct node *n, uint32_t policy, bool is_deny,
		struct image_rule *ret_rule) MUSTCHECK;
/* One entry of a connector's `allow` or `deny`; c->rule holds its hosts and the like. */
bool build_connector_rule(struct build *b, const struct node *n,
			  const struct image_auth *auth,
			  struct rule_context *c) MUSTCHECK;

#endif

#ifndef CONF_BUILD_CONNECTOR_H
#define CONF_BUILD_CONNECTOR_H
/* build_connector: the parts of a connector's document.  Private to conf/. */
#include "conf/build.h"
#include "conf/url.h"

struct connector_rule { /* one entry of `allow` or `deny`, without a policy */
	struct image_rule rule;
	struct connector_rule *next;
};

/* Sandboxes call a connector; the others are systems that the gateway calls itself. */
enum connector_use { USE_SANDBOXES, USE_STORE, USE_SERVER };

struct connector_source { /* where a connector is written, and what it became */
	struct str name;
	const struct node *node;
	uint32_t index;
	bool is_listed; /* by some policy */
	bool is_spare;
	enum connector_use use;
	struct image_connector image;
	struct connector_rule *rules, **rules_end;
	size_t rules_n;
	struct connector_source *next;
};

struct image_ref url_host(struct build *b, const struct url *u);
/* Where it calls: a scheme, a host and a port under this key.  False when something was
 * reported. */
bool build_upstream(struct build *b, const struct node *n, const char *key,
		    struct image_connector *c, struct dest *ret_d) MUSTCHECK;
void build_auth(struct build *b, const struct node *n, struct image_auth *a);
void build_headers(struct build *b, const struct node *n, struct image_connector *c);
/* A field name as a connector may add, strip or fill it: in lower case, and none that
 * frames or routes a message.  False when something was reported. */
bool build_field_name(struct build *b, const struct node *n,
		      struct image_ref *ret_name);

/* One more of this name, unless there is one. */
struct connector_source *build_connector_add(struct build *b, const struct node *name,
					     const struct node *n);
/* "a connector" */
const char *build_connector_word(enum connector_use use);
/* s->image of a source of secrets, or of an execution server; their table entries. */
void build_store(struct build *b, struct connector_source *s);
void build_server(struct build *b, struct connector_source *s);
/* After all connectors: do their secrets exist in the sources that they name? */
void build_stores_check(struct build *b);

#endif

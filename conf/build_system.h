#ifndef CONF_BUILD_SYSTEM_H
#define CONF_BUILD_SYSTEM_H
/*
 * build_system: systems that the gateway itself calls: sources of secrets and execution
 * servers.  Each is a connector that no sandbox can name, since it has no hosts, in a
 * process of its own.  Private to conf/.
 */
#include "conf/build_connector.h"

enum { SYSTEM_NAME_MAX = 48 };

/* Stays the first member of what the fields of such a system are read into. */
struct build_system {
	struct connector_source *source;
	struct rule_context rule; /* its addresses, as a rule reads them */
	const struct node *url;
	struct addr addr; /* when url names no host */
};

/* A list of them, each with a name. */
void build_systems_gather(struct build *b, const struct node *n, enum connector_use use,
			  size_t most);
/* source->image as far as all of them have it; before the fields. */
void build_system_begin(struct build *b, struct build_system *s);
/* And after them. */
void build_system_end(struct build *b, struct build_system *s);

/* Fields.  Plain or not is left to the caller. */
void build_system_url(struct build *b, const struct node *n, void *ctx);
void build_system_addresses(struct build *b, const struct node *n, void *ctx);
/* What the system is shown: a name in the vault that is nobody's own. */
void build_system_secret(struct build *b, const struct node *n, void *ctx);

#endif

#ifndef PROXY_CLI_ATTACHED_H
#define PROXY_CLI_ATTACHED_H
/* attached: a sandbox registered with the gateway by the sockets made in its namespace.
 */
#include "proxy/cli/admin.h"
#include "proxy/cli/ns.h"

struct attached_as {
	const char *id, *user, *agent, *session, *policy; /* NULL: empty */
	bool trusts_ca; /* our CA's certificate is installed there */
};

/* Is nobody called this?  Says on standard error who is, or that no gateway answers. */
bool attached_is_free(const struct admin_where *w, const char *id) MUSTCHECK;
/* Says on standard error what the gateway refused. */
enum status attached_add(const struct admin_where *w, const struct attached_as *as,
			 const struct ns_sockets *s) MUSTCHECK;
/* The variables that it should have: {NAME: placeholder}; NULL: it was refused.  The
 * caller's. */
json_t *attached_variables(const struct admin_where *w, const struct attached_as *as);
void attached_remove(const struct admin_where *w, const char *id);

/* Single ports that a policy of this configuration names; for use without nft. */
size_t attached_ports(const char *config, const char *policy, uint16_t *ports,
		      size_t max);

#endif

#ifndef PROXY_CLI_VAULT_HINT_H
#define PROXY_CLI_VAULT_HINT_H
/* vault_hint: a secret was put that nobody was granted, or was granted to nobody that there
 * is: by a typing mistake, perhaps. */
#include "proxy/base/str.h"

/* Says on standard error what of this configuration is likely to be meant; nothing where it
 * can't be read, or uses the secret without a grant. */
void vault_hint_unused(const char *config, struct str tenant, struct str name);
/* Says so where it has no connector of this name; nothing where it can't be read. */
void vault_hint_connector(const char *config, struct str connector);

#endif

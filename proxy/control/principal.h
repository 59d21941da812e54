#ifndef PROXY_CONTROL_PRINCIPAL_H
#define PROXY_CONTROL_PRINCIPAL_H
/* principal: how one is put together, by the readers of keys, tokens and capabilities. */
#include "proxy/control/keys.h"

/* One of its names.  ST_BAD_PRINCIPAL: s is neither a name nor empty. */
enum status principal_set(char *name, struct str s) MUSTCHECK;
void principal_own(struct principal *p); /* owner, of user and on_behalf_of */
/* Not of the server's own API: reached through an endpoint. */
bool op_is_inside(enum exec_op op);

#endif

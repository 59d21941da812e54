#ifndef PROXY_CLI_DOCKER_ASK_H
#define PROXY_CLI_DOCKER_ASK_H
/* docker_ask: does docker know a network of this name?  Of its answer only the code counts. */
#include "proxy/base/str.h"

/* ST_NOT_FOUND: it doesn't.  ST_SYSTEM: it can't be asked, errno says why.  ST_UPSTREAM_TIMEOUT:
 * it said nothing in five seconds.  ST_UPSTREAM_BAD: it says something else. */
enum status docker_ask_network(struct str socket, struct str network) MUSTCHECK;

#endif

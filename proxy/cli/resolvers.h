#ifndef PROXY_CLI_RESOLVERS_H
#define PROXY_CLI_RESOLVERS_H
/* resolvers: the system's, as a configuration's `resolver:`; a stub on loopback is as good as
 * any. */
#include "proxy/base/buf.h"

void resolvers_put(struct buf *b);

#endif

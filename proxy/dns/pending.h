#ifndef PROXY_DNS_PENDING_H
#define PROXY_DNS_PENDING_H
/*
 * pending: questions that wait for the dialer.  Each owns a copy of its packet, for the
 * buffer it came in is used for the next.  When the dialer has answered, policy judges
 * the name again: it may be another by then, and so may the sandbox's handle.
 */
#include "proxy/dns/query.h"

enum { PENDING_MAX = 4096 };

/* Returns 0, or the size of a refusal in d->out when the question can't be asked. */
size_t pending_start(struct query *q);
/* The owner of a way is gone: its questions are dropped. */
void pending_drop(struct dns *d, const void *owner);

#endif

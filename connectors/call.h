#ifndef CONNECTORS_CALL_H
#define CONNECTORS_CALL_H
/*
 * call: one request of control's own to the system of a connector, with that connector's
 * credential, and the whole answer back to control (CALL, proxy/io/call_body.h).
 *
 *	CALL ─> LEASE, or a token ─> CREDENTIAL row ─> errand ─> answer, in a memfd
 *
 * Control is not trusted with more than this: the connector must be one that conf made to be
 * called so (policy_may_call) and of this process's group, the target is a path and a query,
 * and an echo of the credential is overwritten before the answer leaves.
 *
 * What was not sent yet begins anew with a new policy; what was sent is waited for, to its
 * deadline.  Nothing is sent twice but what its system can't have seen, and a GET.
 */
#include "connectors/connector.h"

enum { CALLS_MAX = 256 };

void call_heard(struct peer *p, struct ask_msg *m);
void calls_renew(struct connector *all); /* a new policy */
/* Those that p asked for, or all: without an answer, which nobody waits for. */
void calls_end(struct connector *all, const struct peer *p);

#endif

#ifndef CONNECTORS_PROBE_H
#define CONNECTORS_PROBE_H
/*
 * probe: an operator asks whether a connector would work: is its secret there and until
 * when, does the exchange bring a token, does the company system answer by TLS, to the
 * client's certificate if there is to be one.  The answer says so and holds nothing of
 * secret or token; no request is sent.
 *
 *	LEASE ─> token, of kinds with an exchange ─> FETCH and TLS ─> answer
 */
#include "connectors/lane.h"

void probe_heard(struct peer *p, struct ask_msg *m);
/* Those that p asked for, or all: without an answer, which nobody waits for. */
void probes_end(struct connector *all, const struct peer *p);

#endif

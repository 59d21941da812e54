#ifndef CONNECTORS_REVOKE_H
#define CONNECTORS_REVOKE_H
/*
 * revoke: control says that the keeper has changed a secret or gives it out no longer.  Its
 * leases go, and tokens that were got with it, before control is answered; a lease that was
 * on its way when the keeper changed it goes with them.
 */
#include "connectors/lane.h"

void revoke_heard(struct peer *p, struct ask_msg *m);
/* Those that p asked for: without an answer, which nobody waits for. */
void revokes_end(struct connector *all, const struct peer *p);

#endif

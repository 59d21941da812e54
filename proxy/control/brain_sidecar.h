#ifndef PROXY_CONTROL_BRAIN_SIDECAR_H
#define PROXY_CONTROL_BRAIN_SIDECAR_H
/*
 * brain_sidecar: the egress API of a sandbox that some listener's `sandbox` names, as
 * OpenSandbox's egress container has it.  Nobody owns that sandbox here and exec.db knows
 * nothing of it: it was registered (enroll.h), and its policy is what narrows it there.
 * Who has the listener's token may look and change, and may do nothing else.
 */
#include "proxy/control/brain.h"

/* False: the turn is about no such sandbox.  Else it goes on, or has ended. */
bool brain_sidecar(struct brain_turn *t) MUSTCHECK;
bool brain_is_sidecar(const struct brain_turn *t);

#endif

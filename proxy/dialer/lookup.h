#ifndef PROXY_DIALER_LOOKUP_H
#define PROXY_DIALER_LOOKUP_H
/*
 * lookup: one RESOLVE ask of the dns role, for a DNS query of a sandbox.
 *
 * The policy is judged here again, for the name on any port, before a packet leaves and
 * when the answer is there.  Addresses that no rule for the name could dial on any port
 * (private ones without `addresses:`, metadata, wrong country) are taken out; when none
 * is left, that is the answer.  No address of the type asked for is ST_OK with count 0.
 */
#include "proxy/dialer/dialer.h"

enum { LOOKUPS_MAX = 8192 };

void lookup_heard(struct peer *p, struct ask_msg *m);
void lookup_cancel_peer(struct peer *p);
/* A new policy is in force: those that wait belong to the same sandboxes as before. */
void lookup_renumber(struct dialer *all, const struct image *old);

#endif

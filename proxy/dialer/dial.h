#ifndef PROXY_DIALER_DIAL_H
#define PROXY_DIALER_DIAL_H
/*
 * dial: one DIAL ask, from the sandbox's socket to a connected descriptor.
 *
 * Who is asking is read from that socket, never from the message; the destination is
 * parsed, the policy judged, every address classified here again: a worker that was
 * taken over gets what its sandboxes' policies allow and no more.  The socket is
 * watched while the dial runs: when it dies (not when its sender merely ends its
 * half), so does the dial.
 *
 *	heard -> identity, policy, limit -> resolve A and AAAA -> race -> answered
 *
 * A new policy judges every running dial again.
 *
 * REACH is the same for an endpoint of an execution server: who asks is a caller's socket
 * that control granted that very endpoint to, and what may be dialled are the addresses
 * that the server's `endpoints:` hold.
 */
#include "proxy/dialer/dialer.h"

enum { DIALS_MAX = 16384, DIAL_RESOLUTION_DELAY_MS = 50 /* RFC 8305 section 3 */ };

void dial_heard(struct peer *p, struct ask_msg *m);
void dial_fetch_heard(struct peer *p, struct ask_msg *m); /* the same for a connector */
void dial_reach_heard(struct peer *p, struct ask_msg *m);
void dial_cancel_peer(struct peer *p);
void dial_cancel_sandbox(struct dialer *all, uint32_t handle);
void dial_judge_again(struct dialer *all); /* a policy was committed */
/* The loop's callback for dialer->watch; ctx: struct dialer. */
void dial_watch(void *ctx, unsigned events);
/* The same for dialer->watch_soon. */
void dial_watch_late(void *ctx);

#endif

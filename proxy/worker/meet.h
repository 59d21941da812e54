#ifndef PROXY_WORKER_MEET_H
#define PROXY_WORKER_MEET_H
/*
 * meet: ends the sandbox's TLS here: gets a leaf for the name in the hello, shakes
 * hands, and hands the stream to visit, where each request is judged.  c->dest is the
 * name in the hello and stays what every request must be for.
 *
 * seen: the whole hello and what came behind it, copied; nothing was answered yet.
 */
#include "proxy/worker/conn.h"

/*
 * The policy wants to see requests; or it would let a tunnel pass, but ECH hides where
 * that goes, and the sandbox believes our certificates.
 */
void meet_start(struct conn *c, struct str seen, bool is_policy);

/*
 * The policy has refused x at the hello.  True: the sandbox believes our certificates,
 * so it is told inside, by the refusal of each request; x is done with.  False: tell it
 * otherwise.  So often a second only, for the names are the sandbox's choice.
 */
bool meet_refuse(struct conn *c, struct exchange *x, struct str seen);

/* Does the sandbox believe certificates of ours? */
bool meet_is_trusted(const struct conn *c);

#endif

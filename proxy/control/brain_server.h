#ifndef PROXY_CONTROL_BRAIN_SERVER_H
#define PROXY_CONTROL_BRAIN_SERVER_H
/*
 * brain_server: how execution servers do, as what the gateway asks of them goes: for the log,
 * which says once that one is down and once that it is up again, and for operators.
 */
#include "proxy/control/brain.h"

/* Why a sandbox of this server isn't known by its addresses. */
void brain_server_unbound(struct brain *b, struct str server, enum status st);
/* Sandboxes are counted that reach nothing because of that, of every server. */
void brain_servers_count(struct brain *b);
/* How many of this one, as they were counted; *ret_st: why the last of them. */
size_t brain_server_unbound_n(const struct brain *b, struct str server,
			      enum status *ret_st);
/* brain_bind.c: it should have a way out, has none, and none is on its way. */
bool brain_is_unbound(const struct brain *b, const struct brain_sandbox *box);

#endif

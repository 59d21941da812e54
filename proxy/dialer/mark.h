#ifndef PROXY_DIALER_MARK_H
#define PROXY_DIALER_MARK_H
/*
 * mark: SO_MARK of what the gateway sends out (egress_mark).  Where it shares a network
 * namespace with a sandbox, only the mark tells their packets apart: a user id can be
 * taken on by root in the sandbox, a mark needs CAP_NET_ADMIN.  Super leaves the dialer
 * that one capability if the configuration names a mark, and its jail lets it set that
 * option only if it has it.
 */
#include "proxy/base/base.h"

/* Before jail_early(): did super leave us the capability?  Then what to keep, else 0. */
uint64_t mark_keep(void);
/* mark 0: nothing is done.  ST_SYSTEM: it could not be set, so nothing may be sent. */
enum status mark_set(int fd, uint32_t mark) MUSTCHECK;

#endif

#ifndef PROXY_DNS_TCP_H
#define PROXY_DNS_TCP_H
/*
 * tcp: DNS over TCP (RFC 7766).  Queries may be pipelined and come byte by byte;
 * answers go out in the order they are ready.  A connection is closed when nothing was
 * asked and no answer taken for a while; each sandbox may have a few, all together a
 * few more.
 */
#include "proxy/dns/dns.h"

/* Takes over fd, whatever it returns. */
enum status tcp_open(const struct dns_door *door, int fd) MUSTCHECK;
void tcp_close_handle(struct dns *d, uint32_t handle); /* listeners and connections */
/* Configured ones, before a new policy brings its own; connections finish. */
void tcp_close_listeners(struct dns *d);
void tcp_close_all(struct dns *d);

#endif

#ifndef PROXY_DNS_UDP_H
#define PROXY_DNS_UDP_H
/*
 * udp: sockets that datagrams come to.  Each turn of the loop takes at most one batch
 * from each, so a sandbox that floods its own socket does not starve the others.
 * Answers leave from the address that the query came to, by the interface it came by.
 */
#include "proxy/dns/query.h"

enum status udp_batch_new(struct udp_batch **ret_b) MUSTCHECK;
void udp_batch_free(struct udp_batch *b);

/* Takes over fd, whatever it returns. */
enum status udp_open(const struct dns_door *door, int fd) MUSTCHECK;
void udp_close_handle(struct dns *d, uint32_t handle); /* an attached sandbox is gone */
void udp_close_all(struct dns *d);

#endif

#ifndef PROXY_LOCATOR_NLMSG_H
#define PROXY_LOCATOR_NLMSG_H
/*
 * nlmsg: messages to the kernel's netlink, and its answers.  Numbers are the machine's own
 * way round; every part begins at a multiple of four octets.
 *
 * The kernel answers before the send returns, so asking blocks nobody; a socket waits
 * NLMSG_WAIT_MS at most all the same.
 */
#include <linux/netlink.h>

#include "proxy/base/buf.h"

enum { NLMSG_WAIT_MS = 2000, NLMSG_MAX = 65536 };

/* family: NETLINK_ROUTE or NETLINK_NETFILTER. */
enum status nlmsg_open(int family, int *ret_fd) MUSTCHECK;

/* A message is begun, gets parts, and is ended; one buffer may hold several. */
size_t nlmsg_begin(struct buf *b, uint16_t type, uint16_t flags);
void nlmsg_end(struct buf *b, size_t at);
void nlmsg_raw(struct buf *b, const void *p, size_t n);
void nlmsg_attr(struct buf *b, uint16_t type, const void *p, size_t n);
size_t nlmsg_nest(struct buf *b, uint16_t type);
void nlmsg_nest_end(struct buf *b, size_t at);

/* Sends all and reads n acknowledgements.  The first refusal: ST_NOT_FOUND for what isn't
 * there, ST_DENIED for what we may not, else ST_SYSTEM. */
enum status nlmsg_ask(int fd, const struct buf *b, size_t acks) MUSTCHECK;

/* Each message of an answer but its end; body: what follows the header. */
typedef void (*nlmsg_fn)(void *ctx, uint16_t type, struct str body);
/* Sends one question; fn for each answer until the dump ends (or after the only one). */
enum status nlmsg_query(int fd, const struct buf *b, nlmsg_fn fn, void *ctx) MUSTCHECK;

/* The next attribute of a row of them; false: no more, or none that is whole. */
struct nlmsg_part {
	uint16_t type;
	struct str value;
};
bool nlmsg_next(struct str *rest, struct nlmsg_part *ret_part) MUSTCHECK;
/* A number of four octets; 0 if it has another size. */
uint32_t nlmsg_u32(struct str value);

#endif

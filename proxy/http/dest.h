#ifndef PROXY_HTTP_DEST_H
#define PROXY_HTTP_DEST_H
/*
 * dest: the one destination of a turn or tunnel.  Made once from what the sandbox
 * wrote; the same object is matched, resolved, dialled, verified against and logged.
 * There is no second parser of host bytes anywhere.
 *
 * Names: LDH and underscore labels of 1 to 63, at most 253, lower-cased, one trailing
 * dot dropped, at least two labels (one only if the caller says so), last label not
 * numeric or 0x....  Percent, NUL, userinfo, non-ASCII, invalid ACE: ST_BAD_HOST.
 * Odd spellings of IPv4: ST_IP_NONSTANDARD.  Zone ids: ST_BAD_HOST.
 */
#include "proxy/base/addr.h"

enum { DEST_NAME_MAX = 253 };

struct dest {
	struct addr addr; /* family 0: a name */
	uint16_t port;    /* 1 to 65535 */
	uint8_t name_len; /* 0: a literal */
	char name[DEST_NAME_MAX + 1];
};

/* A bare host: name, IPv4, or IPv6 with or without brackets as `brackets` says. */
enum status dest_from_host(struct str host, uint16_t port,
			   struct dest *ret_d) MUSTCHECK;
/* As above, but one label is enough: names that the operator wrote (resolver.hosts). */
enum status dest_from_host_single(struct str host, uint16_t port,
				  struct dest *ret_d) MUSTCHECK;
/*
 * host[:port] as in CONNECT, Host and absolute-form; IPv6 needs brackets.
 * default_port 0: a port must be there (ST_BAD_TARGET otherwise).
 */
enum status dest_from_authority(struct str text, uint16_t default_port,
				struct dest *ret_d) MUSTCHECK;
/* As above, but one label is enough: by which callers reach a listener of ours. */
enum status dest_from_authority_single(struct str text, uint16_t default_port,
				       struct dest *ret_d) MUSTCHECK;
enum status dest_from_addr(const struct addr *a, uint16_t port,
			   struct dest *ret_d) MUSTCHECK;

bool dest_is_name(const struct dest *d);
struct str dest_name(const struct dest *d);              /* empty for a literal */
void dest_put_host(struct buf *b, const struct dest *d); /* name, 1.2.3.4 or [v6] */
void dest_put(struct buf *b, const struct dest *d);      /* host:port */
bool dest_same_host(const struct dest *a, const struct dest *b);

#endif

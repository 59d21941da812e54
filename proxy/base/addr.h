#ifndef PROXY_BASE_ADDR_H
#define PROXY_BASE_ADDR_H
/*
 * addr: one IP address, always unwrapped: an IPv6 form that embeds IPv4 (mapped,
 * compatible, NAT64, 6to4, Teredo, ISATAP) is classified by what it embeds.
 */
#include "proxy/base/buf.h"

struct sockaddr;
struct sockaddr_storage;

struct addr {
	uint8_t family; /* 4, 6, or 0: none */
	uint8_t b[16];  /* network order; IPv4 in the first four */
};

struct cidr {
	struct addr net;
	uint8_t bits;
};

enum addr_class {
	ADDR_PUBLIC,
	ADDR_METADATA, /* cloud metadata: never dialled, whatever a rule says */
	ADDR_LOOPBACK,
	ADDR_PRIVATE, /* RFC 1918, ULA */
	ADDR_CGNAT,
	ADDR_LINK_LOCAL,
	ADDR_MULTICAST,
	ADDR_BENCHMARK,
	ADDR_DOCUMENTATION,
	ADDR_RESERVED, /* unspecified, 240/4, broadcast, discard, what IANA hasn't given
			  out */
};

/* Canonical text only: four decimal numbers; RFC 4291 IPv6 without brackets or zone. */
bool addr_parse(struct str text, struct addr *ret_a) MUSTCHECK;
/* Host bits must be 0; an address is a network of its own. */
bool cidr_parse(struct str text, struct cidr *ret_c) MUSTCHECK;
void addr_put(struct buf *b, const struct addr *a); /* RFC 5952; no brackets */

bool addr_eq(const struct addr *a, const struct addr *b);
bool cidr_has(const struct cidr *c, const struct addr *a);

/* The IPv4 address inside an IPv6 form that embeds one, else a itself. */
struct addr addr_unwrap(const struct addr *a);
enum addr_class addr_classify(const struct addr *a); /* unwraps first */
const char *addr_class_name(enum addr_class c);      /* "private", for the ledger */

/* Mapped IPv4 becomes IPv4.  False for another family. */
bool addr_from_sockaddr(const struct sockaddr *sa, struct addr *ret_a,
			uint16_t *ret_port) MUSTCHECK;
/* Returns the length of the sockaddr. */
uint32_t addr_to_sockaddr(const struct addr *a, uint16_t port,
			  struct sockaddr_storage *ret_sa);

#endif

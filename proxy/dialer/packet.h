#ifndef PROXY_DIALER_PACKET_H
#define PROXY_DIALER_PACKET_H
/*
 * packet: the DNS messages (RFC 1035) that the dialer sends and gets.
 *
 * A query is one question whose letters are in random case
 * (draft-vixie-dnsext-dns0x20): an answer must bring back the very same bytes, which an
 * off-path forger has to guess on top of id and port.  No EDNS: an answer over 512
 * bytes comes by TCP, never in fragments.
 *
 * Reading an answer follows CNAMEs from the question on, at most PACKET_CNAMES_MAX, in
 * whatever order the records stand, and takes the addresses of the last name only.  A
 * record of any other name is nobody's business and is passed over.
 */
#include "proxy/base/addr.h"

enum {
	PACKET_QUERY_MAX = 12 + 255 + 4,
	PACKET_ADDRS_MAX = 32,
	PACKET_CNAMES_MAX = 8,
	PACKET_RECORDS_MAX = 128, /* in the answer section; more is no answer */
	PACKET_TYPE_A = 1,
	PACKET_TYPE_AAAA = 28,
};

struct packet_query {
	size_t len;
	uint8_t bytes[PACKET_QUERY_MAX]; /* header, then the question as it was sent */
};

struct packet_answer {
	enum status st; /* ST_OK, also when there is no address of this type (n == 0);
			 * ST_DNS_NOT_FOUND: the name does not exist */
	uint32_t ttl; /* seconds, the least of the chain; 0 when there is no address */
	uint8_t n;
	struct addr addrs[PACKET_ADDRS_MAX];
};

/* name is lower case, as struct dest holds it.  noise: the id, then one bit a letter.
 * ST_BAD_HOST: it does not fit a question. */
enum { PACKET_NOISE = 2 + 32 };
enum status packet_make_query(struct str name, uint16_t type,
			      const uint8_t noise[PACKET_NOISE],
			      struct packet_query *ret_q) MUSTCHECK;

/* ST_OK; ST_DNS_FAILED: the server refused, failed, or cut the answer short;
 * ST_MISMATCH: not the question that was sent; ST_BAD_MESSAGE: malformed. */
enum status packet_read_answer(const struct packet_query *q, struct str bytes,
			       struct packet_answer *ret_a) MUSTCHECK;

#endif

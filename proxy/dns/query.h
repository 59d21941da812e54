#ifndef PROXY_DNS_QUERY_H
#define PROXY_DNS_QUERY_H
/*
 * query: one packet from a sandbox.  Says who may ask, lets policy judge the name, puts
 * the row into the ring and only then writes the answer; or hands the question on to
 * the dialer (pending.h).  No memory is allocated for a question that is answered at
 * once.
 */
#include <sys/socket.h>

#include "conf/policy.h"
#include "proxy/dns/dns.h"

struct query_peer { /* where a datagram came from, and on which address of ours */
	struct sockaddr_storage sa;
	socklen_t sa_len;
	socklen_t control_len;
	_Alignas(struct cmsghdr) char control[64]; /* IP_PKTINFO or IPV6_PKTINFO, to
						      send */
};

struct query_way { /* how the answer gets back */
	const struct dns_door *door;
	void *owner; /* the socket or connection; gone: pending_drop() */
	/* An empty answer: there won't be one. */
	void (*send)(void *owner, const struct query_peer *peer, struct str answer);
	const struct query_peer *peer; /* NULL: TCP.  Copied when the question waits. */
};

/*
 * w NULL: nobody's.  ST_OK: an answer of *ret_size bytes is in d->out.  ST_AGAIN:
 * send() will be called once, from the loop.  ST_END: not a query, no answer.
 */
enum status query_handle(struct dns *d, const struct who *w, struct str packet,
			 const struct query_way *way, size_t *ret_size) MUSTCHECK;

/* A question between its being read and its being answered. */
struct query {
	struct dns *dns;
	const struct who *who;
	const struct query_way *way;
	struct quota *quota;
	struct dnsmsg_query msg;
	struct dest dest;             /* once the name was found good */
	struct policy_answer verdict; /* once policy was asked */
};

/* Name and policy, by the newest policy.  ST_OK or the refusal. */
enum status query_judge(struct query *q);
/* Row, then an answer that says no; its size in d->out. */
size_t query_refuse(struct query *q, enum status why);
/* The upstream could not help: no row, nothing was decided here. */
size_t query_fail(struct query *q, enum status why);
/* What recent.h knows a question by. */
struct recent_question query_key(const struct query *q);
/* What the dialer resolved; loopback addresses are told as one of the sandbox's own. */
size_t query_found(struct query *q, const struct addr *addrs, size_t n, uint32_t ttl);
size_t query_answer(struct query *q, const struct addr *addrs, size_t n, uint32_t ttl);

#endif

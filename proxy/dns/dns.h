#ifndef PROXY_DNS_DNS_H
#define PROXY_DNS_DNS_H
/*
 * dns: the process that reads the sandboxes' DNS queries.  It sends nothing upstream:
 * what policy allows is asked of the dialer, what policy refuses is answered at once.
 * It holds only sockets on the sandboxes' side.
 *
 *	udp.c tcp.c   packets in, answers out
 *	query.c       one question: who, policy, row, answer
 *	pending.c     questions that wait for the dialer
 *	recent.c      what the dialer resolved a moment ago
 *	quota.c       limits of each sandbox
 */
#include "proxy/dns/quota.h"
#include "proxy/dns/recent.h"
#include "proxy/http/dnsmsg.h"
#include "proxy/io/role.h"
#include "proxy/io/synth.h"

struct udp_batch;

struct dns {
	struct role_self role;
	struct loop *loop;
	struct loop_io super;
	struct ask_line *dialer; /* NULL while there is none: nothing is resolved */
	struct loop_timer alone; /* since it was lost */
	struct synth *synth;     /* NULL: names of tcp rules are not answered */
	struct list udps, tcps, conns, pendings;
	size_t conns_n, pendings_n;
	struct quotas quotas;
	struct recent recent;
	struct udp_batch *batch;
	struct buf rule;             /* text of a rule for a row */
	char out[DNSMSG_ANSWER_MAX]; /* the answer being written, within one callback */
	bool is_draining;
	uint32_t drain_seq;
};

/* Which way in a packet came: a shared listener or the socket of an attached sandbox.
 */
struct dns_door {
	struct dns *dns;
	uint32_t handle;   /* of the attached sandbox; HANDLE_NONE: a listener */
	uint32_t listener; /* its index in the image */
};

/* Nothing is under way any more: tells super if it waits for that. */
void dns_check_drained(struct dns *d);

#endif

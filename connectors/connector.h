#ifndef CONNECTORS_CONNECTOR_H
#define CONNECTORS_CONNECTOR_H
/*
 * connector: the role that calls company systems.  One process for each group; a worker
 * opens lanes to it, requests come over lanes, and what goes out carries a credential
 * that is leased for it and wiped behind it.
 *
 *	worker ── lane (HTTP/2) ── turn ── upstream (TLS, HTTP/1 or 2) ── company system
 *	                            │ LEASE, ROTATE: keeper     FETCH: dialer
 *
 * It trusts no worker: who asks is read from the sandbox's own socket, and whether that
 * one may use the connector, and for this request, is judged here again.
 */
#include "conf/policy.h"
#include "proxy/flow/front.h"
#include "proxy/flow/leg.h"
#include "proxy/flow/tls_roots.h"
#include "proxy/io/peer.h"

enum {
	CONNECTOR_SPACE = 64 * 1024,
	CONNECTOR_STREAMS = 128, /* of a lane, and of one HTTP/2 upstream */
	CONNECTOR_WINDOW = 256 * 1024,
	CONNECTOR_HEADS = 448 * 1024, /* of a lane's requests, see h2_limits */
};

struct connector {
	struct role_self role;
	struct loop *loop;
	struct loop_io super;
	struct ask_line *keeper, *dialer; /* NULL: none */
	struct peers peers;
	struct list lanes;
	struct list lents;     /* of lanes: what the keeper has lent */
	struct list upstreams; /* connections to company systems */
	struct list bonds;     /* tokens */
	struct list revokes;   /* that are being done */
	struct list probes;    /* what an operator wants to know */
	struct list stores;    /* sources of secrets; in a process of their own */
	struct list calls;     /* of control */
	size_t calls_n;
	char group[STR_NAME_MAX + 1];
	struct flow flow;
	struct stream_room *room;
	struct tls_roots roots;
	struct gauge *gauges; /* of each connector in the image in force */
	size_t gauges_n;
	char *clean; /* what scrubbing writes to, within one callback */
	size_t clean_n;
	struct front_limits front_limits;
	struct leg_limits leg_limits;
	struct loop_timer tick, drain, alone;
	uint32_t drain_seq, ticks;
	bool is_draining, is_drained;
};

uint64_t connector_option(const struct connector *all, enum option opt);
/* Its place in the image in force; NULL: there is none of this name any more. */
const struct image_connector *connector_at(const struct connector *all, uint32_t index);
uint64_t connector_now_s(void); /* wall clock, seconds since 1970 */
/* One thing less runs: tells super when that was the last of a drain. */
void connector_check_drained(struct connector *all);
/* The tick runs while there is anything to look after. */
void connector_wake(struct connector *all);

#endif

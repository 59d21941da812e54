#ifndef PROXY_DIALER_UPSTREAM_H
#define PROXY_DIALER_UPSTREAM_H
/*
 * upstream: one question to the resolvers of the configuration.
 *
 * A pool of c-ares channels, all made before the jail, each used for one question at a
 * time and for one attempt at one resolver.  The one that rested longest is taken next,
 * so a source port comes again after as many questions as channels rest, and soon never
 * more (channel.h); after a time-out or an answer that was not ours at once
 * (docs/notes/004-source-ports.md).  Time-outs and fail-over are ours: c-ares cannot
 * change them after start.  /etc/hosts and search domains are never looked at.
 *
 * An attempt ends with an answer, or: time-out, refusal, failure of the server, wrong
 * letters in the question, malformed.  Then the next resolver is asked, `tries` rounds
 * in all; the one that answered last is asked first the next time.
 *
 * Questions beyond the pool wait, first come first served, but those of one sandbox
 * never hold more than a quarter of it.
 */
#include "conf/image.h"
#include "proxy/base/list.h"
#include "proxy/dialer/packet.h"
#include "proxy/dialer/quota.h"
#include "proxy/io/loop.h"
#include "proxy/io/stats.h"

enum {
	UPSTREAM_CHANNELS = 128,
	UPSTREAM_SHARE = UPSTREAM_CHANNELS / 4,
	UPSTREAM_WAITING = 4096,
	UPSTREAM_SERVERS = 8, /* more are not asked */
};

struct upstream;

/* st ST_OK: a is the answer.  Never called before upstream_ask() returned. */
typedef void (*upstream_fn)(void *ctx, enum status st, const struct packet_answer *a);

struct upstream_question {
	struct str name,
		starter; /* copied; starter: id of the sandbox that wants it first */
	uint16_t type;
	upstream_fn fn;
	void *ctx;
};

/* Before the jail: channels, and the socket that upstream_test() needs. */
enum status upstream_new(struct loop *l, struct quota *quota,
			 struct upstream **ret_u) MUSTCHECK;
void upstream_free(struct upstream *u); /* nobody is called */
void upstream_set_stats(struct upstream *u, struct stats *stats);

/* In the jail: sends queries to itself and looks at their ids and ports.  ST_INTERNAL:
 * they are not random; do not serve. */
enum status upstream_test(struct upstream *u) MUSTCHECK;

/* The resolvers in force from the next attempt on. */
void upstream_set_image(struct upstream *u, const struct image *im);

/* ST_DNS_FAILED: too many wait, or there is no resolver. */
enum status upstream_ask(struct upstream *u,
			 const struct upstream_question *q) MUSTCHECK;

#endif

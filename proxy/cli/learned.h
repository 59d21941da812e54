#ifndef PROXY_CLI_LEARNED_H
#define PROXY_CLI_LEARNED_H
/*
 * learned: what a sandbox asked for, gathered from its rows, and the policy that would
 * have allowed it.
 *
 * Hosts with the same ports and protocol share a rule.  Three or more names below one
 * name become `*.` of it, unless that is a public suffix.  What went through a connector
 * needs the connector, and no rule: beside one it would be an error.  What a connector refused
 * is told: its `allow` decides that, and no policy's.
 */
#include "proxy/base/arena.h"
#include "proxy/base/map.h"
#include "proxy/io/row.h"

struct learned_host;

struct learned {
	struct arena arena;
	struct map hosts;        /* struct learned_host */
	struct map asides;       /* "host: code" -> itself: told, not allowed */
	struct map by_connector; /* a host that a connector was used for -> itself */
	struct map connectors;   /* their names -> itself */
	struct map refusals;     /* "connector: request: code" -> itself */
	bool is_over;            /* there were more than fit; the rest is not there */
};

void learned_init(struct learned *l);
void learned_done(struct learned *l);
enum status learned_see(struct learned *l, const struct row *r) MUSTCHECK;
void learned_put(struct learned *l, struct str sandbox, bool with_http, struct buf *b);

#endif

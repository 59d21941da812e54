#ifndef PROXY_HTTP_H2_FLOOD_H
#define PROXY_HTTP_H2_FLOOD_H
/*
 * h2_flood: how much a peer may send that carries nothing.  Four rules, each for one
 * connection; whoever breaks one loses the connection.
 *
 *   idle    PING, SETTINGS, PRIORITY, WINDOW_UPDATE, and frames that nobody knows: 100
 *           at once and 10 a second, and 10 more for each request and each frame of
 *           DATA in either direction, for those are what they are about
 *   empty   frames of HEADERS, CONTINUATION or DATA without a payload that don't end
 *           anything: not two in a row (CVE-2019-9518)
 *   part    frames of CONTINUATION: eight behind one of HEADERS (CVE-2024-28182)
 *   reset   streams that the peer resets, or makes us reset by breaking a rule: 100 at
 *           once and 20 a second (CVE-2023-44487, CVE-2025-8671)
 */
#include "proxy/base/base.h"

struct h2_bucket {
	uint32_t left, per_s, burst,
		most; /* left <= most; burst: where refilling stops */
	uint64_t filled_ms;
};

struct h2_flood {
	struct h2_bucket idle, reset;
	uint32_t empties; /* in a row */
	uint32_t parts;   /* of the head that comes in, behind the first */
};

void h2_flood_init(struct h2_flood *f);
void h2_flood_earn(struct h2_flood *f); /* a request, or a frame of DATA */
/* False: a flood. */
bool h2_flood_idle(struct h2_flood *f, uint64_t now_ms) MUSTCHECK;
bool h2_flood_empty(struct h2_flood *f, bool is_empty) MUSTCHECK;
/* Of each frame. */
bool h2_flood_part(struct h2_flood *f, bool is_continuation) MUSTCHECK;
bool h2_flood_reset(struct h2_flood *f, uint64_t now_ms) MUSTCHECK;

#endif

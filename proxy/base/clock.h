#ifndef PROXY_BASE_CLOCK_H
#define PROXY_BASE_CLOCK_H
/* Two clocks: one that never jumps, for time-outs; one for people, for the ledger. */
#include "proxy/base/buf.h"

uint64_t clock_mono_ms(void); /* milliseconds, CLOCK_MONOTONIC */
uint64_t clock_wall_us(void); /* microseconds since 1970, CLOCK_REALTIME */
/* RFC 3339 in UTC with microseconds: 2026-01-02T03:04:05.000006Z */
void clock_put(struct buf *b, uint64_t wall_us);

#endif

#ifndef PROXY_CLI_SPAN_H
#define PROXY_CLI_SPAN_H
/* span: how operators write times: a span (90s, 10m, 2h, 7d), or a point in RFC 3339
 * in UTC (2026-01-02T03:04:05Z). */
#include "proxy/base/str.h"

bool span_read(struct str text, uint64_t *ret_s) MUSTCHECK;
/* Rounded down to two digits or so: 90s, 10m, 2h, 7d. */
enum { SPAN_SHORT = 16 };
void span_shorten(uint64_t s, char ret_text[SPAN_SHORT]);
/* Seconds since 1970; a fraction of a second is not looked at. */
bool span_read_point(struct str text, uint64_t *ret_s) MUSTCHECK;

#endif

#ifndef PROXY_IO_STATS_H
#define PROXY_IO_STATS_H
/*
 * stats: the counters of one role, in a memfd that control reads.  Written by one
 * process, read by others: relaxed atomics.  A new counter is one row in stats.def.
 */
#include "proxy/base/base.h"

#define STAT(name, word, what) STAT_##name,
enum counter {
#include "proxy/io/stats.def"
	STAT_COUNT
};
#undef STAT

struct stats; /* a mapping */

enum status stats_create(int *ret_memfd) MUSTCHECK;
enum status stats_open(int memfd, bool writable, struct stats **ret_s) MUSTCHECK;
void stats_close(struct stats *s);

void stats_add(struct stats *s, enum counter which, int64_t by); /* s NULL: nothing */
uint64_t stats_get(const struct stats *s, enum counter which);
/* One refusal more of this kind. */
void stats_refused(struct stats *s, enum status why);
uint64_t stats_refusals(const struct stats *s, enum status why);
const char *stats_word(enum counter which);

#endif

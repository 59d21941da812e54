#ifndef TESTS_PERF_MEASURE_H
#define TESTS_PERF_MEASURE_H
/*
 * measure: what both load generators count, and how they talk to bench.py:
 *
 *	generator  "ready"                     everything is open and warm
 *	bench.py   a line                      go
 *	generator  a line of JSON              the result; all is still open
 *	bench.py   the end of its input        close
 */
#include "proxy/base/str.h"

enum { MEASURE_SLOTS = 64 * 32 };

struct measure {
	uint64_t done, failed, bytes, began_us, ended_us;
	uint32_t slots[MEASURE_SLOTS]; /* by latency: 32 to each power of two us */
};

uint64_t measure_now_us(void);
void measure_latency(struct measure *m, uint64_t us);
/* "ready", then wait for the word; ends the process when there is none. */
void measure_ready(void);
void measure_tell(const struct measure *m);

/* KEY=VALUE among the arguments, or the default. */
const char *measure_text(char **argv, const char *key, const char *otherwise);
uint64_t measure_number(char **argv, const char *key, uint64_t otherwise);
/* The address in TEXT and the port in NUMBER. */
struct sockaddr_in;
void measure_address(char **argv, struct sockaddr_in *ret_sa);

#endif

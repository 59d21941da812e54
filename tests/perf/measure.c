#include "tests/perf/measure.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proxy/base/num.h"

enum { STEP_BITS = 5, STEPS = 1 << STEP_BITS };

uint64_t
measure_now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* The first STEPS slots are exact, then STEPS slots for each power of two. */
void
measure_latency(struct measure *m, uint64_t us)
{
	unsigned shift = 0;

	while (us >> shift >= 2 * STEPS)
		shift++;
	size_t slot = shift * STEPS + (size_t)(us >> shift);
	m->slots[num_min(slot, MEASURE_SLOTS - 1)]++;
}

static uint64_t
value_of(size_t slot)
{
	if (slot < 2 * STEPS)
		return slot;
	return (uint64_t)(STEPS + slot % STEPS) << (slot / STEPS - 1);
}

static uint64_t
quantile(const struct measure *m, double q)
{
	uint64_t all = 0, seen = 0;

	for (size_t i = 0; i < MEASURE_SLOTS; i++)
		all += m->slots[i];
	for (size_t i = 0; i < MEASURE_SLOTS; i++) {
		seen += m->slots[i];
		if (seen > 0 && (double)seen >= q * (double)all)
			return value_of(i);
	}
	return 0;
}

void
measure_ready(void)
{
	char line[16];

	(void)!write(STDOUT_FILENO, "ready\n", 6);
	if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
		exit(0);
}

void
measure_tell(const struct measure *m)
{
	char c;

	printf("{\"done\": %llu, \"failed\": %llu, \"bytes\": %llu, \"us\": %llu,"
	       " \"p50\": %llu, \"p99\": %llu}\n",
	       (unsigned long long)m->done, (unsigned long long)m->failed,
	       (unsigned long long)m->bytes,
	       (unsigned long long)(m->ended_us - m->began_us),
	       (unsigned long long)quantile(m, 0.5),
	       (unsigned long long)quantile(m, 0.99));
	(void)fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
}

const char *
measure_text(char **argv, const char *key, const char *otherwise)
{
	size_t n = strlen(key);

	for (size_t i = 1; argv[i] != NULL; i++)
		if (strncmp(argv[i], key, n) == 0 && argv[i][n] == '=')
			return argv[i] + n + 1;
	return otherwise;
}

uint64_t
measure_number(char **argv, const char *key, uint64_t otherwise)
{
	const char *text = measure_text(argv, key, NULL);
	uint64_t v = otherwise;

	if (text != NULL && !num_parse_u64(str_from(text), UINT64_MAX, &v))
		exit(2);
	return v;
}

void
measure_address(char **argv, struct sockaddr_in *ret_sa)
{
	*ret_sa = (struct sockaddr_in){ .sin_family = AF_INET,
					.sin_port = htons((uint16_t)measure_number(
						argv, "port", 0)) };
	if (inet_pton(AF_INET, measure_text(argv, "to", "127.0.0.1"),
		      &ret_sa->sin_addr) != 1)
		exit(2);
}

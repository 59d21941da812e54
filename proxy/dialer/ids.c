#include "proxy/dialer/ids.h"

#include <stdlib.h>

enum {
	DISTINCT_MIN = 960, /* 992 are expected, deviation below 3 */
	STEP_MAX = 8,  /* how often the same step from one id to the next may occur */
	BIT_MIN = 400, /* 500 are expected, deviation 16 */
	BIT_MAX = 600,
	/* 63 sockets are expected, of 16 questions each; 16 if none were renewed.  They
	 * may share ports where the range is small. */
	PORTS_MIN = 24,
	PORT_MAX = 96,
};

static int
by_value(const void *a, const void *b)
{
	return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

/* Sorts v; how many different values, and how often the commonest occurs. */
static size_t
count_distinct(uint16_t *v, size_t n, size_t *ret_most)
{
	size_t distinct = 0, run = 0, most = 0;

	qsort(v, n, sizeof(v[0]), by_value);
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || v[i] != v[i - 1]) {
			distinct++;
			run = 0;
		}
		if (++run > most)
			most = run;
	}
	*ret_most = most;
	return distinct;
}

static bool
bits_are_even(const uint16_t *ids)
{
	for (unsigned bit = 0; bit < 16; bit++) {
		size_t set = 0;
		for (size_t i = 0; i < IDS_SAMPLE; i++)
			set += (size_t)(ids[i] >> bit) & 1u;
		if (set < BIT_MIN || set > BIT_MAX)
			return false;
	}
	return true;
}

bool
ids_are_plausible(const uint16_t ids[IDS_SAMPLE])
{
	uint16_t values[IDS_SAMPLE], steps[IDS_SAMPLE - 1];
	size_t most = 0;

	for (size_t i = 0; i < IDS_SAMPLE; i++) {
		values[i] = ids[i];
		if (i > 0)
			steps[i - 1] = (uint16_t)(ids[i] - ids[i - 1]);
	}
	if (count_distinct(values, IDS_SAMPLE, &most) < DISTINCT_MIN)
		return false;
	(void)count_distinct(steps, IDS_SAMPLE - 1, &most);
	return most <= STEP_MAX && bits_are_even(ids);
}

bool
ids_ports_are_renewed(const uint16_t ports[IDS_SAMPLE])
{
	uint16_t values[IDS_SAMPLE];
	size_t most = 0;

	for (size_t i = 0; i < IDS_SAMPLE; i++)
		values[i] = ports[i];
	return count_distinct(values, IDS_SAMPLE, &most) >= PORTS_MIN &&
	       most <= PORT_MAX;
}

#include "proxy/base/clock.h"

#include <time.h>

static struct timespec
now(clockid_t which)
{
	struct timespec ts = { 0 };

	need(clock_gettime(which, &ts) == 0);
	return ts;
}

uint64_t
clock_mono_ms(void)
{
	struct timespec ts = now(CLOCK_MONOTONIC);

	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

uint64_t
clock_wall_us(void)
{
	struct timespec ts = now(CLOCK_REALTIME);

	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void
clock_put(struct buf *b, uint64_t wall_us)
{
	time_t secs = (time_t)(wall_us / 1000000);
	struct tm tm = { 0 };
	char day[40];

	if (gmtime_r(&secs, &tm) == NULL ||
	    strftime(day, sizeof day, "%FT%T", &tm) == 0) {
		buf_put(b, STR("-"));
		return;
	}
	buf_putf(b, "%s.%06uZ", day, (unsigned)(wall_us % 1000000));
}

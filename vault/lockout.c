#include "vault/lockout.h"

#include <string.h>
#include <time.h>

#include "proxy/base/buf.h"
#include "proxy/base/clock.h"
#include "proxy/base/num.h"
#include "vault/small_file.h"

enum { SIZE = 4 + LOCKOUT_BOOT + 8 + 8 };

static const char name[] = "unseal.tries";

struct lockout_now
lockout_now(struct str boot)
{
	struct lockout_now now = { .wall_ms = clock_wall_us() / 1000 };
	struct timespec ts = { 0 };

	need(clock_gettime(CLOCK_BOOTTIME, &ts) == 0);
	now.boot_ms = (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
	memcpy(now.boot, boot.p == NULL ? "" : boot.p, num_min(boot.n, LOCKOUT_BOOT));
	return now;
}

/* A file that isn't ours counts as the worst that it could have said. */
enum status
lockout_open(int dir, struct lockout *ret_l)
{
	struct lockout l = { .dir = dir };
	unsigned char bytes[SIZE];
	size_t n = 0;
	enum status st = small_file_read(dir, name, bytes, sizeof bytes, &n);

	if (st == ST_SYSTEM)
		return st;
	if (st == ST_OK && n == SIZE) {
		l.failures = num_be32(bytes);
		memcpy(l.at.boot, bytes + 4, LOCKOUT_BOOT);
		l.at.boot_ms = num_be64(bytes + 4 + LOCKOUT_BOOT);
		l.at.wall_ms = num_be64(bytes + 4 + LOCKOUT_BOOT + 8);
	} else if (st != ST_NOT_FOUND) {
		l.failures = LOCKOUT_TRIES;
		l.at = lockout_now((struct str){ NULL, 0 });
	}
	*ret_l = l;
	return ST_OK;
}

static enum status
keep(const struct lockout *l)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text;

	buf_init(&b, SIZE);
	buf_put_u32(&b, l->failures);
	buf_put(&b, str_of(l->at.boot, sizeof l->at.boot));
	buf_put_u64(&b, l->at.boot_ms);
	buf_put_u64(&b, l->at.wall_ms);
	enum status st = buf_finish(&b, &text);
	return st == ST_OK ? small_file_write(l->dir, name, text) : st;
}

/* Since the last failure. */
static uint64_t
passed_ms(struct lockout *l, const struct lockout_now *now)
{
	if (memcmp(l->at.boot, now->boot, LOCKOUT_BOOT) == 0 &&
	    now->boot_ms >= l->at.boot_ms)
		return now->boot_ms - l->at.boot_ms;
	if (now->wall_ms >= l->at.wall_ms)
		return now->wall_ms - l->at.wall_ms;
	/* Set back: from now on, and that must be known after the next start too. */
	l->at = *now;
	(void)!keep(l);
	return 0;
}

uint64_t
lockout_left_ms(struct lockout *l, const struct lockout_now *now)
{
	uint64_t passed;

	if (l->failures == 0)
		return 0;
	passed = passed_ms(l, now);
	if (passed >= LOCKOUT_MS)
		l->failures = 0;
	return l->failures < LOCKOUT_TRIES ? 0 : LOCKOUT_MS - passed;
}

enum status
lockout_try(struct lockout *l, const struct lockout_now *now)
{
	if (lockout_left_ms(l, now) > 0)
		return ST_VAULT_LOCKED;
	l->failures++;
	l->at = *now;
	return keep(l);
}

enum status
lockout_succeeded(struct lockout *l)
{
	if (l->failures == 0)
		return ST_OK;
	l->failures = 0;
	return keep(l);
}

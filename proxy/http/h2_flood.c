#include "proxy/http/h2_flood.h"

enum {
	IDLE_BURST = 100,
	IDLE_PER_S = 10,
	IDLE_EARNED = 10,
	IDLE_MOST = 2000,
	RESET_BURST = 100,
	RESET_PER_S = 20,
	EMPTY_MOST = 1,
	PARTS_MOST = 8,
};

void
h2_flood_init(struct h2_flood *f)
{
	*f = (struct h2_flood){
		.idle = { IDLE_BURST, IDLE_PER_S, IDLE_BURST, IDLE_MOST, 0 },
		.reset = { RESET_BURST, RESET_PER_S, RESET_BURST, RESET_BURST, 0 },
	};
}

static void
refill(struct h2_bucket *b, uint64_t now_ms)
{
	if (now_ms <= b->filled_ms)
		return;
	uint64_t ms = now_ms - b->filled_ms;
	uint64_t full_ms = (uint64_t)b->burst * 1000 / b->per_s;
	uint64_t n = ms >= full_ms ? b->burst : ms * b->per_s / 1000;

	if (n == 0)
		return; /* the part of a token is not lost: filled_ms stays */
	b->filled_ms = ms >= full_ms ? now_ms : b->filled_ms + n * 1000 / b->per_s;
	if (b->left < b->burst)
		b->left = b->burst - b->left < n ? b->burst : b->left + (uint32_t)n;
}

static bool
take(struct h2_bucket *b, uint64_t now_ms)
{
	refill(b, now_ms);
	if (b->left == 0)
		return false;
	b->left--;
	return true;
}

void
h2_flood_earn(struct h2_flood *f)
{
	uint32_t room = f->idle.most - f->idle.left;

	f->idle.left += room < IDLE_EARNED ? room : IDLE_EARNED;
}

bool
h2_flood_idle(struct h2_flood *f, uint64_t now_ms)
{
	return take(&f->idle, now_ms);
}

bool
h2_flood_empty(struct h2_flood *f, bool is_empty)
{
	f->empties = is_empty ? f->empties + 1 : 0;
	return f->empties <= EMPTY_MOST;
}

bool
h2_flood_part(struct h2_flood *f, bool is_continuation)
{
	f->parts = is_continuation ? f->parts + 1 : 0;
	return f->parts <= PARTS_MOST;
}

bool
h2_flood_reset(struct h2_flood *f, uint64_t now_ms)
{
	return take(&f->reset, now_ms);
}

/* What happens to sandboxes that nobody uses: each second those whose time is over are ended,
 * and those that were not used for long are put to sleep, or ended.  Of busy ones neither. */
#include <stdlib.h>

#include "proxy/control/brain.h"

enum {
	IDLE_ARENA = 4 << 20,
	IDLE_AT_ONCE = 16,    /* acts begun in one walk */
	TRIES = 4096,         /* remembered */
	MADE_S = 900,         /* a create takes less */
	FAILED_S = 600,       /* its owner can read so long why */
	FORGET_S = 24 * 3600, /* a row that is gone is kept so long */
};

struct idle_try { /* an act that failed isn't tried again at once */
	struct brain_wait wait;
	struct brain *brain;
	char id[BRAIN_ID + 1];
	bool is_open; /* a job tells us its end */
	uint64_t until_s;
};

static void
try_free(struct idle_try *t)
{
	brain_unwait(&t->wait);
	free(t);
}

void
brain_idle_close(struct brain *b)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(&b->idle, &at, &key, &value);)
		try_free(value);
	map_done(&b->idle);
}

/* Whatever came of it, the next look is later. */
static void
tried(void *ctx, enum status st, const struct call_got *got)
{
	struct idle_try *t = ctx;
	struct brain *b = t->brain;
	bool is_done = st == ST_OK &&
		       (got == NULL || (got->st == ST_OK && got->http / 100 == 2));

	t->is_open = false;
	if (!is_done)
		log_info(&b->control->role.log, "an unused sandbox, %s: %s", t->id,
			 st == ST_OK ? "its server refuses" : status_code(st));
	if (!is_done)
		return;
	(void)map_take(&b->idle, str_from(t->id));
	free(t);
}

static struct idle_try *
try_new(struct brain *b, struct str id)
{
	struct idle_try *t = calloc(1, sizeof *t);

	if (t == NULL)
		return NULL;
	t->brain = b;
	t->wait.fn = tried;
	t->wait.ctx = t;
	list_init(&t->wait.link);
	for (size_t i = 0; i < BRAIN_ID && i < id.n; i++)
		t->id[i] = id.p[i];
	if (map_put(&b->idle, id, t) == ST_OK)
		return t;
	free(t);
	return NULL;
}

/* Room for others: those that wait for nothing. */
static void
forget_tries(struct brain *b, uint64_t now)
{
	struct str key;
	void *value;
	struct idle_try *old = NULL;

	for (size_t at = 0; map_next(&b->idle, &at, &key, &value);) {
		struct idle_try *t = value;

		if (!t->is_open && t->until_s <= now)
			old = t;
	}
	if (old == NULL)
		return;
	(void)map_take(&b->idle, str_from(old->id));
	free(old);
}

/* True: begun. */
static bool
act(struct brain *b, const struct brain_sandbox *box, enum brain_act what)
{
	uint64_t now = brain_now_s();
	uint64_t later =
		image_number(b->control->role.image, OPT_EXEC_IDLE_AFTER) / 1000;
	struct idle_try *t = map_get(&b->idle, box->id);

	if (brain_busy(b, box->id) > 0) {
		/* It is used: it needn't be looked at each second. */
		if (brain_store_touch(b->store, box->id, now) != ST_OK)
			log_error(&b->control->role.log, "exec.db: a use isn't kept");
		return false;
	}
	if (t != NULL && (t->is_open || now < t->until_s))
		return false;
	if (t == NULL && b->idle.len >= TRIES)
		forget_tries(b, now);
	if (t == NULL)
		t = try_new(b, box->id);
	if (t == NULL)
		return false;
	t->until_s = now + (later < 10 ? 10 : later);
	t->is_open = brain_job(b, box->id, what, &t->wait) == ST_OK;
	return t->is_open;
}

/* A page of which nothing can be begun doesn't stand before the others: they are next. */
static void
act_all(struct brain *b, const struct brain_sandboxes *found, enum brain_act what,
	size_t *at)
{
	size_t begun = 0;

	for (size_t i = 0; i < found->n && begun < IDLE_AT_ONCE; i++)
		begun += act(b, &found->of[i], what);
	if (begun == 0)
		*at = found->n < BRAIN_LIST_MAX ? 0 : *at + found->n;
}

static void
expire(struct brain *b)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	struct brain_sandboxes found;
	size_t *at = &b->idle_at[BRAIN_IDLE_EXPIRED];

	arena_init(&a, IDLE_ARENA);
	if (brain_store_expired(b->store, brain_now_s(), *at, &a, &found) == ST_OK)
		act_all(b, &found, BRAIN_KILL, at);
}

static void
unused(struct brain *b, enum brain_idles which, uint64_t after_s, enum brain_act what)
{
	static const enum brain_state in[BRAIN_IDLES] = {
		[BRAIN_IDLE_SLEEP] = BRAIN_RUNNING,
		[BRAIN_IDLE_RUNNING] = BRAIN_RUNNING,
		[BRAIN_IDLE_PAUSED] = BRAIN_PAUSED,
		[BRAIN_IDLE_SNAPSHOT] = BRAIN_SNAPSHOT,
	};
	CLEANUP(arena_done) struct arena a = { 0 };
	struct brain_sandboxes found;
	uint64_t now = brain_now_s();
	size_t *at = &b->idle_at[which];

	arena_init(&a, IDLE_ARENA);
	if (after_s > 0 && now > after_s &&
	    brain_store_idle(b->store, in[which], now - after_s, *at, &a, &found) ==
		    ST_OK)
		act_all(b, &found, what, at);
}

void
brain_idle(struct brain *b)
{
	const struct image *im = b->control->role.image;
	enum exec_idle how = (enum exec_idle)image_number(im, OPT_EXEC_IDLE);
	uint64_t after = image_number(im, OPT_EXEC_IDLE_AFTER) / 1000;
	uint64_t kill = image_number(im, OPT_EXEC_KILL_AFTER) / 1000;

	expire(b);
	unused(b, BRAIN_IDLE_RUNNING, kill, BRAIN_KILL);
	unused(b, BRAIN_IDLE_PAUSED, kill, BRAIN_KILL);
	unused(b, BRAIN_IDLE_SNAPSHOT, kill, BRAIN_KILL);
	if (how == EXEC_IDLE_PAUSE)
		unused(b, BRAIN_IDLE_SLEEP, after, BRAIN_PAUSE);
	else if (how == EXEC_IDLE_SNAPSHOT)
		unused(b, BRAIN_IDLE_SLEEP, after, BRAIN_FREEZE);
	else if (how == EXEC_IDLE_KILL)
		unused(b, BRAIN_IDLE_SLEEP, after, BRAIN_KILL);
}

/* Half made: by a process that is no more, or by a server that said nothing.  What may still
 * come of it is found by what servers have. */
static void
settle(struct brain *b, const struct brain_sandbox *box, uint64_t now)
{
	enum brain_state to = box->upstream.n > 0 ? BRAIN_RUNNING : BRAIN_FAILED;

	if (brain_job_runs(b, box->id) ||
	    (to == BRAIN_FAILED && box->created_s + MADE_S > now))
		return;
	if (brain_store_state(b->store, box->id, to, now) != ST_OK)
		log_error(&b->control->role.log, "exec.db: a row stays half made");
}

static void
rest(struct brain *b, const struct brain_sandbox *box)
{
	uint64_t now = brain_now_s();

	if (box->state == BRAIN_PLACING)
		settle(b, box, now);
	else if (box->state == BRAIN_KILLING || box->created_s + FAILED_S < now)
		(void)act(b, box, BRAIN_KILL);
}

void
brain_idle_rest(struct brain *b)
{
	uint64_t now = brain_now_s();
	enum status st = ST_OK;

	brain_each(b,
		   BRAIN_BIT(BRAIN_PLACING) | BRAIN_BIT(BRAIN_KILLING) |
			   BRAIN_BIT(BRAIN_FAILED),
		   rest);
	for (int i = 0; i < 64 && st == ST_OK; i++)
		st = brain_store_forget(b->store, now,
					now > FORGET_S ? now - FORGET_S : 0);
}

/* Whoever was asked about them is asked no more. */
static void
unpend(struct brain *b, const struct brain_sandbox *box)
{
	if (brain_store_state(b->store, box->id, BRAIN_FAILED, brain_now_s()) != ST_OK)
		log_error(&b->control->role.log, "exec.db: a row stays pending");
}

void
brain_idle_start(struct brain *b)
{
	brain_each(b, BRAIN_BIT(BRAIN_PENDING), unpend);
}

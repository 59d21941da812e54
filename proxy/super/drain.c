#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "proxy/super/super.h"

/*
 * The end, in steps.  Those who serve sandboxes finish what runs, then go; then those
 * whom they ask, connectors that give back their tokens first; the ledger drains all
 * rings when no one writes any more, and goes before the keeper, which signs its last
 * head.
 */
#define BIT(r) (1u << ROLE_##r)
static const struct drain_step {
	unsigned roles;
	bool is_asked; /* DRAIN, and wait for the answer; else the line closes */
} steps[] = {
	{ BIT(WORKER) | BIT(DNS), true }, { BIT(WORKER) | BIT(DNS), false },
	{ BIT(CONNECTOR), true },         { BIT(CONTROL) | BIT(CONNECTOR), false },
	{ BIT(DIALER), false },           { BIT(LEDGER), true },
	{ BIT(LEDGER), false },           { BIT(KEEPER), false },
};
#undef BIT

enum { STOP_MS = 3000, LEDGER_MS = 30000, GRACE_MS = 1000 };
/* timeout(1) sends its signal to us and to our group: that is one wish, not two. */
enum { TWICE_MS = 500 };

struct drain {
	struct super *super;
	size_t step;
	uint64_t begun_ms;
	bool is_over; /* the steps' time is up: kill what is left */
	struct loop_timer timer;
};

static bool
is_of(const struct slot *slot, size_t step)
{
	return slot->index > 0 && (steps[step].roles & 1u << slot->role) != 0;
}

static void
drained(void *ctx, enum status st, struct ask_msg *m)
{
	struct slot *slot = ctx;

	(void)m;
	if (st == ST_END)
		return; /* its death is counted where it is reaped */
	slot->is_drained = true;
	drain_check(slot->super);
}

static void
ask_drain(struct slot *slot, uint64_t deadline_ms)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	/* One that died a moment ago has no rings yet: drain_serves() asks it. */
	if (slot->state == SLOT_STARTING && slot->line != NULL)
		return;
	slot->is_stopping = true;
	slot->is_drained = false;
	buf_init(&b, 16);
	buf_put_u32(&b, (uint32_t)deadline_ms);
	if (slot->line == NULL ||
	    ask_call(slot->line, ASK_DRAIN, ASK_LOAD(str_of(b.p, b.len), NULL, 0),
		     drained, slot, NULL) != ST_OK)
		slot->is_drained = true;
}

static void
stop(struct slot *slot)
{
	slot->is_stopping = true;
	loop_timer_clear(&slot->again);
	ask_line_free(slot->line); /* a role ends when the line to super does */
	slot->line = NULL;
}

static uint64_t
step_deadline(const struct drain *d)
{
	struct super *s = d->super;

	return is_of(slot_of(s, ROLE_LEDGER), d->step)
		       ? LEDGER_MS
		       : image_number(s->policy.image, OPT_DRAIN_TIMEOUT);
}

void
drain_serves(struct slot *slot)
{
	const struct drain *d = slot->super->drain;

	if (d != NULL && d->step < COUNT_OF(steps) && steps[d->step].is_asked &&
	    is_of(slot, d->step))
		ask_drain(slot, step_deadline(d));
}

static void
step_start(struct drain *d)
{
	struct super *s = d->super;
	bool is_asked = steps[d->step].is_asked,
	     is_ledger = is_of(slot_of(s, ROLE_LEDGER), d->step);
	uint64_t deadline = step_deadline(d);

	d->is_over = false;
	if (is_asked && is_ledger)
		super_row(s, ROW_GATEWAY, ST_OK, STR("stops"));
	for (size_t i = 1; i < s->slots_n; i++) {
		if (!is_of(&s->slots[i], d->step))
			continue;
		if (is_asked)
			ask_drain(&s->slots[i], deadline);
		else
			stop(&s->slots[i]);
	}
	loop_timer_set(&d->timer, is_asked ? deadline + GRACE_MS : STOP_MS);
}

static bool
step_is_done(const struct drain *d)
{
	const struct super *s = d->super;

	for (size_t i = 1; i < s->slots_n; i++) {
		const struct slot *slot = &s->slots[i];
		if (!is_of(slot, d->step) || slot->pid == 0)
			continue;
		if (!steps[d->step].is_asked || (!slot->is_drained && !d->is_over))
			return false;
	}
	return true;
}

void
drain_check(struct super *s)
{
	struct drain *d = s->drain;

	while (step_is_done(d)) {
		loop_timer_clear(&d->timer);
		if (++d->step == COUNT_OF(steps)) {
			loop_stop(s->loop);
			return;
		}
		step_start(d);
	}
}

static void
step_is_late(void *ctx)
{
	struct drain *d = ctx;
	struct super *s = d->super;

	d->is_over = true;
	for (size_t i = 1; i < s->slots_n && !steps[d->step].is_asked; i++) {
		if (is_of(&s->slots[i], d->step) && s->slots[i].pid > 0) {
			log_error(&s->log, "%s does not end: killed", s->slots[i].name);
			(void)kill(s->slots[i].pid, SIGKILL);
		}
	}
	drain_check(s);
}

void
drain_start(struct super *s)
{
	struct drain *d = s->drain;

	if (d != NULL) { /* asked twice: in a hurry */
		if (loop_now_ms(s->loop) - d->begun_ms >= TWICE_MS)
			step_is_late(d);
		return;
	}
	d = calloc(1, sizeof *d);
	if (d == NULL) {
		loop_stop(s->loop);
		return;
	}
	*d = (struct drain){ .super = s, .begun_ms = loop_now_ms(s->loop) };
	loop_timer_init(&d->timer, s->loop, step_is_late, d);
	s->drain = d;
	/* With the workers' own ends closed, who comes now is refused instead of
	 * waiting. */
	for (size_t i = 0; i < s->listeners.n; i++)
		s->listeners.of[i].is_kept = false;
	bind_close(&s->listeners);
	log_info(&s->log, "drains");
	notify("STOPPING=1");
	super_row(s, ROW_GATEWAY, ST_DRAINING, STR("drains"));
	step_start(d);
	drain_check(s);
}

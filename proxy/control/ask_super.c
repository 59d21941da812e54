#include "proxy/control/control.h"

#include "proxy/base/clock.h"

/* Super's line is the role's own, which has no calls: an answer is found by its number.
 */
static struct super_call *
find(struct control *c, uint32_t seq)
{
	for (size_t i = 0; i < CONTROL_CALLS; i++) {
		if (c->calls[i].seq == seq)
			return &c->calls[i];
	}
	return NULL;
}

enum status
ask_super(struct control *c, enum ask a, struct ask_load load, super_fn fn, void *ctx)
{
	struct super_call *call = find(c, 0);
	enum status st;

	/* Super ends a role that asks more often: an operator is told no before. */
	if (call == NULL || !ask_rate_take(&c->asked[a], a, 1, clock_mono_ms()))
		return ST_LIMIT_RATE;
	if (++c->last_seq == 0)
		c->last_seq = 1; /* 0 marks a free place */
	st = ask_send(&c->role.super, a, false, c->last_seq, load);
	if (st == ST_OK)
		*call = (struct super_call){ c->last_seq, fn, ctx };
	return st;
}

/* Super answers every ask or is gone, and then so are we. */
void
ask_super_answered(struct control *c, struct ask_msg *m)
{
	struct super_call *call = m->seq == 0 ? NULL : find(c, m->seq);
	struct super_call found;

	if (call == NULL)
		return;
	found = *call;
	call->seq = 0;
	found.fn(found.ctx, ST_OK, m->body);
}

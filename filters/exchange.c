#include "filters/exchange.h"

#include "proxy/base/num.h"

#define FILTER(name) &filter_##name,
static const struct filter *const filters[] = {
#include "filters/filters.def"
};
#undef FILTER

void
exchange_init(struct exchange *x, const struct filter_host *host, void *core)
{
	*x = (struct exchange){ .host = host,
				.core = core,
				.rule = RULE_NONE,
				.connector = CONNECTOR_NONE };
}

enum verdict
filter_deny(struct exchange *x, enum status reason)
{
	x->reason = reason;
	return VERDICT_DENY;
}

static filter_phase_fn
phase_of(const struct filter *f, enum phase phase)
{
	switch (phase) {
	case PHASE_CONNECTION:
		return f->on_connection;
	case PHASE_HELLO:
		return f->on_hello;
	case PHASE_REQUEST:
		return f->on_request;
	case PHASE_DIAL:
		return f->on_dial;
	case PHASE_OPEN:
		return f->on_open;
	case PHASE_RESPONSE:
		return f->on_response;
	}
	return NULL;
}

/* The filter that is step-th in this direction. */
static const struct filter *
filter_at(size_t step, bool backwards)
{
	return filters[backwards ? COUNT_OF(filters) - 1 - step : step];
}

static enum verdict
latch(struct exchange *x, enum verdict v)
{
	if (v != VERDICT_HOLD && v > x->worst)
		x->worst = v;
	/* A filter that fails without a word must not look allowed in the ledger. */
	if (v >= VERDICT_DENY && x->reason == ST_OK)
		x->reason = ST_FILTER_FAILED;
	return v;
}

static enum verdict
run_from(struct exchange *x, enum phase phase, size_t step)
{
	bool backwards = phase == PHASE_RESPONSE;

	for (; step < COUNT_OF(filters); step++) {
		filter_phase_fn fn = phase_of(filter_at(step, backwards), phase);
		enum verdict v;

		if (fn == NULL)
			continue;
		v = latch(x, fn(x));
		if (v == VERDICT_HOLD) {
			x->is_held = true;
			x->at = (uint8_t)step;
		}
		if (v != VERDICT_NEXT)
			return v;
	}
	return VERDICT_NEXT;
}

enum verdict
exchange_run(struct exchange *x, enum phase phase)
{
	need(!x->is_held && !x->is_done);
	if (x->worst >= VERDICT_DENY)
		return x->worst;
	return run_from(x, phase, 0);
}

enum verdict
exchange_resume(struct exchange *x, enum phase phase)
{
	need(x->is_held && !x->is_done);
	x->is_held = x->is_resumed = false;
	if (x->worst >= VERDICT_DENY)
		return x->worst;
	return run_from(x, phase, (size_t)x->at + 1);
}

enum verdict
exchange_body(struct exchange *x, bool is_response, struct str view, bool is_last,
	      size_t *ret_pass)
{
	size_t pass = view.n;

	if (x->worst >= VERDICT_DENY)
		return x->worst;
	for (size_t step = 0; step < COUNT_OF(filters); step++) {
		const struct filter *f = filter_at(step, is_response);
		filter_body_fn fn = is_response ? f->on_response_body : f->on_body;
		size_t mine = view.n;
		enum verdict v;

		if (fn == NULL)
			continue;
		v = latch(x, fn(x, view, is_last, &mine));
		if (v != VERDICT_NEXT)
			return v;
		pass = num_min(pass, mine);
	}
	*ret_pass = pass;
	return VERDICT_NEXT;
}

void
exchange_done(struct exchange *x)
{
	if (x->is_done)
		return;
	x->is_done = true;
	x->is_held = false;
	for (size_t step = 0; step < COUNT_OF(filters); step++) {
		const struct filter *f = filter_at(step, true);

		if (f->on_done != NULL)
			f->on_done(x);
	}
}

unsigned
exchange_needs(void)
{
	unsigned needs = NEEDS_NOTHING;

	for (size_t i = 0; i < COUNT_OF(filters); i++)
		needs |= filters[i]->needs;
	return needs;
}

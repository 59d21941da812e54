/*
 * probe: a filter that does what the request asks of it, so that a test from outside
 * sees the core keep each promise of filter.h.
 *
 *	X-Probe: deny|answer|hold        at the request; hold-open, hold-response: later
 *	bodies   "STOP" denies, however it is cut; a piece that could begin it is held
 *	         back; "WAIT" holds once, then passes; whole: nothing before the last byte
 *
 * What holds is resumed in a later turn of the loop.
 */
#include <string.h>

#include "filters/filter.h"
#include "proxy/http/head.h"

static bool
wants(const struct exchange *x, const char *word)
{
	const struct field *f = head_find(x->request, STR("X-Probe"));

	return f != NULL && str_eq(f->value, str_from(word));
}

/* Resumes at once: the core goes on in a later turn of its loop. */
static enum verdict
hold(struct exchange *x)
{
	x->host->resume(x);
	return VERDICT_HOLD;
}

static enum verdict
on_request(struct exchange *x)
{
	if (wants(x, "deny"))
		return filter_deny(x, ST_DENIED_RULE);
	if (wants(x, "fail"))
		return VERDICT_FAIL;
	if (wants(x, "answer")) {
		x->answer = STR("answered by the filter");
		x->http_status = 203;
		return VERDICT_ANSWER;
	}
	return wants(x, "hold") || wants(x, "hold-all") ? hold(x) : VERDICT_NEXT;
}

static enum verdict
on_open(struct exchange *x)
{
	return wants(x, "hold-open") || wants(x, "hold-all") ? hold(x) : VERDICT_NEXT;
}

static enum verdict
on_response(struct exchange *x)
{
	if (wants(x, "deny-response"))
		return filter_deny(x, ST_DENIED_RULE);
	if (wants(x, "answer-response")) {
		x->answer = STR("answered by the filter");
		x->http_status = 203;
		return VERDICT_ANSWER;
	}
	return wants(x, "hold-response") || wants(x, "hold-all") ? hold(x)
								 : VERDICT_NEXT;
}

/* How much of the end could be the beginning of word. */
static size_t
tail(struct str view, struct str word)
{
	size_t n = word.n - 1 < view.n ? word.n - 1 : view.n;

	while (n > 0 && memcmp(view.p + view.n - n, word.p, n) != 0)
		n--;
	return n;
}

static enum verdict
look(struct exchange *x, struct str view, bool is_last, size_t *ret_pass)
{
	if (memmem(view.p, view.n, "STOP", 4) != NULL)
		return filter_deny(x, ST_DENIED_RULE);
	/* Once in an exchange: the second look lets it pass. */
	if (memmem(view.p, view.n, "WAIT", 4) != NULL && x->detail.n == 0) {
		x->detail = STR("waited");
		return hold(x);
	}
	*ret_pass = is_last ? view.n : view.n - tail(view, STR("STOP"));
	if (wants(x, "whole") && !is_last)
		*ret_pass = 0;
	return VERDICT_NEXT;
}

static enum verdict
on_body(struct exchange *x, struct str view, bool is_last, size_t *ret_pass)
{
	return look(x, view, is_last, ret_pass);
}

static enum verdict
on_response_body(struct exchange *x, struct str view, bool is_last, size_t *ret_pass)
{
	return look(x, view, is_last, ret_pass);
}

const struct filter filter_probe = {
	.name = "probe",
	.needs = NEEDS_HEAD | NEEDS_BODY | NEEDS_RESPONSE | NEEDS_RESPONSE_BODY,
	.on_request = on_request,
	.on_open = on_open,
	.on_response = on_response,
	.on_body = on_body,
	.on_response_body = on_response_body,
};

/*
 * approval: what the configuration says a person is asked about.  Of a connector each request,
 * or its first use; of a host its first use.  "First" is not counted here: the question has
 * the same text each time, so that what was granted for it lets the next one pass.
 *
 * A request is held before anything is opened for it, what is carried unread before its
 * host is dialled.  The body of a request is no part of what is asked: nobody has read it.
 */
#include "conf/policy.h"
#include "filters/filter.h"
#include "proxy/http/dest.h"

/* A target is at most as long as a head. */
enum { TEXT_MAX = 128 * 1024, WHY_MAX = 1024 };

static const struct image_connector *
connector_of(const struct exchange *x)
{
	size_t n;
	const struct image_connector *all = image_connectors(x->image, &n);

	return x->action == ACTION_CONNECTOR && x->connector < n ? &all[x->connector]
								 : NULL;
}

static enum approval_when
when_of(const struct exchange *x)
{
	const struct policy_answer a = { .action = x->action,
					 .rule = x->rule,
					 .observed = x->observed,
					 .connector = x->connector };

	return policy_approval(x->image, &a);
}

static void
put_request(struct buf *b, const struct exchange *x, struct str connector)
{
	buf_put(b, x->method);
	buf_putc(b, ' ');
	buf_put(b, connector);
	buf_putc(b, ' ');
	dest_put(b, x->dest);
	buf_put(b, x->path);
	if (x->query.n > 0)
		buf_putc(b, '?');
	buf_put(b, x->query);
}

static void
put_text(struct buf *b, const struct exchange *x, enum approval_when when)
{
	const struct image_connector *c = connector_of(x);

	if (c == NULL)
		dest_put(b, x->dest);
	else if (when == APPROVAL_FIRST)
		buf_put(b, image_str(x->image, c->name));
	else
		put_request(b, x, image_str(x->image, c->name));
}

static void
put_why(struct buf *b, const struct exchange *x)
{
	const struct image_connector *c = connector_of(x);

	if (c == NULL) {
		image_put_rule(b, x->image, x->rule);
		buf_put(b, STR(": a person is asked before this host is used"));
		return;
	}
	buf_put(b, image_str(x->image, c->file));
	buf_putf(b, ":%u: ", c->line);
	buf_put(b, STR("a person is asked before this connector is used"));
}

static struct str
what_of(const struct exchange *x, enum approval_when when)
{
	if (connector_of(x) == NULL)
		return STR("host");
	return when == APPROVAL_FIRST ? STR("connector") : STR("request");
}

static enum verdict
ask(struct exchange *x)
{
	enum approval_when when = when_of(x);
	CLEANUP(buf_done) struct buf text = { 0 };
	CLEANUP(buf_done) struct buf why = { 0 };
	struct filter_question q = { .what = what_of(x, when) };

	if (when == APPROVAL_NEVER || x->approval.n > 0)
		return VERDICT_NEXT;
	buf_init(&text, TEXT_MAX);
	buf_init(&why, WHY_MAX);
	put_text(&text, x, when);
	put_why(&why, x);
	enum status st = buf_finish(&text, &q.text);
	/* Of a path that is too long for it the sentence is left out. */
	if (st == ST_OK && buf_finish(&why, &q.why) != ST_OK)
		q.why = STR("");
	if (st == ST_OK)
		st = x->host->ask_person(x, &q);
	return st == ST_OK ? VERDICT_HOLD : filter_deny(x, st);
}

/* A policy that came meanwhile wants a person asked, and there is no way back. */
static enum verdict
was_asked(struct exchange *x)
{
	return when_of(x) == APPROVAL_NEVER || x->approval.n > 0
		       ? VERDICT_NEXT
		       : filter_deny(x, ST_RELOADED);
}

static void
on_done(struct exchange *x)
{
	if (x->person != NULL)
		x->host->forget_person(x);
}

const struct filter filter_approval = {
	.name = "approval",
	.needs = NEEDS_HEAD,
	.on_request = ask,
	.on_dial = ask,
	.on_open = was_asked,
	.on_done = on_done,
};

#include "proxy/worker/dial.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "proxy/flow/parent.h"
#include "proxy/io/ask.h"
#include "proxy/io/sock.h"

enum { DIAL_TEXT_MAX = 64, DIAL_BODY_MAX = 512, DIAL_REACH_MAX = 1024 };

struct dial {
	struct worker *w;
	struct ask_line *line;
	uint32_t seq;
	bool is_asked; /* the dialer has not answered yet */
	dial_fn fn;
	void *ctx;
	struct dest dest;

	/* what the dialer said */
	int fd;
	uint32_t rule;
	char address[DIAL_TEXT_MAX], country[4];

	struct parent parent;
};

static void
dial_end(struct dial *d, enum status st)
{
	struct dial_result r = { .st = st,
				 .fd = -1,
				 .rule = d->rule,
				 .address = str_from(d->address),
				 .country = str_from(d->country) };

	parent_cancel(&d->parent);
	if (st == ST_OK) {
		r.fd = d->fd;
		d->fd = -1;
	} else {
		stats_add(d->w->role.stats, STAT_DIALS_FAILED, 1);
	}
	if (d->fd >= 0)
		(void)close(d->fd);
	d->fd = -1;
	loop_defer(d->w->loop, free, d);
	d->fn(d->ctx, &r);
}

void
dial_cancel(struct dial *d)
{
	if (d == NULL)
		return;
	/* A line that was lost has told us; so it lives. */
	if (d->is_asked)
		ask_cancel(d->line, d->seq);
	parent_cancel(&d->parent);
	if (d->fd >= 0)
		(void)close(d->fd);
	d->fd = -1;
	loop_defer(d->w->loop, free, d);
}

static void
on_parent(void *ctx, enum status st)
{
	dial_end(ctx, st);
}

static void
parent_talk(struct dial *d)
{
	const struct parent_wish wish = { d->fd, &d->dest,
					  worker_option(d->w, OPT_CONNECT_TIMEOUT) };
	enum status st = parent_begin(&d->parent, &d->w->flow, &wish, on_parent, d);

	if (st != ST_OK)
		dial_end(d, st);
}

static void
keep_text(char *to, size_t size, struct str from)
{
	size_t n = num_min(from.n, size - 1);

	memcpy(to, from.p, n);
	to[n] = '\0';
}

/* The dialer's word for what happened; what we don't know means: no. */
static enum status
status_from(uint16_t v)
{
	return v < ST_COUNT ? (enum status)v : ST_NO_DIALER;
}

static void
on_answer(void *ctx, enum status st, struct ask_msg *m)
{
	struct dial *d = ctx;
	struct wire in;
	bool by_parent;

	d->is_asked = false;
	if (st != ST_OK) {
		dial_end(d, st == ST_TIMEOUT ? ST_CONNECT_TIMEOUT : ST_NO_DIALER);
		return;
	}
	in = wire_from(m->body);
	st = status_from(wire_u16(&in));
	d->rule = wire_u32(&in);
	keep_text(d->address, sizeof(d->address), wire_str(&in));
	keep_text(d->country, sizeof(d->country), wire_str(&in));
	(void)wire_u8(&in); /* attempts */
	by_parent = wire_u8(&in) != 0;
	if (wire_end(&in) != ST_OK)
		st = ST_NO_DIALER;
	d->fd = ask_msg_take(m, 0);
	if (st == ST_OK && (d->fd < 0 || sock_set_nonblock(d->fd) != ST_OK))
		st = ST_NO_DIALER;
	if (st == ST_OK && by_parent)
		parent_talk(d);
	else
		dial_end(d, st);
}

static enum status
ask_body(struct dial *d, const struct conn *c, enum ask ask, const struct buf *body)
{
	enum status st = body->st;

	if (st == ST_OK)
		st = ask_call(d->line, ask,
			      ASK_LOAD(str_of(body->p, body->len), &c->who_fd, 1),
			      on_answer, d, &d->seq);
	return st == ST_NOMEM || st == ST_OK ? st : ST_NO_DIALER;
}

static enum status
dial_ask(struct dial *d, const struct conn *c, enum policy_way way)
{
	CLEANUP(buf_done) struct buf host = { 0 };
	CLEANUP(buf_done) struct buf body = { 0 };

	buf_init(&host, DEST_NAME_MAX + 8);
	buf_init(&body, DIAL_BODY_MAX);
	dest_put_host(&host, &d->dest);
	if (host.st != ST_OK)
		return host.st;
	wire_put_str(&body, str_of(host.p, host.len));
	buf_put_u16(&body, d->dest.port);
	buf_put_u8(&body, (uint8_t)way);
	return ask_body(d, c, ASK_DIAL, &body);
}

static enum status
dial_new(struct conn *c, const struct dest *dest, dial_fn fn, void *ctx,
	 struct dial **ret_dial)
{
	struct worker *w = c->w;
	struct dial *d;

	/* The row comes with the connection; without a ledger there is none. */
	if (!role_has_ledger(&w->role))
		return ST_NO_LEDGER;
	if (w->dialer == NULL)
		return ST_NO_DIALER;
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return ST_NOMEM;
	d->w = w;
	d->line = w->dialer;
	d->fn = fn;
	d->ctx = ctx;
	d->dest = *dest;
	d->fd = -1;
	d->rule = RULE_NONE;
	*ret_dial = d;
	return ST_OK;
}

/* st: whether it was asked. */
static enum status
dial_begun(struct dial *d, enum status st, struct dial **ret_dial)
{
	if (st != ST_OK) {
		free(d);
		return st;
	}
	d->is_asked = true;
	stats_add(d->w->role.stats, STAT_DIALS, 1);
	*ret_dial = d;
	return ST_OK;
}

enum status
dial_start(struct conn *c, const struct dest *dest, enum policy_way way, dial_fn fn,
	   void *ctx, struct dial **ret_dial)
{
	struct dial *d;
	enum status st = dial_new(c, dest, fn, ctx, &d);

	return st == ST_OK ? dial_begun(d, dial_ask(d, c, way), ret_dial) : st;
}

enum status
dial_reach(struct conn *c, const struct dial_reach *to, dial_fn fn, void *ctx,
	   struct dial **ret_dial)
{
	CLEANUP(buf_done) struct buf body = { 0 };
	struct dial *d;
	enum status st = dial_new(c, to->dest, fn, ctx, &d);

	if (st != ST_OK)
		return st;
	buf_init(&body, DIAL_REACH_MAX);
	wire_put_str(&body, to->server);
	wire_put_str(&body, to->host);
	buf_put_u16(&body, to->dest->port);
	return dial_begun(d, ask_body(d, c, ASK_REACH, &body), ret_dial);
}

void
dial_note(const struct dial_result *r, struct exchange *x)
{
	keep_text(x->address, sizeof(x->address), r->address);
	keep_text(x->country, sizeof(x->country), r->country);
	/* The dialer knows neither method nor path: of two rules for one host it may name
	 * the other one. */
	if (x->way == WAY_HTTP && x->rule != RULE_NONE && r->st != ST_DENIED_RULE)
		return;
	if (r->rule != RULE_NONE)
		x->rule = r->rule;
}

#include "proxy/worker/dial.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "proxy/http/h1_read.h"
#include "proxy/io/ask.h"
#include "proxy/io/sock.h"

enum { DIAL_TEXT_MAX = 64, DIAL_ARENA_MAX = 256 * 1024, DIAL_BODY_MAX = 512 };

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

	/* with a parent proxy */
	struct loop_io io;
	struct loop_timer timer;
	struct h1_read reader;
	struct arena arena;
	bool is_talking;
};

static void
dial_stop_talking(struct dial *d)
{
	if (!d->is_talking)
		return;
	d->is_talking = false;
	loop_io_clear(&d->io);
	loop_timer_clear(&d->timer);
	h1_read_done(&d->reader);
	arena_done(&d->arena);
}

static void
dial_end(struct dial *d, enum status st)
{
	struct dial_result r = { .st = st,
				 .fd = -1,
				 .rule = d->rule,
				 .address = str_from(d->address),
				 .country = str_from(d->country) };

	dial_stop_talking(d);
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
	dial_stop_talking(d);
	if (d->fd >= 0)
		(void)close(d->fd);
	d->fd = -1;
	loop_defer(d->w->loop, free, d);
}

/* The parent's answer is taken exactly up to its end: what follows is the host's. */
static void
on_parent(void *ctx, unsigned events)
{
	struct dial *d = ctx;
	struct head head;
	size_t used = 0;
	ssize_t n = recv(d->fd, d->w->space, WORKER_SPACE, MSG_PEEK);
	enum status st;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		dial_end(d, ST_PARENT_PROXY);
		return;
	}
	st = h1_read_feed(&d->reader, str_of(d->w->space, (size_t)n), &used, &head);
	if (st != ST_OK && st != ST_AGAIN) {
		dial_end(d, ST_PARENT_PROXY);
		return;
	}
	if (recv(d->fd, d->w->space, used, 0) != (ssize_t)used)
		dial_end(d, ST_PARENT_PROXY);
	else if (st == ST_OK)
		dial_end(d, head.status >= 200 && head.status < 300 ? ST_OK
								    : ST_PARENT_PROXY);
}

static void
on_timeout(void *ctx)
{
	dial_end(ctx, ST_CONNECT_TIMEOUT);
}

static enum status
parent_ask(struct dial *d)
{
	struct buf b;
	ssize_t n = -1;

	buf_init(&b, 2048);
	buf_put(&b, STR("CONNECT "));
	dest_put(&b, &d->dest);
	buf_put(&b, STR(" HTTP/1.1\r\nHost: "));
	dest_put(&b, &d->dest);
	buf_put(&b, STR("\r\n\r\n"));
	/* A new connection takes so few bytes whole. */
	if (b.st == ST_OK)
		n = send(d->fd, b.p, b.len, MSG_NOSIGNAL);
	bool is_sent = n == (ssize_t)b.len;
	buf_done(&b);
	return is_sent ? ST_OK : ST_PARENT_PROXY;
}

static void
parent_talk(struct dial *d)
{
	struct h1_limits limits = { .fields = worker_option(d->w, OPT_LIMIT_FIELDS),
				    .line = worker_option(d->w, OPT_LIMIT_LINE),
				    .head = worker_option(d->w, OPT_LIMIT_HEAD) };
	enum status st = parent_ask(d);

	if (st != ST_OK) {
		dial_end(d, st);
		return;
	}
	d->is_talking = true;
	arena_init(&d->arena, DIAL_ARENA_MAX);
	h1_read_response(&d->reader, &d->arena, &limits, METHOD_CONNECT, false);
	loop_io_init(&d->io, d->w->loop, d->fd, on_parent, d);
	loop_io_want(&d->io, LOOP_READ);
	loop_timer_init(&d->timer, d->w->loop, on_timeout, d);
	loop_timer_set(&d->timer, worker_option(d->w, OPT_CONNECT_TIMEOUT));
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
dial_ask(struct dial *d, const struct conn *c, enum policy_way way)
{
	struct buf host, body;
	enum status st;

	buf_init(&host, DEST_NAME_MAX + 8);
	buf_init(&body, DIAL_BODY_MAX);
	dest_put_host(&host, &d->dest);
	wire_put_str(&body, str_of(host.p, host.len));
	buf_put_u16(&body, d->dest.port);
	buf_put_u8(&body, (uint8_t)way);
	st = host.st != ST_OK ? host.st : body.st;
	if (st == ST_OK)
		st = ask_call(d->line, ASK_DIAL,
			      ASK_LOAD(str_of(body.p, body.len), &c->io.fd, 1),
			      on_answer, d, &d->seq);
	buf_done(&host);
	buf_done(&body);
	return st == ST_NOMEM || st == ST_OK ? st : ST_NO_DIALER;
}

enum status
dial_start(struct conn *c, const struct dest *dest, enum policy_way way, dial_fn fn,
	   void *ctx, struct dial **ret_dial)
{
	struct worker *w = c->w;
	struct dial *d;
	enum status st;

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
	st = dial_ask(d, c, way);
	if (st != ST_OK) {
		free(d);
		return st;
	}
	d->is_asked = true;
	stats_add(w->role.stats, STAT_DIALS, 1);
	*ret_dial = d;
	return ST_OK;
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

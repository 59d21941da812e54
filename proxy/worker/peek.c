#include "proxy/worker/peek.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "proxy/http/h2.h"
#include "proxy/http/head.h"
#include "proxy/http/hello.h"
#include "proxy/worker/deny.h"
#include "proxy/worker/meet.h"
#include "proxy/worker/tunnel.h"
#include "proxy/worker/visit.h"

/* INSIDE: what filters may want and a tunnel hides. */
enum {
	PEEK_METHOD_MAX = 24,
	INSIDE = NEEDS_BODY | NEEDS_RESPONSE | NEEDS_RESPONSE_BODY
};

struct peek {
	struct loop_timer timer;
	struct buf bytes;   /* what came so far, if it wasn't enough at once */
	struct buf scratch; /* for a hello cut into records */
};

enum peek_kind { PEEK_MORE, PEEK_TLS, PEEK_HTTP, PEEK_HTTP2, PEEK_OTHER };

static void
peek_free(void *ctx)
{
	struct peek *p = ctx;

	buf_done(&p->bytes);
	buf_done(&p->scratch);
	free(p);
}

static void
peek_done(struct conn *c)
{
	struct peek *p = c->state;

	loop_timer_clear(&p->timer);
	loop_defer(c->w->loop, peek_free, p);
}

static void
peek_judge(struct conn *c)
{
	(void)c; /* nothing is decided yet; what decides will be the newest policy */
}

static const struct conn_owner peek_owner = {
	.name = "peek",
	.judge = peek_judge,
	.drain = conn_close,
	.tick = conn_tick_silent,
	.done = peek_done,
};

static bool
is_method_char(char ch)
{
	return ascii_is_alpha(ch) || ch == '-' || ch == '_';
}

/* What follows a method that we know is HTTP, however wrong: it gets an answer in
 * words.
 */
static bool
is_known_method(struct str s, size_t n)
{
	return (s.p[n] == ' ' || s.p[n] == '\t') &&
	       method_of(str_head(s, n)) != METHOD_OTHER;
}

/* METHOD SP and the first byte of a target; one empty line may stand before. */
static enum peek_kind
kind_of_text(struct str s)
{
	size_t n = 0;

	if (s.p[0] == '\r') {
		if (s.n > 1 && s.p[1] != '\n')
			return PEEK_OTHER;
		s = str_skip(s, 2);
	}
	while (n < s.n && n < PEEK_METHOD_MAX && is_method_char(s.p[n]))
		n++;
	if (n == s.n)
		return PEEK_MORE;
	if (is_known_method(s, n))
		return PEEK_HTTP;
	if (n == 0 || s.p[n] != ' ')
		return PEEK_OTHER;
	if (n + 1 == s.n)
		return PEEK_MORE;
	if (str_starts(STR(H2_PREFACE), s))
		return PEEK_MORE;
	if (str_starts(s, STR(H2_PREFACE)))
		return PEEK_HTTP2;
	return str_has(STR("/*hH"), s.p[n + 1]) ? PEEK_HTTP : PEEK_OTHER;
}

static enum peek_kind
kind_of(struct str s)
{
	if (s.n == 0)
		return PEEK_MORE;
	return hello_could_be(s) ? PEEK_TLS : kind_of_text(s);
}

/* Runs the chain over what was found out; the tunnel or the refusal takes over. */
static void
peek_decide(struct conn *c, enum policy_way way, struct str bytes, enum status spoilt)
{
	struct exchange x;

	conn_exchange(c, &x);
	x.way = way;
	x.dest = &c->dest;
	x.needs_bytes = way == WAY_TLS && (exchange_needs() & INSIDE) != 0;
	if (exchange_run(&x, PHASE_HELLO) != VERDICT_NEXT) {
		if (way != WAY_TLS || !meet_refuse(c, &x, bytes))
			deny(c, &x);
		return;
	}
	/* Ending TLS here ends ECH with it. */
	if (x.action == ACTION_INTERCEPT || (spoilt == ST_ECH && meet_is_trusted(c))) {
		exchange_done(&x);
		meet_start(c, bytes, x.action == ACTION_INTERCEPT);
		return;
	}
	/* Reasons in the bytes themselves come second: that the name isn't allowed at
	 * all is the more useful word. */
	if (spoilt == ST_OK && x.action != ACTION_TUNNEL && x.action != ACTION_TCP)
		spoilt = ST_NEEDS_INTERCEPT;
	if (spoilt != ST_OK) {
		x.reason = spoilt;
		deny(c, &x);
		return;
	}
	tunnel_start(c, &x, bytes);
}

/* The name in the hello is the destination; where one was named before, by the proxy's
 * target or by the synthetic address that DNS gave for it, it must be the same. */
static enum status
hello_dest(struct conn *c, const struct hello *h)
{
	bool is_named = c->is_pinned || dest_is_name(&c->dest);
	struct dest d;
	enum status st;

	if (!h->has_name)
		return ST_NO_SNI;
	st = dest_from_host(h->name, c->dest.port, &d);
	if (st != ST_OK)
		return st;
	if (is_named && !dest_same_host(&d, &c->dest))
		return ST_MISMATCH;
	c->dest = d;
	return ST_OK;
}

/* The row says which name it was that didn't fit. */
static void
deny_name(struct conn *c, enum status reason, struct str name)
{
	struct exchange x;
	struct buf b;

	conn_exchange(c, &x);
	buf_init(&b, 512);
	buf_put(&b, STR("The name in the hello: "));
	buf_put_json(&b, name);
	if (name.n > 0 && b.st == ST_OK)
		x.detail = str_of(b.p, b.len);
	x.dest = &c->dest;
	x.reason = reason;
	deny(c, &x);
	buf_done(&b);
}

static enum status
hello_spoilt(const struct hello *h)
{
	return h->has_ech ? ST_ECH : hello_alpn_check(h);
}

static void
peek_hello(struct conn *c, struct peek *p, struct str bytes)
{
	struct hello h;
	enum status st = hello_peek(bytes, &p->scratch, &h);

	if (st == ST_AGAIN)
		return;
	c->form = FORM_TLS;
	if (st == ST_OK && c->is_own)
		st = ST_DENIED_PROTOCOL; /* our own pages are plain HTTP */
	if (st != ST_OK) {
		deny_because(c, st);
		return;
	}
	st = hello_dest(c, &h);
	if (st != ST_OK)
		deny_name(c, st, h.name);
	else
		peek_decide(c, WAY_TLS, bytes, hello_spoilt(&h));
}

/* Neither TLS nor HTTP: only a tcp rule lets it pass, and that was asked before the
 * first byte; so this is for the observe mode and for the refusal. */
static void
peek_other(struct conn *c, struct str bytes)
{
	struct policy_answer a;

	if (c->is_own || !tunnel_ask_tcp(c, &a)) {
		deny_because(c, c->is_own ? ST_DENIED_PROTOCOL : ST_UNKNOWN_SANDBOX);
		return;
	}
	/* The address was not the sandbox's choice but DNS's: that it isn't allowed as
	 * an address would send nobody the right way. */
	if (a.action == ACTION_DENY &&
	    (a.reason == ST_DENIED || a.reason == ST_IP_LITERAL))
		deny_because(c, ST_DENIED_PROTOCOL);
	else
		peek_decide(c, WAY_TCP, bytes, ST_OK);
}

static void
peek_look(struct conn *c, struct peek *p, struct str bytes)
{
	switch (kind_of(bytes)) {
	case PEEK_MORE:
		break;
	case PEEK_TLS:
		peek_hello(c, p, bytes);
		break;
	case PEEK_HTTP:
	case PEEK_HTTP2: /* prior knowledge, RFC 9113 section 3.3 */
		c->form = FORM_HTTP;
		visit_start(c, bytes);
		break;
	case PEEK_OTHER:
		peek_other(c, bytes);
		break;
	}
}

/* The usual hello comes in one piece and is looked at where it was read. */
static void
peek_take(struct conn *c, struct peek *p, struct str piece)
{
	if (p->bytes.len > 0) {
		buf_put(&p->bytes, piece);
		if (p->bytes.st == ST_OK)
			peek_look(c, p, str_of(p->bytes.p, p->bytes.len));
	} else {
		peek_look(c, p, piece);
		if (c->state == p && !c->is_closed)
			buf_put(&p->bytes, piece);
	}
	if (c->state == p && !c->is_closed && p->bytes.st != ST_OK)
		deny_because(c,
			     p->bytes.st == ST_TOO_BIG ? ST_HELLO_TOO_LARGE : ST_NOMEM);
}

static void
on_read(void *ctx, unsigned events)
{
	struct conn *c = ctx;
	ssize_t n = recv(c->io.fd, c->w->space, WORKER_SPACE, 0);

	(void)events;
	if (n > 0)
		peek_take(c, c->state, str_of(c->w->space, (size_t)n));
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		conn_close(c);
}

static void
on_timeout(void *ctx)
{
	struct conn *c = ctx;

	stats_add(c->w->role.stats, STAT_TIMEOUT_HELLO, 1);
	deny_because(c, ST_TIMEOUT);
}

void
peek_start(struct conn *c, struct str seen)
{
	struct peek *p;

	/* Nobody waits for bytes: the server may be the one that speaks first. */
	if (tunnel_is_tcp(c)) {
		peek_decide(c, WAY_TCP, seen, ST_OK);
		return;
	}
	p = calloc(1, sizeof(*p));
	if (p == NULL) {
		deny_because(c, ST_NOMEM);
		return;
	}
	buf_init(&p->bytes, HELLO_WIRE_MAX + WORKER_SPACE);
	buf_init(&p->scratch, HELLO_MAX);
	loop_timer_init(&p->timer, c->w->loop, on_timeout, c);
	loop_timer_set(&p->timer, worker_option(c->w, OPT_HELLO_TIMEOUT));
	conn_take(c, &peek_owner, p, on_read);
	loop_io_want(&c->io, LOOP_READ);
	if (seen.n > 0)
		peek_take(c, p, seen);
}

#include "proxy/worker/proxy_in.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "proxy/http/socks.h"
#include "proxy/io/synth.h"
#include "proxy/worker/deny.h"
#include "proxy/worker/peek.h"
#include "proxy/worker/proxy_own.h"
#include "proxy/worker/tunnel.h"

enum { PAGES_PORT = 80, SOCKS_VERSION = 5, SOCKS4_VERSION = 4 };

static void
proxy_free(void *ctx)
{
	struct proxy_in *p = ctx;

	buf_done(&p->bytes);
	proxy_http_forget(p);
	free(p);
}

static void
proxy_done(struct conn *c)
{
	struct proxy_in *p = c->state;

	login_cancel(p->login);
	p->login = NULL;
	loop_timer_clear(&p->timer);
	loop_defer(c->w->loop, proxy_free, p);
}

static void
proxy_reload(struct conn *c)
{
	(void)c; /* nothing is decided yet; what decides will be the newest policy */
}

static const struct conn_owner proxy_owner = {
	.name = "proxy_in",
	.judge = proxy_reload,
	.drain = conn_close,
	.tick = conn_tick_silent,
	.done = proxy_done,
};

struct str
proxy_rest(const struct proxy_in *p)
{
	return str_skip(str_of(p->bytes.p, p->bytes.len), p->at);
}

bool
proxy_is_owner(const struct proxy_in *p)
{
	return !p->c->is_closed && p->c->owner == &proxy_owner && p->c->state == p;
}

void
proxy_again(struct proxy_in *p, size_t n)
{
	struct worker *w = p->c->w;

	p->at += n;
	if (p->at == p->bytes.len) {
		buf_clear(&p->bytes);
		p->at = 0;
	}
	proxy_http_forget(p);
	p->state = PROXY_FIRST;
	p->c->form = FORM_CLOSE;
	loop_timer_set(&p->timer, worker_option(w, OPT_KEEPALIVE_TIMEOUT));
}

void
proxy_in_put_welcome(struct buf *b, const struct conn *c)
{
	if (c->form == FORM_CONNECT)
		buf_put(b, STR("HTTP/1.1 200 Connection established\r\n\r\n"));
	if (c->form == FORM_SOCKS)
		socks_put_reply(b, ST_OK);
}

enum verdict
proxy_judge(struct proxy_in *p, const struct dest *d, struct exchange *x)
{
	struct conn *c = p->c;

	c->dest = *d;
	conn_exchange(c, x);
	x->way = WAY_ANY;
	x->dest = &c->dest;
	/* Our own pages are in no policy, and leave nothing out. */
	c->is_own =
		d->port == PAGES_PORT && str_eq(dest_name(d), STR(SYNTH_PAGES_NAME));
	return c->is_own ? VERDICT_NEXT : exchange_run(x, PHASE_HELLO);
}

/* A new connection takes so few bytes whole; one that doesn't isn't worth waiting for.
 */
static bool
send_welcome(struct conn *c)
{
	struct buf words;
	ssize_t n;
	bool is_sent;

	buf_init(&words, 256);
	proxy_in_put_welcome(&words, c);
	n = send(c->io.fd, words.p, words.len, MSG_NOSIGNAL);
	is_sent = words.st == ST_OK && n == (ssize_t)words.len;
	buf_done(&words);
	return is_sent;
}

void
proxy_go(struct proxy_in *p, enum conn_way way, enum conn_form form, size_t n)
{
	struct conn *c = p->c;

	c->way = (uint8_t)way;
	c->form = (uint8_t)form;
	c->is_pinned = true;
	p->at += n;
	/* Behind a tcp rule the success is told when upstream is there: until then a
	 * failure can still be told in words. */
	if (!tunnel_is_tcp(c)) {
		if (!send_welcome(c)) {
			conn_close(c);
			return;
		}
		c->form = FORM_CLOSE;
	}
	peek_start(c, proxy_rest(p));
}

static void
proxy_first(struct proxy_in *p)
{
	uint8_t first = (uint8_t)proxy_rest(p).p[0];

	if (first == SOCKS_VERSION)
		p->state = PROXY_GREETING;
	else if (first == SOCKS4_VERSION)
		deny_because(p->c, ST_BAD_SOCKS);
	else if (ascii_is_alpha((char)first) || first == '\r')
		p->state = PROXY_HTTP;
	else
		deny_because(p->c, ST_DENIED_PROTOCOL);
}

/* Until nothing more can be made of what is there. */
static void
proxy_look(struct proxy_in *p)
{
	for (;;) {
		enum proxy_state was = p->state;
		size_t at = p->at;

		if (p->login != NULL || proxy_rest(p).n == 0)
			return;
		if (was == PROXY_FIRST)
			proxy_first(p);
		else if (was == PROXY_HTTP)
			proxy_http_look(p);
		else
			proxy_socks_look(p);
		if (!proxy_is_owner(p) || (p->state == was && p->at == at))
			return;
	}
}

void
proxy_resume(struct proxy_in *p)
{
	proxy_look(p);
	if (proxy_is_owner(p))
		loop_io_want(&p->c->io, p->login == NULL ? LOOP_READ : 0);
}

static void
proxy_take(struct proxy_in *p, struct str bytes)
{
	struct worker *w = p->c->w;

	if (p->bytes.len == 0)
		loop_timer_set(&p->timer, worker_option(w, OPT_REQUEST_HEAD_TIMEOUT));
	buf_put(&p->bytes, bytes);
	if (p->bytes.st != ST_OK) {
		deny_because(p->c,
			     p->bytes.st == ST_NOMEM ? ST_NOMEM : ST_HEAD_TOO_LARGE);
		return;
	}
	proxy_resume(p);
}

static void
on_read(void *ctx, unsigned events)
{
	struct conn *c = ctx;
	struct proxy_in *p = c->state;
	ssize_t n;

	(void)events;
	if (p->login != NULL) {
		loop_io_want(&c->io, 0);
		return;
	}
	n = recv(c->io.fd, c->w->space, WORKER_SPACE, 0);
	if (n > 0)
		proxy_take(p, str_of(c->w->space, (size_t)n));
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		conn_close(c);
}

static void
on_timeout(void *ctx)
{
	struct proxy_in *p = ctx;

	stats_add(p->c->w->role.stats, STAT_TIMEOUT_HEAD, 1);
	/* Nothing was asked, so nothing is refused: a connection made in advance, or
	 * kept for another try. */
	if (p->bytes.len == 0)
		conn_close(p->c);
	else
		deny_because(p->c, ST_TIMEOUT);
}

void
proxy_in_start(struct conn *c, struct str seen)
{
	struct proxy_in *p = calloc(1, sizeof(*p));

	if (p == NULL) {
		deny_because(c, ST_NOMEM);
		return;
	}
	p->c = c;
	buf_init(&p->bytes, worker_option(c->w, OPT_LIMIT_HEAD) + WORKER_SPACE);
	loop_timer_init(&p->timer, c->w->loop, on_timeout, p);
	loop_timer_set(&p->timer, worker_option(c->w, OPT_REQUEST_HEAD_TIMEOUT));
	conn_take(c, &proxy_owner, p, on_read);
	loop_io_want(&c->io, LOOP_READ);
	if (seen.n > 0)
		proxy_take(p, seen);
}

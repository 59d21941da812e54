#include "proxy/worker/porch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "proxy/flow/shake.h"
#include "proxy/worker/deny.h"
#include "proxy/worker/mint.h"
#include "proxy/worker/veil.h"
#include "proxy/worker/visit.h"

/* Handshakes a second of one address that no sandbox is known by. */
enum { STRANGER_RATE = 100, STRANGER_BURST = 300, HANDSHAKE_RECORD = 0x16 };

struct porch {
	struct conn *c;
	struct loop_timer timer; /* until the handshake begins, which has its own */
	struct buf seen;         /* until the stream has it */
	struct mint_wait wait;
	struct stream stream;
	struct shake shake;
	bool is_again; /* the leaf was of names before a reload: another is asked for */
};

static void
porch_free(void *ctx)
{
	struct porch *p = ctx;

	buf_done(&p->seen);
	free(p);
}

static void
porch_done(struct conn *c)
{
	struct porch *p = c->state;

	loop_timer_clear(&p->timer);
	mint_cancel(&p->wait);
	shake_cancel(&p->shake);
	stream_done(&p->stream);
	loop_defer(c->w->loop, porch_free, p);
}

static void
porch_judge(struct conn *c)
{
	(void)c; /* nothing is decided yet; what decides will be the newest policy */
}

static const struct conn_owner porch_owner = {
	.name = "porch",
	.judge = porch_judge,
	.drain = conn_close,
	.tick = conn_tick_silent,
	.done = porch_done,
};

static const struct image_listener *
listener_of(const struct conn *c)
{
	size_t n;
	const struct image_listener *all = image_listeners(c->w->role.image, &n);

	/* A reload may have taken it away. */
	return c->listener < n && all[c->listener].names_n > 0 ? &all[c->listener]
							       : NULL;
}

static void
on_shaken(void *ctx, enum status st)
{
	struct porch *p = ctx;
	struct conn *c = p->c;
	struct exchange x;

	c->form = FORM_CLOSE; /* TLS has told it, in its own words */
	if (st == ST_OK) {
		c->is_tls = true;
		if (c->way == CONN_EXEC || str_eq(stream_alpn(&p->stream), STR("h2")))
			visit_start_stream(c, &p->stream);
		else
			veil_start(c, &p->stream);
		return;
	}
	if (st == ST_TIMEOUT)
		stats_add(c->w->role.stats, STAT_TIMEOUT_HELLO, 1);
	conn_exchange(c, &x);
	x.reason = st == ST_TIMEOUT ? ST_TIMEOUT : ST_CLIENT_TLS;
	x.detail = str_from(ERR_reason_error_string(ERR_peek_last_error()));
	deny(c, &x);
}

static void
shake(struct porch *p, SSL *ssl)
{
	struct conn *c = p->c;
	enum status st = stream_tls(&p->stream, c->io.fd, ssl, c->w->room);

	if (st == ST_OK)
		st = stream_early(&p->stream, str_of(p->seen.p, p->seen.len));
	if (st != ST_OK) {
		deny_because(c, st);
		return;
	}
	buf_done(&p->seen);
	loop_timer_clear(&p->timer);
	shake_begin(&p->shake, &p->stream, &c->io,
		    worker_option(c->w, OPT_HELLO_TIMEOUT), on_shaken, p);
}

static bool
covers(X509 *cert, struct str name)
{
	const unsigned flags = X509_CHECK_FLAG_NEVER_CHECK_SUBJECT;
	struct addr a;

	if (addr_parse(name, &a))
		return X509_check_ip(cert, a.b, a.family == 4 ? 4 : 16, 0) == 1;
	return X509_check_host(cert, name.p, name.n, flags, NULL) == 1;
}

/* The keeper may have had an older policy when it made it. */
static bool
is_for(SSL *ssl, const struct image *im, const struct image_listener *l)
{
	for (uint32_t i = 0; i < l->names_n; i++)
		if (!covers(SSL_get_certificate(ssl), image_word(im, l->names + i)))
			return false;
	return true;
}

static void on_leaf(void *ctx, enum status st, SSL *ssl);

/* ST_OK: *ret_ssl is there; ST_AGAIN: it will be. */
static enum status
ask(struct porch *p, SSL **ret_ssl)
{
	struct worker *w = p->c->w;
	const struct image_listener *l = listener_of(p->c);

	if (l == NULL)
		return ST_RELOADED;
	p->wait = (struct mint_wait){ .fn = on_leaf, .ctx = p };
	return mint_ask(w->mint, image_str(w->role.image, l->name), MINT_TO_LISTEN,
			&p->wait, ret_ssl);
}

static void
go(struct porch *p, SSL *ssl)
{
	struct worker *w = p->c->w;
	const struct image_listener *l = listener_of(p->c);
	enum status st = ST_RELOADED;

	if (l != NULL && is_for(ssl, w->role.image, l)) {
		shake(p, ssl);
		return;
	}
	SSL_free(ssl);
	ssl = NULL;
	if (!p->is_again) {
		p->is_again = true;
		mint_forget_listeners(w->mint);
		st = ask(p, &ssl);
	}
	if (st == ST_AGAIN)
		return;
	SSL_free(ssl); /* the same one */
	deny_because(p->c, st == ST_OK ? ST_RELOADED : st);
}

static void
on_leaf(void *ctx, enum status st, SSL *ssl)
{
	struct porch *p = ctx;

	if (st == ST_OK)
		go(p, ssl);
	else
		deny_because(p->c, st);
}

/* A signature costs us more than its wish costs others.  Who is known has limits of its
 * own; strangers share those of their address. */
static bool
may_shake(const struct conn *c)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t n = sizeof ss;
	struct addr a;
	uint16_t port;

	if (c->limit != NULL)
		return true;
	if (getpeername(c->io.fd, (struct sockaddr *)&ss, &n) != 0 ||
	    !addr_from_sockaddr((struct sockaddr *)&ss, &a, &port))
		return false;
	return limit_bucket_take(limits_stranger(&c->w->limits, &a),
				 loop_now_ms(c->w->loop), STRANGER_RATE,
				 STRANGER_BURST);
}

static void
begin(struct porch *p, struct str bytes)
{
	struct conn *c = p->c;
	SSL *ssl = NULL;
	enum status st = ST_OK;

	/* What the client sends meanwhile stays in the kernel. */
	loop_io_want(&c->io, 0);
	if (bytes.p[0] != HANDSHAKE_RECORD) {
		c->form = ascii_is_alpha(bytes.p[0]) ? FORM_HTTP : FORM_CLOSE;
		deny_because(c, ST_PLAIN_ON_TLS);
		return;
	}
	c->form = FORM_TLS;
	buf_init(&p->seen, bytes.n);
	buf_put(&p->seen, bytes);
	st = p->seen.st;
	if (st == ST_OK && !may_shake(c))
		st = ST_LIMIT_RATE;
	if (st == ST_OK)
		st = ask(p, &ssl);
	if (st == ST_OK)
		go(p, ssl);
	else if (st != ST_AGAIN)
		deny_because(c, st);
}

static void
on_first(void *ctx, unsigned events)
{
	struct conn *c = ctx;
	struct porch *p = c->state;
	ssize_t n;

	(void)events;
	n = recv(c->io.fd, c->w->space, WORKER_SPACE, 0);
	if (n > 0)
		begin(p, str_of(c->w->space, (size_t)n));
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		conn_close(c);
}

static void
on_timeout(void *ctx)
{
	struct porch *p = ctx;

	stats_add(p->c->w->role.stats, STAT_TIMEOUT_HELLO, 1);
	/* Who said nothing asked for nothing. */
	if (p->c->form == FORM_CLOSE)
		conn_close(p->c);
	else
		deny_because(p->c, ST_TIMEOUT);
}

void
porch_start(struct conn *c)
{
	struct porch *p = calloc(1, sizeof *p);

	c->form = FORM_CLOSE;
	if (p == NULL) {
		deny_because(c, ST_NOMEM);
		return;
	}
	p->c = c;
	p->stream.fd = -1;
	loop_timer_init(&p->timer, c->w->loop, on_timeout, p);
	loop_timer_set(&p->timer, worker_option(c->w, OPT_HELLO_TIMEOUT));
	conn_take(c, &porch_owner, p, on_first);
	loop_io_want(&c->io, LOOP_READ);
}

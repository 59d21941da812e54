#include "proxy/worker/meet.h"

#include <stdlib.h>

#include <openssl/err.h>

#include "proxy/flow/shake.h"
#include "proxy/worker/deny.h"
#include "proxy/worker/mint.h"
#include "proxy/worker/visit.h"

struct meet {
	struct conn *c;
	struct buf seen; /* until the stream has it */
	struct mint_wait wait;
	struct stream stream;
	struct shake shake;
	uint64_t begun_ms;
	enum mint_why why;
};

/* New names a second, of one sandbox. */
enum { MINTS_RATE = 10, MINTS_BURST = 50, REFUSALS_RATE = 5, REFUSALS_BURST = 20 };

static void
meet_free(void *ctx)
{
	struct meet *m = ctx;

	buf_done(&m->seen);
	free(m);
}

static void
meet_done(struct conn *c)
{
	struct meet *m = c->state;

	mint_cancel(&m->wait);
	shake_cancel(&m->shake);
	stream_done(&m->stream);
	loop_defer(c->w->loop, meet_free, m);
}

static void
meet_judge(struct conn *c)
{
	(void)c; /* each request will be, by the newest policy */
}

static uint64_t
patience(const struct conn *c)
{
	return worker_option(c->w, OPT_HELLO_TIMEOUT);
}

static void
meet_tick(struct conn *c)
{
	const struct meet *m = c->state;

	/* A handshake has a clock of its own. */
	if (!m->wait.is_waiting || loop_now_ms(c->w->loop) - m->begun_ms <= patience(c))
		return;
	stats_add(c->w->role.stats, STAT_TIMEOUT_HELLO, 1);
	deny_because(c, ST_TIMEOUT);
}

static const struct conn_owner meet_owner = {
	.name = "meet",
	.judge = meet_judge,
	.drain = conn_close,
	.tick = meet_tick,
	.done = meet_done,
};

bool
meet_is_trusted(const struct conn *c)
{
	const struct who *who = conn_who(c);

	return who != NULL && who->trusts_ca;
}

/* The handshake didn't come about.  What was refused before it stays the reason. */
static void
fail(struct meet *m, enum status why)
{
	struct conn *c = m->c;
	struct exchange x;

	conn_exchange(c, &x);
	x.dest = &c->dest;
	x.way = WAY_TLS;
	if (m->why != MINT_TO_REFUSE || exchange_run(&x, PHASE_HELLO) == VERDICT_NEXT) {
		const char *words = ERR_reason_error_string(ERR_peek_last_error());
		x.reason = why == ST_TIMEOUT ? ST_TIMEOUT : ST_CLIENT_TLS;
		x.detail = str_from(words);
	}
	if (why == ST_TIMEOUT)
		stats_add(c->w->role.stats, STAT_TIMEOUT_HELLO, 1);
	c->form = FORM_CLOSE; /* TLS has told it, in its own words */
	deny(c, &x);
}

/* Did OpenSSL find the same name in the hello as we did?  There must be no second
 * parser with another opinion. */
static bool
is_same_name(const struct meet *m)
{
	const char *name = SSL_get_servername(m->stream.ssl, TLSEXT_NAMETYPE_host_name);
	struct dest d;

	return dest_from_host(str_from(name), m->c->dest.port, &d) == ST_OK &&
	       dest_same_host(&d, &m->c->dest);
}

static void
on_shaken(void *ctx, enum status st)
{
	struct meet *m = ctx;
	struct conn *c = m->c;

	if (st != ST_OK) {
		fail(m, st);
		return;
	}
	c->form = FORM_CLOSE; /* plain bytes would be noise; the visit tells inside */
	if (is_same_name(m))
		visit_start_stream(c, &m->stream);
	else
		deny_because(c, ST_MISMATCH);
}

static void
shake(struct meet *m, SSL *ssl)
{
	struct conn *c = m->c;
	enum status st = stream_tls(&m->stream, c->io.fd, ssl, c->w->room);

	if (st == ST_OK)
		st = stream_early(&m->stream, str_of(m->seen.p, m->seen.len));
	if (st != ST_OK) {
		deny_because(c, st);
		return;
	}
	buf_done(&m->seen);
	shake_begin(&m->shake, &m->stream, &c->io, patience(c), on_shaken, m);
}

static void
on_leaf(void *ctx, enum status st, SSL *ssl)
{
	struct meet *m = ctx;

	if (st == ST_OK)
		shake(m, ssl);
	else
		deny_because(m->c, st);
}

/* What the sandbox sends meanwhile stays in the kernel. */
static void
on_early(void *ctx, unsigned events)
{
	struct conn *c = ctx;

	(void)events;
	loop_io_want(&c->io, 0);
}

static enum status
ask(struct meet *m)
{
	struct conn *c = m->c;
	struct mint *mint = c->w->mint;
	struct str host = dest_name(&c->dest);
	SSL *ssl = NULL;

	if (!mint_has(mint, host, m->why) &&
	    !limit_bucket_take(&c->limit->mints, m->begun_ms, MINTS_RATE, MINTS_BURST))
		return ST_LIMIT_RATE;
	m->wait.fn = on_leaf;
	m->wait.ctx = m;
	enum status st = mint_ask(mint, host, m->why, &m->wait, &ssl);
	if (st == ST_OK)
		shake(m, ssl);
	return st == ST_AGAIN ? ST_OK : st;
}

static void
begin(struct conn *c, enum mint_why why, struct str seen)
{
	struct meet *m = calloc(1, sizeof *m);
	enum status st = m == NULL ? ST_NOMEM : ST_OK;

	if (st == ST_OK) {
		m->c = c;
		m->why = why;
		m->begun_ms = loop_now_ms(c->w->loop);
		buf_init(&m->seen, seen.n);
		buf_put(&m->seen, seen);
		st = m->seen.st;
		conn_take(c, &meet_owner, m, on_early);
	}
	if (st == ST_OK)
		st = ask(m);
	if (st != ST_OK)
		deny_because(c, st);
}

void
meet_start(struct conn *c, struct str seen, bool is_policy)
{
	/* A leaf to intercept with is given for names that the policy says so of. */
	begin(c, is_policy ? MINT_TO_INTERCEPT : MINT_TO_REFUSE, seen);
}

bool
meet_refuse(struct conn *c, struct exchange *x, struct str seen)
{
	if (!meet_is_trusted(c) || c->limit == NULL ||
	    !limit_bucket_take(&c->limit->refusals, loop_now_ms(c->w->loop),
			       REFUSALS_RATE, REFUSALS_BURST))
		return false;
	exchange_done(x);
	begin(c, MINT_TO_REFUSE, seen);
	return true;
}

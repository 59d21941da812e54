#include "proxy/worker/mint.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>

#include "proxy/base/clock.h"
#include "proxy/base/map.h"
#include "proxy/flow/tls_server.h"
#include "proxy/io/wire.h"

enum {
	KEPT_MAX = 1000,    /* leaves to intercept with */
	REFUSALS_MAX = 100, /* and to refuse with */
	LISTENERS_MAX = 256,
	HOST_MAX = 255,
	CHAIN_MAX = 4, /* certificates in one answer */
	POINT = 65,    /* X9.62, uncompressed */
	EARLY_S = 600, /* a leaf is not used in its last minutes */
	AGAIN_MS = 40, /* the table of asks allows no more just now */
	US = 1000000,
};

struct shelf {
	struct map by_host;
	struct list order; /* of leaves that are there, least used first */
	size_t max;
	enum mint_why why;
};

struct leaf {
	struct list link;  /* shelf->order, mint->later, or in none: it is asked for */
	struct list waits; /* struct mint_wait */
	struct mint *mint;
	struct shelf *shelf;
	X509 *cert; /* NULL: not there yet */
	STACK_OF(X509) * chain;
	uint64_t from_us, until_us; /* wall clock */
	bool is_told;               /* its waiters are, just now */
	bool is_passing;            /* not to be kept */
	size_t host_n;
	char host[HOST_MAX];
};

struct mint {
	struct loop *loop;
	struct ask_line *const *keeper;
	SSL_CTX *ctx;
	EVP_PKEY *key;
	unsigned char point[POINT];
	struct shelf shelves[MINT_WHYS];
	struct list later; /* leaves that could not be asked for yet */
	struct loop_timer again;
};

static struct str
host_of(const struct leaf *l)
{
	return str_of(l->host, l->host_n);
}

static void
leaf_free(struct leaf *l)
{
	list_remove(&l->link);
	X509_free(l->cert);
	sk_X509_pop_free(l->chain, X509_free);
	free(l);
}

static void
leaf_drop(struct leaf *l)
{
	(void)map_take(&l->shelf->by_host, host_of(l));
	leaf_free(l);
}

/* Handing out. */

static enum status
leaf_ssl(const struct leaf *l, SSL **ret_ssl)
{
	SSL *ssl = SSL_new(l->mint->ctx);

	if (ssl == NULL ||
	    SSL_use_cert_and_key(ssl, l->cert, l->mint->key, l->chain, 1) != 1) {
		SSL_free(ssl);
		ERR_clear_error();
		return ST_NOMEM;
	}
	SSL_set_accept_state(ssl);
	*ret_ssl = ssl;
	return ST_OK;
}

/* Each may do anything with its own connection, and ask for leaves. */
static void
leaf_tell(struct leaf *l, enum status why)
{
	struct list *it;

	l->is_told = true;
	while ((it = list_pop(&l->waits)) != NULL) {
		struct mint_wait *w = LIST_OF(it, struct mint_wait, link);
		SSL *ssl = NULL;
		enum status st = why == ST_OK ? leaf_ssl(l, &ssl) : why;
		w->is_waiting = false;
		w->fn(w->ctx, st, ssl);
	}
	l->is_told = false;
}

static void
leaf_failed(struct leaf *l, enum status why)
{
	/* Who asks for it while the others are told gets a new one. */
	(void)map_take(&l->shelf->by_host, host_of(l));
	leaf_tell(l, why);
	leaf_free(l);
}

/* Asking. */

/* Seconds from now to then; 0: that is no time. */
static int64_t
seconds_to(const ASN1_TIME *then)
{
	int days = 0, seconds = 0;

	if (ASN1_TIME_diff(&days, &seconds, NULL, then) != 1)
		return 0;
	return (int64_t)days * 86400 + seconds;
}

/* Seconds that it is still good for. */
static int64_t
rest_of(const X509 *cert)
{
	return seconds_to(X509_get0_notAfter(cert));
}

static X509 *
take_certificate(struct wire *w)
{
	struct str der = wire_str(w);
	const unsigned char *p = (const unsigned char *)der.p;
	X509 *x = d2i_X509(NULL, &p, (long)der.n);

	if (x != NULL && p != (const unsigned char *)der.p + der.n) {
		X509_free(x);
		return NULL;
	}
	return x;
}

static enum status
take_chain(struct leaf *l, struct wire *w)
{
	size_t n = wire_u8(w);

	if (n == 0 || n > CHAIN_MAX)
		return ST_BAD_MESSAGE;
	l->cert = take_certificate(w);
	l->chain = sk_X509_new_null();
	for (size_t i = 1; i < n && l->cert != NULL && l->chain != NULL; i++) {
		X509 *x = take_certificate(w);
		if (x == NULL || sk_X509_push(l->chain, x) <= 0) {
			X509_free(x);
			return ST_BAD_MESSAGE;
		}
	}
	if (l->cert == NULL || l->chain == NULL || wire_end(w) != ST_OK)
		return ST_BAD_MESSAGE;
	return X509_check_private_key(l->cert, l->mint->key) == 1 ? ST_OK
								  : ST_BAD_MESSAGE;
}

static enum status
take_answer(struct leaf *l, struct str body)
{
	struct wire w = wire_from(body);
	uint16_t told = wire_u16(&w);
	enum status st = told < ST_COUNT ? (enum status)told : ST_BAD_MESSAGE;
	int64_t rest;

	if (st != ST_OK)
		return st;
	st = w.is_bad ? ST_BAD_MESSAGE : take_chain(l, &w);
	ERR_clear_error();
	if (st != ST_OK)
		return st;
	rest = rest_of(l->cert);
	if (rest <= 0)
		return ST_BAD_MESSAGE;
	/* A short one is used for half its time, whatever the rest. */
	rest -= rest > (time_t)2 * EARLY_S ? EARLY_S : rest / 2;
	l->until_us = clock_wall_us() + (uint64_t)rest * US;
	l->from_us = clock_wall_us() +
		     (uint64_t)seconds_to(X509_get0_notBefore(l->cert)) * US;
	return ST_OK;
}

static void
make_room(struct shelf *s)
{
	if (s->by_host.len >= s->max && !list_is_empty(&s->order))
		leaf_drop(LIST_OF(s->order.next, struct leaf, link));
}

static void
on_answer(void *ctx, enum status st, struct ask_msg *m)
{
	struct leaf *l = ctx;

	if (st == ST_OK)
		st = take_answer(l, m->body);
	else
		st = ST_NO_KEEPER; /* too late, or gone */
	if (st != ST_OK) {
		leaf_failed(l, st);
		return;
	}
	leaf_tell(l, ST_OK);
	if (l->is_passing)
		leaf_drop(l);
	else
		list_append(&l->shelf->order, &l->link);
}

static enum status
send_ask(struct leaf *l)
{
	struct mint *m = l->mint;
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str body;
	enum status st;

	if (*m->keeper == NULL)
		return ST_NO_KEEPER;
	buf_init(&b, HOST_MAX + POINT + 16);
	wire_put_str(&b, host_of(l));
	buf_put_u8(&b, (uint8_t)l->shelf->why);
	buf_put(&b, str_of(m->point, POINT));
	st = buf_finish(&b, &body);
	if (st == ST_OK)
		st = ask_call(*m->keeper, ASK_MINT, ASK_LOAD(body, NULL, 0), on_answer,
			      l, NULL);
	return st == ST_END ? ST_NO_KEEPER : st;
}

/* True: it is asked for, or will be. */
static enum status
leaf_ask(struct leaf *l)
{
	struct mint *m = l->mint;
	enum status st = send_ask(l);

	if (st != ST_LIMIT_RATE && st != ST_AGAIN)
		return st;
	list_append(&m->later, &l->link);
	if (!loop_timer_is_set(&m->again))
		loop_timer_set(&m->again, AGAIN_MS);
	return ST_OK;
}

static void
on_again(void *ctx)
{
	struct mint *m = ctx;
	struct list now, *it;

	list_init(&now);
	while ((it = list_pop(&m->later)) != NULL)
		list_append(&now, it);
	while ((it = list_pop(&now)) != NULL) {
		struct leaf *l = LIST_OF(it, struct leaf, link);
		if (list_is_empty(&l->waits)) { /* they had no patience */
			leaf_drop(l);
			continue;
		}
		enum status st = leaf_ask(l);
		if (st != ST_OK)
			leaf_failed(l, st);
	}
}

static enum status
leaf_new(struct mint *m, struct shelf *s, struct str host, struct leaf **ret_l)
{
	struct leaf *l = calloc(1, sizeof *l);
	enum status st;

	if (l == NULL)
		return ST_NOMEM;
	list_init(&l->link);
	list_init(&l->waits);
	l->mint = m;
	l->shelf = s;
	l->host_n = host.n;
	memcpy(l->host, host.p, host.n);
	make_room(s);
	st = map_put(&s->by_host, host, l);
	if (st != ST_OK) {
		free(l);
		/* As many are being asked for as may be kept. */
		return st == ST_TOO_BIG ? ST_LIMIT_RATE : st;
	}
	*ret_l = l;
	return ST_OK;
}

/* A clock that was ahead and is set back leaves some that nobody takes for long. */
static bool
is_stale(const struct leaf *l)
{
	uint64_t now = clock_wall_us();

	return l->cert != NULL && !l->is_told &&
	       (now < l->from_us || now >= l->until_us);
}

static void
shelf_forget(struct shelf *s)
{
	size_t at = 0;
	struct str host;
	void *l;

	list_each_safe (it, &s->order)
		leaf_drop(LIST_OF(it, struct leaf, link));
	while (map_next(&s->by_host, &at, &host, &l))
		((struct leaf *)l)->is_passing = true;
}

void
mint_forget(struct mint *m)
{
	for (size_t i = 0; i < MINT_WHYS; i++)
		shelf_forget(&m->shelves[i]);
}

void
mint_forget_listeners(struct mint *m)
{
	shelf_forget(&m->shelves[MINT_TO_LISTEN]);
}

bool
mint_has(const struct mint *m, struct str host, enum mint_why why)
{
	const struct leaf *l = map_get(&m->shelves[why].by_host, host);

	return l != NULL && !is_stale(l);
}

enum status
mint_ask(struct mint *m, struct str host, enum mint_why why, struct mint_wait *wait,
	 SSL **ret_ssl)
{
	struct shelf *s = &m->shelves[why];
	struct leaf *l;
	enum status st = ST_OK;

	need(wait->fn != NULL && !wait->is_waiting);
	if (host.n == 0 || host.n > HOST_MAX)
		return ST_BAD_HOST;
	l = map_get(&s->by_host, host);
	if (l != NULL && is_stale(l)) {
		leaf_drop(l);
		l = NULL;
	}
	if (l != NULL && l->cert != NULL) {
		if (!l->is_told) {
			list_remove(&l->link);
			list_append(&s->order, &l->link);
		}
		return leaf_ssl(l, ret_ssl);
	}
	if (l == NULL) {
		st = leaf_new(m, s, host, &l);
		if (st != ST_OK)
			return st;
		st = leaf_ask(l);
	}
	if (st != ST_OK) {
		leaf_drop(l);
		return st;
	}
	wait->is_waiting = true;
	list_append(&l->waits, &wait->link);
	return ST_AGAIN;
}

void
mint_cancel(struct mint_wait *wait)
{
	if (!wait->is_waiting)
		return;
	list_remove(&wait->link);
	wait->is_waiting = false;
}

/* The worker's own. */

static enum status
make_key(struct mint *m)
{
	size_t n = 0;

	m->key = EVP_EC_gen("P-256");
	if (m->key == NULL ||
	    EVP_PKEY_get_octet_string_param(m->key, "pub", m->point, POINT, &n) != 1)
		return ST_SYSTEM;
	return n == POINT ? ST_OK : ST_INTERNAL;
}

static void
shelf_init(struct shelf *s, enum mint_why why, size_t max)
{
	map_init(&s->by_host, max);
	list_init(&s->order);
	s->max = max;
	s->why = why;
}

enum status
mint_new(struct loop *loop, struct ask_line *const *keeper, struct mint **ret_m)
{
	struct mint *m = calloc(1, sizeof *m);
	enum status st;

	if (m == NULL)
		return ST_NOMEM;
	m->loop = loop;
	m->keeper = keeper;
	list_init(&m->later);
	shelf_init(&m->shelves[MINT_TO_INTERCEPT], MINT_TO_INTERCEPT, KEPT_MAX);
	shelf_init(&m->shelves[MINT_TO_REFUSE], MINT_TO_REFUSE, REFUSALS_MAX);
	shelf_init(&m->shelves[MINT_TO_LISTEN], MINT_TO_LISTEN, LISTENERS_MAX);
	loop_timer_init(&m->again, loop, on_again, m);
	st = make_key(m);
	if (st == ST_OK)
		st = tls_server_new(&m->ctx);
	if (st != ST_OK) {
		mint_free(m);
		return st;
	}
	*ret_m = m;
	return ST_OK;
}

static void
shelf_done(struct shelf *s)
{
	size_t at = 0;
	struct str host;
	void *l;

	while (map_next(&s->by_host, &at, &host, &l)) {
		need(list_is_empty(&((struct leaf *)l)->waits));
		leaf_free(l);
	}
	map_done(&s->by_host);
}

void
mint_free(struct mint *m)
{
	if (m == NULL)
		return;
	loop_timer_clear(&m->again);
	for (size_t i = 0; i < MINT_WHYS; i++)
		shelf_done(&m->shelves[i]);
	SSL_CTX_free(m->ctx);
	EVP_PKEY_free(m->key);
	free(m);
}

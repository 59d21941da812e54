#include <sys/socket.h>

#include "proxy/http/h2.h"
#include "proxy/worker/deny.h"
#include "proxy/worker/proxy_own.h"
#include "proxy/worker/visit.h"

enum { PROXY_ANSWER_MAX = 20480 };

void
proxy_http_forget(struct proxy_in *p)
{
	if (!p->is_reading)
		return;
	p->is_reading = false;
	p->fed = 0;
	h1_read_done(&p->reader);
	arena_done(&p->arena);
}

static bool
is_connect(const struct proxy_in *p)
{
	return p->head.method_id == METHOD_CONNECT;
}

/* What stands behind a refused CONNECT may be meant for the tunnel, and behind a body
 * for nobody: only without either can another request be told from it. */
static bool
may_keep(const struct proxy_in *p)
{
	if (!p->head.is_persistent || p->tries > LOGIN_TRIES_MAX ||
	    worker_is_draining(p->c->w))
		return false;
	return is_connect(p) ? proxy_rest(p).n == p->fed : p->head.body == BODY_NONE;
}

/* Refuse; keep the connection for another try if that is unambiguous. */
static void
refuse(struct proxy_in *p, struct exchange *x)
{
	struct conn *c = p->c;
	struct buf words;
	size_t used = p->fed;
	ssize_t n;

	p->tries++;
	c->form = FORM_HTTP;
	if (!may_keep(p)) {
		deny(c, x);
		return;
	}
	buf_init(&words, PROXY_ANSWER_MAX);
	deny_put_http(&words, c->w->role.image, x, deny_record(c, x), true);
	exchange_done(x);
	n = send(c->io.fd, words.p, words.len, MSG_NOSIGNAL);
	if (words.st != ST_OK || n != (ssize_t)words.len)
		conn_close(c);
	buf_done(&words);
	if (c->is_closed)
		return;
	c->dest.port = 0;
	proxy_again(p, used);
}

static void
refuse_because(struct proxy_in *p, enum status reason)
{
	struct exchange x;

	conn_exchange(p->c, &x);
	x.reason = reason;
	refuse(p, &x);
}

enum status
proxy_connect_dest(const struct head *h, struct dest *ret_d)
{
	const struct field *host = head_get(h, TOKEN_HOST);
	struct dest target, named;
	enum status st = dest_from_authority(h->target, 0, &target);

	if (st != ST_OK)
		return st;
	if (host != NULL) {
		st = dest_from_authority(host->value, target.port, &named);
		if (st != ST_OK)
			return st;
		if (named.port != target.port || !dest_same_host(&target, &named))
			return ST_MISMATCH;
	}
	*ret_d = target;
	return ST_OK;
}

static void
connect_start(struct proxy_in *p)
{
	struct conn *c = p->c;
	struct exchange x;
	struct dest d;
	enum status st = proxy_connect_dest(&p->head, &d);

	if (st != ST_OK) {
		c->form = FORM_HTTP;
		deny_because(c, st);
		return;
	}
	if (proxy_judge(p, &d, &x) != VERDICT_NEXT) {
		x.method = p->head.method;
		refuse(p, &x);
		return;
	}
	exchange_done(&x);
	proxy_go(p, CONN_CONNECT, FORM_CONNECT, p->fed);
}

/* The head is there and the sandbox is known. */
static void
http_start(struct proxy_in *p)
{
	if (is_connect(p))
		connect_start(p);
	else
		visit_start(p->c, proxy_rest(p));
}

static void
on_login(void *ctx, enum status st)
{
	struct proxy_in *p = ctx;

	p->login = NULL;
	if (st == ST_OK)
		login_keep(p->c, &p->head);
	if (st == ST_OK)
		http_start(p);
	else if (p->c->limit == NULL)
		refuse_because(p, st);
	else /* known, but over a limit: it must not stay as one that passed it */
		deny_because(p->c, st);
	if (proxy_is_owner(p))
		proxy_resume(p);
}

static void
http_login(struct proxy_in *p)
{
	enum status st = login_by_head(p->c, &p->head, on_login, p, &p->login);

	if (st != ST_OK)
		refuse_because(p, st);
}

static void
http_read(struct proxy_in *p)
{
	struct worker *w = p->c->w;
	struct h1_limits limits = { .fields = worker_option(w, OPT_LIMIT_FIELDS),
				    .line = worker_option(w, OPT_LIMIT_LINE),
				    .head = worker_option(w, OPT_LIMIT_HEAD) };
	size_t used = 0;
	enum status st;

	if (!p->is_reading) {
		p->is_reading = true;
		p->fed = 0;
		arena_init(&p->arena, 4 * limits.head);
		h1_read_request(&p->reader, &p->arena, &limits);
	}
	st = h1_read_feed(&p->reader, str_skip(proxy_rest(p), p->fed), &used, &p->head);
	if (st != ST_OK && st != ST_AGAIN) {
		p->c->form = FORM_HTTP;
		deny_because(p->c, st);
		return;
	}
	p->fed += used;
	if (st == ST_AGAIN)
		return;
	if (p->c->limit == NULL) {
		http_login(p);
		return;
	}
	st = login_check(p->c, &p->head);
	if (st != ST_OK)
		refuse_because(p, st);
	else
		http_start(p);
}

/* Does s begin with word, as far as both go? */
static bool
could_be(struct str s, struct str word)
{
	return str_starts(s, str_head(word, s.n)) || str_starts(s, word);
}

static void
http2_look(struct proxy_in *p, struct str s)
{
	bool is_preface = could_be(s, STR(H2_PREFACE));

	if (is_preface && s.n < sizeof(H2_PREFACE) - 1)
		return;
	if (is_preface)
		visit_start(p->c, s);
	else
		deny_because(p->c, ST_BAD_VERSION);
}

void
proxy_http_look(struct proxy_in *p)
{
	struct str s = proxy_rest(p);

	p->c->form = FORM_HTTP;
	if (str_starts(s, STR("\r\n")))
		s = str_skip(s, 2);
	if (could_be(s, STR("PRI * HTTP/2"))) {
		http2_look(p, s);
		return;
	}
	/* A known sandbox's plain request is the turn engine's from its first byte. */
	if (p->c->limit != NULL && !could_be(s, STR("CONNECT ")))
		visit_start(p->c, proxy_rest(p));
	else if (p->c->limit == NULL || s.n >= sizeof("CONNECT ") - 1)
		http_read(p);
}

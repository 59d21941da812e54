#include <sys/socket.h>

#include "proxy/http/socks.h"
#include "proxy/worker/deny.h"
#include "proxy/worker/proxy_own.h"

/* False: the peer doesn't even take two bytes. */
static bool
say(struct proxy_in *p, const struct buf *words)
{
	ssize_t n = send(p->c->io.fd, words->p, words->len, MSG_NOSIGNAL);

	if (words->st == ST_OK && n == (ssize_t)words->len)
		return true;
	conn_close(p->c);
	return false;
}

static bool
say_method(struct proxy_in *p, uint8_t method)
{
	struct buf b;
	bool is_said;

	buf_init(&b, 16);
	socks_put_method(&b, method);
	is_said = say(p, &b);
	buf_done(&b);
	return is_said;
}

static bool
say_login(struct proxy_in *p, bool is_good)
{
	struct buf b;
	bool is_said;

	buf_init(&b, 16);
	socks_put_login(&b, is_good);
	is_said = say(p, &b);
	buf_done(&b);
	return is_said;
}

static enum status
no_method(const struct proxy_in *p)
{
	return p->c->limit == NULL && !login_is_possible(p->c->w->role.image)
		       ? ST_UNKNOWN_SANDBOX
		       : ST_AUTH_REQUIRED;
}

static void
look_greeting(struct proxy_in *p)
{
	struct socks_greeting g;
	enum status st = socks_read_greeting(proxy_rest(p), &g);
	bool is_known = p->c->limit != NULL;

	if (st == ST_AGAIN)
		return;
	if (st != ST_OK) {
		deny_because(p->c, st);
		return;
	}
	if (is_known && g.offers_none) {
		if (say_method(p, SOCKS_NONE))
			p->state = PROXY_REQUEST;
	} else if (g.offers_password &&
		   (is_known || login_is_possible(p->c->w->role.image))) {
		if (say_method(p, SOCKS_PASSWORD))
			p->state = PROXY_LOGIN;
	} else if (say_method(p, SOCKS_NO_METHOD)) {
		deny_because(p->c, no_method(p));
		return;
	}
	p->at += g.size;
}

static void
end_login(struct proxy_in *p, enum status st)
{
	if (!say_login(p, st == ST_OK))
		return;
	if (st == ST_OK)
		p->state = PROXY_REQUEST;
	else
		deny_because(p->c, st); /* RFC 1929 section 2: the server closes */
}

static void
on_login(void *ctx, enum status st)
{
	struct proxy_in *p = ctx;

	p->login = NULL;
	end_login(p, st);
	if (proxy_is_owner(p))
		proxy_resume(p);
}

static void
look_login(struct proxy_in *p)
{
	struct socks_login l;
	enum status st = socks_read_login(proxy_rest(p), &l);

	if (st == ST_AGAIN)
		return;
	if (st != ST_OK) {
		deny_because(p->c, st);
		return;
	}
	p->at += l.size;
	/* Who is known by its socket may say what it likes here. */
	if (p->c->limit != NULL) {
		end_login(p, ST_OK);
		return;
	}
	st = login_start(p->c, l.user, l.password, on_login, p, &p->login);
	if (st != ST_OK)
		end_login(p, st);
}

static void
look_request(struct proxy_in *p)
{
	struct socks_request r;
	struct exchange x;
	struct dest d;
	enum status st = socks_read_request(proxy_rest(p), &r);

	if (st == ST_AGAIN)
		return;
	p->c->form = FORM_SOCKS;
	if (st == ST_OK)
		st = r.addr.family != 0 ? dest_from_addr(&r.addr, r.port, &d)
					: dest_from_host(r.name, r.port, &d);
	if (st != ST_OK) {
		deny_because(p->c, st);
		return;
	}
	if (proxy_judge(p, &d, &x) != VERDICT_NEXT) {
		deny(p->c, &x);
		return;
	}
	exchange_done(&x);
	proxy_go(p, CONN_SOCKS, FORM_SOCKS, r.size);
}

void
proxy_socks_look(struct proxy_in *p)
{
	if (p->state == PROXY_GREETING)
		look_greeting(p);
	else if (p->state == PROXY_LOGIN)
		look_login(p);
	else
		look_request(p);
}

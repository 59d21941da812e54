/* conn, its beginnings: from a listener, or out of another connection. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/io/sock.h"
#include "proxy/io/synth.h"
#include "proxy/worker/conn.h"
#include "proxy/worker/deny.h"
#include "proxy/worker/exec_in.h"
#include "proxy/worker/peek.h"
#include "proxy/worker/porch.h"
#include "proxy/worker/proxy_in.h"

/* One address: at most this part of all connections. */
enum { EXEC_PEER_SHARE = 4 };

/* Where a transparent connection was meant to go. */
static enum status
conn_origin(struct conn *c)
{
	char space[SYNTH_NAME_MAX];
	struct str name;
	struct addr a;
	uint16_t port;
	enum status st = sock_original(c->io.fd, &a, &port);

	if (st != ST_OK)
		return st;
	if (!synth_is_address(&a) || c->w->synth == NULL)
		return dest_from_addr(&a, port, &c->dest);
	st = synth_find(c->w->synth, str_from(c->limit->id), &a, space, &name);
	if (st ==
	    ST_NOT_FOUND) /* a made-up one: it is nothing but a benchmark address */
		return dest_from_addr(&a, port, &c->dest);
	if (st != ST_OK)
		return st;
	c->is_own = str_eq(name, STR(SYNTH_PAGES_NAME));
	return dest_from_host(name, port, &c->dest);
}

/* The only thing known about it: the operator who forgot to register it looks for that.
 */
static void
deny_stranger(struct conn *c)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t n = sizeof(ss);
	struct exchange x;
	struct buf b;
	struct addr a;
	uint16_t port;

	conn_exchange(c, &x);
	buf_init(&b, 64);
	if (getpeername(c->io.fd, (struct sockaddr *)&ss, &n) == 0 &&
	    addr_from_sockaddr((struct sockaddr *)&ss, &a, &port)) {
		buf_put(&b, STR("from "));
		addr_put(&b, &a);
	}
	if (b.st == ST_OK)
		x.detail = str_of(b.p, b.len);
	x.reason = ST_UNKNOWN_SANDBOX;
	deny(c, &x);
	buf_done(&b);
}

static void
conn_begin_transparent(struct conn *c, const struct who *who)
{
	enum status st;

	if (who == NULL) {
		deny_stranger(c);
		return;
	}
	st = conn_identify(c, who);
	if (st == ST_OK)
		st = conn_origin(c);
	if (st != ST_OK)
		deny_because(c, st);
	else
		peek_start(c, (struct str){ 0 });
}

/* Over the worker's own limit nothing is allocated for it. */
static void
turn_away(struct worker *w, int fd)
{
	struct linger at_once = { .l_onoff = 1, .l_linger = 0 };

	stats_add(w->role.stats, STAT_LIMIT_CONNECTIONS, 1);
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	(void)close(fd);
}

/* NULL: over the limit of all, or no memory; fd is closed. */
static struct conn *
conn_new(struct worker *w, int fd, uint16_t listener, enum conn_way way)
{
	bool fits =
		limits_admit(&w->limits, worker_option(w, OPT_LIMIT_ALL_CONNECTIONS));
	struct conn *c = fits ? calloc(1, sizeof(*c)) : NULL;

	if (c == NULL) {
		if (fits)
			limits_leave(&w->limits);
		turn_away(w, fd);
		return NULL;
	}
	c->w = w;
	c->serial = ++w->serial;
	c->listener = listener;
	c->way = (uint8_t)way;
	c->who_fd = fd;
	c->opened_ms = loop_now_ms(w->loop);
	list_append(&w->conns, &c->link);
	loop_io_init(&c->io, w->loop, fd, NULL, c);
	stats_add(w->role.stats, STAT_OPEN, 1);
	worker_wake(w);
	return c;
}

/* Of the same socket, as others see it; c may be NULL. */
static enum status
set_who(struct conn *c, const struct conn *from)
{
	if (c == NULL)
		return ST_LIMIT_CONNECTIONS;
	c->form = FORM_CLOSE;
	int fd = fcntl(from->who_fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return ST_NO_FILES;
	c->who_fd = fd;
	return ST_OK;
}

enum status
conn_branch(struct conn *from, int fd, const struct dest *d, struct conn **ret_c)
{
	const struct who *who = conn_who(from);
	struct conn *c = conn_new(from->w, fd, from->listener, CONN_CONNECT);
	enum status st = set_who(c, from);

	if (c == NULL)
		return st;
	c->is_pinned = true;
	c->dest = *d;
	if (st == ST_OK)
		st = who == NULL ? ST_UNKNOWN_SANDBOX : conn_identify(c, who);
	if (st == ST_OK)
		*ret_c = c;
	else
		conn_close(c);
	return st;
}

enum status
conn_inside(struct conn *outer, int fd, struct conn **ret_c)
{
	struct conn *c = conn_new(outer->w, fd, outer->listener, CONN_PROXY);
	enum status st = set_who(c, outer);

	if (c == NULL)
		return st;
	c->is_tls = true;
	if (st != ST_OK) {
		conn_close(c);
		return st;
	}
	need(!outer->is_pending);
	c->limit = outer->limit;
	c->is_counted = outer->is_counted;
	outer->limit = NULL;
	outer->is_counted = false;
	*ret_c = c;
	return ST_OK;
}

static bool
has_tls(const struct conn *c)
{
	size_t n;
	const struct image_listener *all = image_listeners(c->w->role.image, &n);

	return c->listener < n && all[c->listener].names_n > 0;
}

static void
conn_begin_proxy(struct conn *c, const struct who *who)
{
	enum status st = who == NULL ? ST_OK : conn_identify(c, who);

	if (st != ST_OK)
		deny_because(c, st);
	else if (has_tls(c))
		porch_start(c);
	else
		proxy_in_start(c, (struct str){ 0 });
}

/* Callers share what all listeners may have open; one address gets a part of that. */
static void
conn_begin_exec(struct conn *c, const struct sockaddr_storage *peer)
{
	uint64_t all = worker_option(c->w, OPT_LIMIT_ALL_CONNECTIONS);
	struct addr a;
	uint16_t port;

	if (!addr_from_sockaddr((const struct sockaddr *)peer, &a, &port))
		deny_because(c, ST_SYSTEM);
	else if (!limit_peer_admit(&c->w->limits, &a, all / EXEC_PEER_SHARE, &c->peer))
		deny_because(c, ST_LIMIT_CONNECTIONS);
	else if (has_tls(c))
		porch_start(c);
	else
		exec_in_start(c);
}

void
conn_begin(struct worker *w, int fd, const struct conn_entry *e)
{
	struct conn *c = conn_new(w, fd, e->listener, e->way);

	if (c == NULL)
		return;
	if (e->way == CONN_EXEC) {
		conn_begin_exec(c, e->peer);
		return;
	}
	const struct who *who = who_by_peer(w->role.who, fd, e->peer);
	if (e->way == CONN_TRANSPARENT)
		conn_begin_transparent(c, who);
	else
		conn_begin_proxy(c, who);
}

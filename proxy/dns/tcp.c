#include "proxy/dns/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/base/ring.h"
#include "proxy/dns/pending.h"
#include "proxy/io/listen.h"

enum {
	CONNS_MAX = 2048,
	WAITING_MAX = 8, /* answers under way of one connection */
	FRAME_MAX = 2 + DNSMSG_ANSWER_MAX,
	IN_MAX = 2 + DNSMSG_QUERY_MAX,
	/* Room for each answer under way and the one being made. */
	OUT_MAX = (WAITING_MAX + 1) * FRAME_MAX,
};

struct tcp { /* a listener */
	struct list link;
	struct dns_door door;
	struct listen *listen;
};

struct conn {
	struct list link;
	struct dns_door door;
	struct loop_io io;
	struct loop_timer idle;
	struct ring in, out;
	struct quota *quota; /* counted in */
	size_t waiting;
	int fd;         /* -1: closed, dies at the end of the turn */
	bool is_at_end; /* the peer has sent its last */
};

/* Something was finished: the time to the end begins anew. */
static void
conn_touch(struct conn *c)
{
	loop_timer_set(&c->idle,
		       image_number(c->door.dns->role.image, OPT_DNS_IDLE_TIMEOUT));
}

static void
conn_close(struct conn *c)
{
	struct dns *d = c->door.dns;

	if (c->fd == -1)
		return;
	list_remove(&c->link);
	d->conns_n--;
	pending_drop(d, c);
	loop_io_clear(&c->io);
	loop_timer_clear(&c->idle);
	close(c->fd);
	c->fd = -1;
	ring_done(&c->in);
	ring_done(&c->out);
	c->quota->conns--;
	quota_release(c->quota);
	stats_add(d->role.stats, STAT_OPEN, -1);
	loop_defer(d->loop, free, c);
}

static bool
may_take_more(const struct conn *c)
{
	/* What waits has its room kept, so that an answer always fits. */
	return c->waiting < WAITING_MAX &&
	       ring_space(&c->out) >= (c->waiting + 1) * FRAME_MAX;
}

static bool
conn_put(struct conn *c, struct str answer)
{
	char length[2] = { (char)(answer.n >> 8), (char)answer.n };

	return ring_write(&c->out, str_of(length, 2)) == 2 &&
	       ring_write(&c->out, answer) == answer.n;
}

/* False: the connection is of no more use. */
static bool
conn_flush(struct conn *c)
{
	while (!ring_is_empty(&c->out)) {
		struct str s = ring_peek(&c->out);
		ssize_t n = send(c->fd, s.p, s.n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n == -1)
			return errno == EAGAIN || errno == EINTR;
		ring_consume(&c->out, (size_t)n);
		conn_touch(c);
	}
	ring_trim(&c->out);
	return true;
}

static void conn_answer(void *owner, const struct query_peer *peer, struct str answer);

/* One packet; false: close. */
static bool
conn_handle(struct conn *c, struct str packet)
{
	struct dns *d = c->door.dns;
	struct query_way way = { .door = &c->door, .owner = c, .send = conn_answer };
	size_t size = 0;
	enum status st;

	/* Asked each time: a reload or a detach may have changed who this is. */
	st = query_handle(d, who_by_socket(d->role.who, c->fd), packet, &way, &size);
	if (st == ST_AGAIN)
		c->waiting++;
	else if (st != ST_OK || !conn_put(c, str_of(d->out, size)))
		return false;
	conn_touch(c);
	return true;
}

/* Take the complete messages out of the input, as far as answers have room. */
static bool
conn_take(struct conn *c)
{
	while (may_take_more(c)) {
		struct str packet;
		size_t used;
		enum status st = dnsmsg_cut(ring_linear(&c->in), &packet, &used);

		if (st == ST_AGAIN)
			break;
		if (st != ST_OK || !conn_handle(c, packet))
			return false;
		ring_consume(&c->in, used);
	}
	ring_trim(&c->in);
	return true;
}

/* After anything happened: go on as far as possible, then say what we wait for. */
static void
conn_go_on(struct conn *c)
{
	unsigned want = 0;

	if (!conn_take(c) || !conn_flush(c) || !conn_take(c)) {
		conn_close(c);
		return;
	}
	if (c->is_at_end && c->waiting == 0 && ring_is_empty(&c->out)) {
		conn_close(c);
		return;
	}
	if (!c->is_at_end && may_take_more(c))
		want |= LOOP_READ;
	if (!ring_is_empty(&c->out))
		want |= LOOP_WRITE;
	loop_io_want(&c->io, want);
}

static void
conn_answer(void *owner, const struct query_peer *peer, struct str answer)
{
	struct conn *c = owner;

	(void)peer;
	need(c->fd != -1 && c->waiting > 0);
	c->waiting--;
	if (answer.n > 0 && !conn_put(c, answer)) {
		conn_close(c);
		return;
	}
	conn_go_on(c);
}

/* False: broken, or there is no memory. */
static bool
conn_read(struct conn *c)
{
	char bytes[IN_MAX];
	size_t room = ring_space(&c->in);
	ssize_t n;

	if (room == 0)
		return true;
	n = recv(c->fd, bytes, room, MSG_DONTWAIT);
	if (n == -1)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		c->is_at_end = true;
	return ring_write(&c->in, str_of(bytes, (size_t)n)) == (size_t)n;
}

static void
on_conn(void *ctx, unsigned events)
{
	struct conn *c = ctx;

	if ((events & LOOP_READ) != 0 && !conn_read(c)) {
		conn_close(c);
		return;
	}
	conn_go_on(c);
}

static void
on_idle(void *ctx)
{
	struct conn *c = ctx;

	if (c->waiting > 0) { /* it is we who are slow; the dialer has a deadline */
		conn_touch(c);
		return;
	}
	stats_add(c->door.dns->role.stats, STAT_TIMEOUT_IDLE, 1);
	conn_close(c);
}

static enum status
conn_new(const struct dns_door *door, int fd, struct quota *q)
{
	struct dns *d = door->dns;
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		return ST_NOMEM;
	c->door = *door;
	c->fd = fd;
	c->quota = q;
	q->conns++;
	d->conns_n++;
	list_append(&d->conns, &c->link);
	ring_init(&c->in, IN_MAX);
	ring_init(&c->out, OUT_MAX);
	loop_io_init(&c->io, d->loop, fd, on_conn, c);
	loop_timer_init(&c->idle, d->loop, on_idle, c);
	conn_touch(c);
	loop_io_want(&c->io, LOOP_READ);
	stats_add(d->role.stats, STAT_OPEN, 1);
	return ST_OK;
}

static enum status
admit(const struct dns_door *door, int fd)
{
	struct dns *d = door->dns;
	const struct who *w = who_by_socket(d->role.who, fd);
	struct quota *q;
	uint64_t most;

	q = quotas_get(&d->quotas, w ? w->id : STR(""), loop_now_ms(d->loop));
	if (!q)
		return ST_NOMEM;
	most = image_number(d->role.image, OPT_LIMIT_DNS_CONNECTIONS);
	if (d->is_draining)
		return ST_DRAINING;
	if (d->conns_n >= CONNS_MAX || q->conns >= most) {
		stats_add(d->role.stats, STAT_LIMIT_CONNECTIONS, 1);
		return ST_LIMIT_CONNECTIONS;
	}
	return conn_new(door, fd, q);
}

static void
on_accepted(void *ctx, int fd, const struct sockaddr_storage *peer)
{
	struct tcp *t = ctx;

	(void)peer;
	if (admit(&t->door, fd) != ST_OK)
		close(fd);
}

enum status
tcp_open(const struct dns_door *door, int fd)
{
	struct dns *d = door->dns;
	struct tcp *t = calloc(1, sizeof(*t));

	if (!t) {
		close(fd);
		return ST_NOMEM;
	}
	t->door = *door;
	if (listen_new(d->loop, fd, d->role.stats, on_accepted, t, &t->listen) !=
	    ST_OK) {
		free(t);
		close(fd);
		return ST_SYSTEM;
	}
	list_append(&d->tcps, &t->link);
	return ST_OK;
}

static void
tcp_close(struct tcp *t)
{
	list_remove(&t->link);
	listen_free(t->listen);
	loop_defer(t->door.dns->loop, free, t);
}

void
tcp_close_handle(struct dns *d, uint32_t handle)
{
	list_each_safe (it, &d->tcps)
		if (LIST_OF(it, struct tcp, link)->door.handle == handle)
			tcp_close(LIST_OF(it, struct tcp, link));
	list_each_safe (it, &d->conns)
		if (LIST_OF(it, struct conn, link)->door.handle == handle)
			conn_close(LIST_OF(it, struct conn, link));
}

void
tcp_close_listeners(struct dns *d)
{
	list_each_safe (it, &d->tcps)
		if (LIST_OF(it, struct tcp, link)->door.handle == HANDLE_NONE)
			tcp_close(LIST_OF(it, struct tcp, link));
	/* What is open goes on; the numbers of listeners mean others from now on. */
	list_each (it, &d->conns)
		LIST_OF(it, struct conn, link)->door.listener = UINT32_MAX;
}

void
tcp_close_all(struct dns *d)
{
	list_each_safe (it, &d->tcps)
		tcp_close(LIST_OF(it, struct tcp, link));
	list_each_safe (it, &d->conns)
		conn_close(LIST_OF(it, struct conn, link));
}

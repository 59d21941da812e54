#include "proxy/dialer/channel.h"

/* The calls that Debian 12 has are marked as old in Debian 13, and work in both. */
#define CARES_NO_DEPRECATED
#include <ares.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/dialer/mark.h"

enum {
	SOCKETS = 4, /* of one query: UDP, then TCP, and the change-over */
	NEVER_MS = 24 * 3600 * 1000, /* c-ares' own time-out: ours comes first */
	PACKET_MAX = 65535,
};

struct channel_socket {
	struct channel *channel;
	struct loop_io io; /* io.loop NULL: free */
};

struct channel {
	ares_channel ares;
	struct loop *loop;
	struct channel_socket sockets[SOCKETS];
	struct image_server server; /* whom the sockets are connected to */
	unsigned questions;         /* that left from them */
	uint64_t since_ms;          /* the first of them */
	uint32_t mark;
	bool is_spent;             /* the next question gets a new socket */
	struct loop_timer deliver; /* set when the outcome is there */
	channel_fn fn;             /* NULL: idle */
	void *ctx;
	enum status st;
	struct buf packet;
};

static void
on_socket(void *ctx, unsigned events)
{
	struct channel_socket *s = ctx;
	ares_socket_t fd = s->io.fd;

	ares_process_fd(s->channel->ares,
			(events & LOOP_READ) != 0 ? fd : ARES_SOCKET_BAD,
			(events & LOOP_WRITE) != 0 ? fd : ARES_SOCKET_BAD);
}

static struct channel_socket *
find_socket(struct channel *c, ares_socket_t fd)
{
	struct channel_socket *unused = NULL;

	for (size_t i = 0; i < SOCKETS; i++) {
		struct channel_socket *s = &c->sockets[i];
		if (s->io.loop == NULL)
			unused = s;
		else if (s->io.fd == fd)
			return s;
	}
	return unused;
}

/* c-ares tells which sockets it has and what it waits for; 0, 0: it closes this one. */
static void
on_socket_state(void *ctx, ares_socket_t fd, int is_readable, int is_writable)
{
	struct channel *c = ctx;
	struct channel_socket *s = find_socket(c, fd);
	unsigned want = (is_readable != 0 ? (unsigned)LOOP_READ : 0) |
			(is_writable != 0 ? (unsigned)LOOP_WRITE : 0);

	if (s == NULL) /* never watched: the attempt ends by its time-out */
		return;
	if (want == 0) {
		if (s->io.loop != NULL)
			loop_io_clear(&s->io);
		s->io.loop = NULL;
		return;
	}
	if (s->io.loop == NULL)
		loop_io_init(&s->io, c->loop, fd, on_socket, s);
	loop_io_want(&s->io, want);
}

/* Made, not connected yet. */
static int
on_socket_made(ares_socket_t fd, int type, void *ctx)
{
	const struct channel *c = ctx;

	(void)type;
	return mark_set(fd, c->mark) == ST_OK ? ARES_SUCCESS : -1;
}

static void
on_answer(void *ctx, int status, int timeouts, unsigned char *bytes, int len)
{
	struct channel *c = ctx;

	(void)timeouts;
	if (c->fn == NULL) /* cancelled */
		return;
	buf_clear(&c->packet);
	c->st = ST_DNS_FAILED;
	if (bytes != NULL && len > 0) {
		buf_put(&c->packet, str_of(bytes, (size_t)len));
		c->st = ST_OK;
	} else if (status == ARES_ECONNREFUSED &&
		   (errno == EMFILE || errno == ENFILE)) {
		c->st = ST_NO_FILES;
	}
	/* Not from here: c-ares is in the middle of its own work. */
	loop_timer_set(&c->deliver, 0);
}

static void
on_deliver(void *ctx)
{
	struct channel *c = ctx;
	channel_fn fn = c->fn;
	struct str packet = STR("");
	enum status st = c->st;

	if (st == ST_OK)
		st = buf_finish(&c->packet, &packet);
	c->fn = NULL;
	fn(c->ctx, st, packet);
}

static int
init_ares(struct channel *c)
{
	static char lookups[] = "b"; /* c-ares copies it; /etc/hosts stays unread */
	/* Nor is this one ours where containers share it: it may be another's to write. */
	static char resolv_conf[] = "/dev/null";
	struct ares_options o = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES |
			 ARES_FLAG_NOCHECKRESP,
		.timeout = NEVER_MS,
		.tries = 1,
		.ndots = 0,
		.lookups = lookups,
		.resolvconf_path = resolv_conf,
		.sock_state_cb = on_socket_state,
		.sock_state_cb_data = c,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
		   ARES_OPT_NDOTS | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB |
		   ARES_OPT_DOMAINS | ARES_OPT_NOROTATE | ARES_OPT_RESOLVCONF;

#ifdef ARES_OPT_UDP_MAX_QUERIES
	/* Such a version would keep a socket when a server is set again. */
	o.udp_max_queries = 1;
	mask |= ARES_OPT_UDP_MAX_QUERIES;
#else
	o.flags |= ARES_FLAG_STAYOPEN;
#endif
#ifdef ARES_OPT_QUERY_CACHE
	/* Newer versions cache on their own; ours knows when the policy changes. */
	o.qcache_max_ttl = 0;
	mask |= ARES_OPT_QUERY_CACHE;
#endif
	return ares_init_options(&c->ares, &o, mask);
}

enum status
channel_new(struct loop *l, struct channel **ret_c)
{
	struct channel *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return ST_NOMEM;
	c->loop = l;
	c->is_spent = true;
	for (size_t i = 0; i < SOCKETS; i++)
		c->sockets[i].channel = c;
	if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS ||
	    init_ares(c) != ARES_SUCCESS) {
		free(c);
		return ST_SYSTEM;
	}
	ares_set_socket_configure_callback(c->ares, on_socket_made, c);
	loop_timer_init(&c->deliver, l, on_deliver, c);
	buf_init(&c->packet, PACKET_MAX);
	*ret_c = c;
	return ST_OK;
}

void
channel_free(struct channel *c)
{
	if (c == NULL)
		return;
	channel_cancel(c);
	ares_destroy(c->ares);
	ares_library_cleanup(); /* counted, as is the init above */
	buf_done(&c->packet);
	free(c);
}

/* One socket, young, of few questions, to this server.  A second one was TCP. */
static bool
is_usable(const struct channel *c, const struct image_server *server)
{
	size_t open = 0;

	for (size_t i = 0; i < SOCKETS; i++)
		open += c->sockets[i].io.loop != NULL;
	return !c->is_spent && open <= 1 && c->questions < CHANNEL_QUESTIONS &&
	       loop_now_ms(c->loop) - c->since_ms < CHANNEL_AGE_MS &&
	       c->server.port == server->port &&
	       addr_eq(&c->server.addr, &server->addr);
}

/* c-ares closes what it has when its servers are set. */
static enum status
set_server(struct channel *c, const struct image_server *server)
{
	if (is_usable(c, server))
		return ST_OK;

	struct ares_addr_port_node node = {
		.family = server->addr.family == 4 ? AF_INET : AF_INET6,
		.udp_port = server->port,
		.tcp_port = server->port,
	};

	memcpy(&node.addr, server->addr.b, server->addr.family == 4 ? 4 : 16);
	if (ares_set_servers_ports(c->ares, &node) != ARES_SUCCESS)
		return ST_SYSTEM;
	c->server = *server;
	c->questions = 0;
	c->since_ms = loop_now_ms(c->loop);
	c->is_spent = false;
	return ST_OK;
}

enum status
channel_ask(struct channel *c, const struct image_server *server,
	    const struct packet_query *q, channel_fn fn, void *ctx)
{
	need(c->fn == NULL);
	enum status st = set_server(c, server);

	if (st != ST_OK)
		return st;
	c->fn = fn;
	c->ctx = ctx;
	c->questions++;
	errno = 0;
	ares_send(c->ares, q->bytes, (int)q->len, on_answer, c);
	return ST_OK;
}

void
channel_cancel(struct channel *c)
{
	c->fn = NULL;
	loop_timer_clear(&c->deliver);
	ares_cancel(c->ares);
}

void
channel_mark(struct channel *c, uint32_t mark)
{
	c->is_spent = c->is_spent || c->mark != mark;
	c->mark = mark;
}

void
channel_renew(struct channel *c)
{
	c->is_spent = true;
}

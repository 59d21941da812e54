#include "proxy/dns/udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/dns/pending.h"
#include "proxy/io/sock.h"

enum { BATCH = 16, RECEIVE_BUFFER = 4 * 1024 * 1024 };

struct udp {
	struct list link;
	struct dns_door door;
	struct loop_io io;
	int fd;
};

struct udp_batch { /* one for all sockets: nothing in it outlives a callback */
	struct mmsghdr in[BATCH], out[BATCH];
	struct iovec in_iov[BATCH], out_iov[BATCH];
	struct query_peer peers[BATCH];
	/* One byte more than a query may have, so that a longer one is seen as that. */
	char packets[BATCH][DNSMSG_QUERY_MAX + 1];
	char answers[BATCH][DNSMSG_ANSWER_MAX];
};

enum status
udp_batch_new(struct udp_batch **ret_b)
{
	struct udp_batch *b = calloc(1, sizeof(*b));

	if (!b)
		return ST_NOMEM;
	*ret_b = b;
	return ST_OK;
}

void
udp_batch_free(struct udp_batch *b)
{
	free(b);
}

static void
batch_prepare(struct udp_batch *b)
{
	for (size_t i = 0; i < BATCH; i++) {
		struct query_peer *peer = &b->peers[i];

		b->in_iov[i] = (struct iovec){ b->packets[i], sizeof(b->packets[i]) };
		b->in[i].msg_hdr = (struct msghdr){
			.msg_name = &peer->sa,
			.msg_namelen = sizeof(peer->sa),
			.msg_iov = &b->in_iov[i],
			.msg_iovlen = 1,
			.msg_control = peer->control,
			.msg_controllen = sizeof(peer->control),
		};
	}
}

/*
 * Turn what the kernel said about the query's way into what it wants for the answer's.
 * The interface stays: a forged source can't make the answer leave by another one.
 */
static void
turn_around(struct query_peer *peer, struct msghdr *h)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(h);
	struct in_pktinfo info;

	peer->sa_len = h->msg_namelen;
	peer->control_len = (socklen_t)h->msg_controllen;
	if (!c || c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_PKTINFO)
		return;
	memcpy(&info, CMSG_DATA(c), sizeof(info));
	info.ipi_spec_dst = info.ipi_addr;
	memcpy(CMSG_DATA(c), &info, sizeof(info));
}

static struct msghdr
answer_header(const struct query_peer *peer, struct iovec *iov)
{
	union { /* sendmsg() reads only, its struct just can't say so */
		const struct query_peer *const_p;
		struct query_peer *p;
	} u = { .const_p = peer };

	return (struct msghdr){
		.msg_name = &u.p->sa,
		.msg_namelen = peer->sa_len,
		.msg_iov = iov,
		.msg_iovlen = 1,
		.msg_control = peer->control_len > 0 ? u.p->control : NULL,
		.msg_controllen = peer->control_len,
	};
}

static void
send_one(void *owner, const struct query_peer *peer, struct str answer)
{
	struct udp *u = owner;
	char *bytes = u->door.dns->out;
	struct iovec iov = { bytes, answer.n };
	struct msghdr h = answer_header(peer, &iov);

	need(answer.n == 0 || answer.p == bytes);
	if (answer.n == 0)
		return;
	/* Lost like any datagram when the socket is full: the client asks again. */
	(void)!sendmsg(u->fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* One query; true when its answer was put at place n. */
static bool
answer_one(struct udp *u, struct udp_batch *b, size_t i, size_t n)
{
	struct dns *d = u->door.dns;
	struct query_peer *peer = &b->peers[i];
	struct query_way way = {
		.door = &u->door, .owner = u, .send = send_one, .peer = peer
	};
	const struct who *w = NULL;
	struct addr source;
	uint16_t port;
	size_t size = 0;

	turn_around(peer, &b->in[i].msg_hdr);
	if (addr_from_sockaddr((const struct sockaddr *)&peer->sa, &source, &port))
		w = who_by_source(d->role.who, u->fd, &source);
	if (query_handle(d, w, str_of(b->packets[i], b->in[i].msg_len), &way, &size) !=
	    ST_OK)
		return false;
	memcpy(b->answers[n], d->out, size);
	b->out_iov[n] = (struct iovec){ b->answers[n], size };
	b->out[n].msg_hdr = answer_header(peer, &b->out_iov[n]);
	return true;
}

static void
send_batch(const struct udp *u, struct udp_batch *b, size_t n)
{
	size_t sent = 0;

	while (sent < n) {
		int got = sendmmsg(u->fd, b->out + sent, (unsigned)(n - sent),
				   MSG_DONTWAIT | MSG_NOSIGNAL);

		if (got == -1 && (errno == EAGAIN || errno == ENOBUFS))
			return; /* the client asks again */
		/* One that can't be sent must not hold up the others. */
		sent += got > 0 ? (size_t)got : 1;
	}
}

static void
on_readable(void *ctx, unsigned events)
{
	struct udp *u = ctx;
	struct udp_batch *b = u->door.dns->batch;
	size_t answers = 0;
	int got;

	(void)events;
	batch_prepare(b);
	got = recvmmsg(u->fd, b->in, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < got; i++)
		if (answer_one(u, b, (size_t)i, answers))
			answers++;
	send_batch(u, b, answers);
}

/* The address that a query came to; a socket for both families tells IPv4 as mapped. */
static bool
ask_for_address(int fd)
{
	int family = 0, on = 1;
	socklen_t n = sizeof(family);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &n) == -1)
		return false;
	if (family == AF_INET6)
		return setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on,
				  sizeof(on)) == 0;
	return family == AF_INET &&
	       setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) == 0;
}

enum status
udp_open(const struct dns_door *door, int fd)
{
	struct udp *u = calloc(1, sizeof(*u));

	/* As much as the system gives: a burst of one client must not cost another's.
	 */
	(void)!setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){ RECEIVE_BUFFER },
			  sizeof(int));
	if (!u || !ask_for_address(fd) || sock_set_nonblock(fd) != ST_OK) {
		free(u);
		close(fd);
		return ST_SYSTEM;
	}
	u->door = *door;
	u->fd = fd;
	list_append(&door->dns->udps, &u->link);
	loop_io_init(&u->io, door->dns->loop, fd, on_readable, u);
	loop_io_want(&u->io, LOOP_READ);
	return ST_OK;
}

static void
udp_close(struct udp *u)
{
	list_remove(&u->link);
	pending_drop(u->door.dns, u);
	loop_io_clear(&u->io);
	close(u->fd);
	loop_defer(u->door.dns->loop, free, u);
}

void
udp_close_handle(struct dns *d, uint32_t handle)
{
	list_each_safe (it, &d->udps)
		if (LIST_OF(it, struct udp, link)->door.handle == handle)
			udp_close(LIST_OF(it, struct udp, link));
}

void
udp_close_all(struct dns *d)
{
	list_each_safe (it, &d->udps)
		udp_close(LIST_OF(it, struct udp, link));
}

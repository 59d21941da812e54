/*
 * origin ADDRESS TCP_PORT[,TCP_PORT...] DNS_PORT: what the benchmark's traffic goes to.
 * It tells by the first byte what a connection speaks:
 *
 *	0x16   a tunnel.  The record is read and answered with ANSWER octets that look
 *	       like a TLS handshake record; then each request of REQUEST octets, "G" and
 *	       15 digits first, is answered with as many octets as the digits say.
 *	else   HTTP/1.1.  GET /N is answered with a body of N octets.
 *
 * The DNS port answers every A with a public address (TTL 300), that of "origin" with
 * 127.0.0.2, and all else with no records.
 * Prints "ready" when it listens; runs until its input ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "proxy/base/num.h"
#include "proxy/base/str.h"

enum { ANSWER = 64, REQUEST = 128, HEAD_MAX = 2048, CHUNK = 256 * 1024, PORTS = 8 };

enum kind { LISTENER, DNS, UNKNOWN, HELLO, TUNNEL, HTTP };

struct source {
	int fd;
	enum kind kind;
	char head[HEAD_MAX];
	size_t head_n;
	char lead[HEAD_MAX]; /* octets before the body */
	size_t lead_n, lead_at;
	uint64_t body; /* still to be written */
	bool is_armed; /* for writing */
};

struct origin {
	int poll;
	char *body;
};

static void
die(const char *what)
{
	perror(what);
	exit(2);
}

static struct source *
watch(struct origin *o, int fd, enum kind kind)
{
	struct source *s = calloc(1, sizeof(*s));
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = s };

	if (s == NULL || epoll_ctl(o->poll, EPOLL_CTL_ADD, fd, &ev) != 0)
		die("origin: watch");
	s->fd = fd;
	s->kind = kind;
	return s;
}

static void
drop(struct source *s)
{
	(void)close(s->fd);
	free(s);
}

static void
arm(struct origin *o, struct source *s, bool writing)
{
	struct epoll_event ev = { .events = writing ? EPOLLIN | EPOLLOUT : EPOLLIN,
				  .data.ptr = s };

	if (s->is_armed == writing)
		return;
	s->is_armed = writing;
	(void)epoll_ctl(o->poll, EPOLL_CTL_MOD, s->fd, &ev);
}

/* What is to be said: lead, then body.  False: the peer is gone. */
static bool
speak(struct origin *o, struct source *s)
{
	while (s->lead_at < s->lead_n || s->body > 0) {
		struct iovec v[2] = { { s->lead + s->lead_at, s->lead_n - s->lead_at },
				      { o->body, num_min(s->body, CHUNK) } };
		struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
		ssize_t n = sendmsg(s->fd, &m, MSG_NOSIGNAL);
		size_t lead;

		if (n < 0 && errno == EAGAIN) {
			arm(o, s, true);
			return true;
		}
		if (n < 0)
			return false;
		lead = num_min((size_t)n, v[0].iov_len);
		s->lead_at += lead;
		s->body -= (size_t)n - lead;
	}
	arm(o, s, false);
	return true;
}

static void
lead_with(struct source *s, const char *text, size_t n)
{
	memcpy(s->lead, text, n);
	s->lead_n = n;
	s->lead_at = 0;
}

static void
consume(struct source *s, size_t n)
{
	s->head_n -= n;
	memmove(s->head, s->head + n, s->head_n);
}

/* A whole hello, a whole request, a whole head; false: more is needed. */
static bool
take_hello(struct source *s)
{
	char answer[ANSWER] = { 0x16, 3, 3, 0, ANSWER - 5 };
	size_t n = s->head_n < 5 ? HEAD_MAX : 5u + num_be16(s->head + 3);

	if (s->head_n < n)
		return false;
	consume(s, n);
	lead_with(s, answer, ANSWER);
	s->kind = TUNNEL;
	return true;
}

static bool
take_request(struct source *s)
{
	uint64_t size = 0;

	if (s->head_n < REQUEST)
		return false;
	if (!num_parse_u64(str_of(s->head + 1, 15), UINT64_MAX, &size))
		exit(3);
	consume(s, REQUEST);
	s->lead_n = s->lead_at = 0;
	s->body = size;
	return true;
}

/* The path is all digits; in absolute-form it is what stands after the last slash. */
static bool
take_head(struct source *s)
{
	char *end = memmem(s->head, s->head_n, "\r\n\r\n", 4), *blank, *slash,
	     text[128];
	uint64_t size = 0;

	if (end == NULL)
		return false;
	blank = memmem(s->head, s->head_n, " HTTP/", 6);
	slash = blank == NULL ? NULL : memrchr(s->head, '/', (size_t)(blank - s->head));
	if (slash == NULL ||
	    !num_parse_u64(str_of(slash + 1, (size_t)(blank - slash - 1)), UINT64_MAX,
			   &size))
		exit(3);
	consume(s, (size_t)(end - s->head) + 4);
	lead_with(s, text,
		  (size_t)snprintf(text, sizeof(text),
				   "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
				   "Content-Length: %llu\r\n\r\n",
				   (unsigned long long)size));
	s->body = size;
	return true;
}

static bool
take(struct source *s)
{
	if (s->kind == UNKNOWN)
		s->kind = s->head[0] == 0x16 ? HELLO : HTTP;
	if (s->kind == HELLO)
		return take_hello(s);
	return s->kind == TUNNEL ? take_request(s) : take_head(s);
}

static void
hear(struct origin *o, struct source *s)
{
	ssize_t n = recv(s->fd, s->head + s->head_n, HEAD_MAX - s->head_n, 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		drop(s);
		return;
	}
	s->head_n += (size_t)n;
	while (s->body == 0 && s->lead_at == s->lead_n && s->head_n > 0 && take(s)) {
		if (!speak(o, s)) {
			drop(s);
			return;
		}
	}
}

static void
welcome(struct origin *o, const struct source *s)
{
	for (int i = 0; i < 64; i++) {
		int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0)
			return;
		(void)watch(o, fd, UNKNOWN);
	}
}

/* The question comes back with at most one record behind it. */
static size_t
dns_answer(unsigned char *m, size_t n)
{
	static const unsigned char record[] = { 0xc0, 12, 0, 1, 0,   1, 0,   0,
						1,    44, 0, 4, 203, 0, 114, 2 };
	static const unsigned char here[] = { 127, 0, 0, 2 };
	size_t at = 12;
	bool is_a;

	while (at < n && m[at] != 0)
		at += m[at] + 1u;
	if (at + 5 > n)
		return 0;
	is_a = m[at + 1] == 0 && m[at + 2] == 1;
	m[2] = (unsigned char)(0x80 | (m[2] & 1));
	m[3] = 0x80;
	memset(m + 6, 0, 6);
	m[7] = is_a;
	if (is_a)
		memcpy(m + at + 5, record, sizeof(record));
	if (is_a && strncasecmp((char *)m + 13, "origin", 6) == 0)
		memcpy(m + at + 5 + sizeof(record) - 4, here, 4);
	return at + 5 + (is_a ? sizeof(record) : 0);
}

static void
dns(const struct source *s)
{
	unsigned char m[1024];
	struct sockaddr_in peer;

	for (int i = 0; i < 64; i++) {
		socklen_t peer_n = sizeof(peer);
		ssize_t n = recvfrom(s->fd, m, 512, MSG_DONTWAIT,
				     (struct sockaddr *)&peer, &peer_n);

		if (n < 17)
			return;
		(void)!sendto(s->fd, m, dns_answer(m, (size_t)n), MSG_DONTWAIT,
			      (struct sockaddr *)&peer, peer_n);
	}
}

static void
turn(struct origin *o, struct source *s, unsigned events)
{
	if (s->kind == LISTENER) {
		welcome(o, s);
	} else if (s->kind == DNS) {
		dns(s);
	} else if ((events & EPOLLOUT) != 0 && !speak(o, s)) {
		drop(s);
	} else if ((events & ~(unsigned)EPOLLOUT) != 0) {
		hear(o, s);
	}
}

static void
listen_at(struct origin *o, const char *address, uint16_t port, enum kind kind)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(port) };
	int on = 1, big = 4 * 1024 * 1024;
	int fd = socket(AF_INET,
			(kind == DNS ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK, 0);

	if (fd < 0 || inet_pton(AF_INET, address, &sa.sin_addr) != 1)
		die("origin: socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof(big));
	if (kind == LISTENER)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 ||
	    (kind == LISTENER && listen(fd, 16384) != 0))
		die("origin: bind");
	(void)watch(o, fd, kind);
}

static uint16_t
port_of(struct str s)
{
	uint64_t v = 0;

	if (!num_parse_u64(s, UINT16_MAX, &v))
		exit(2);
	return (uint16_t)v;
}

int
main(int argc, char **argv)
{
	struct origin o = { .poll = epoll_create1(0), .body = calloc(1, CHUNK) };
	struct epoll_event end = { .events = EPOLLHUP, .data.ptr = NULL }, ready[256];
	struct str ports = str_from(argc == 4 ? argv[2] : "");

	if (argc != 4 || o.poll < 0 || o.body == NULL)
		return 2;
	while (ports.n > 0)
		listen_at(&o, argv[1], port_of(str_cut(&ports, ',')), LISTENER);
	listen_at(&o, argv[1], port_of(str_from(argv[3])), DNS);
	if (epoll_ctl(o.poll, EPOLL_CTL_ADD, STDIN_FILENO, &end) != 0)
		die("origin: stdin");
	(void)!write(STDOUT_FILENO, "ready\n", 6);
	for (;;) {
		int n = epoll_wait(o.poll, ready, COUNT_OF(ready), -1);

		for (int i = 0; i < n; i++) {
			if (ready[i].data.ptr == NULL)
				return 0;
			turn(&o, ready[i].data.ptr, ready[i].events);
		}
	}
}

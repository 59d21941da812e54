/*
 * load KEY=VALUE...: drives TCP load through a gateway; see measure.h for its lines.
 *
 *	to= port=     the gateway
 *	mode=         tunnel  requests inside established tunnels
 *	              new     a tunnel, its hello's answer, one request, the end
 *	              idle    open the tunnels and do nothing
 *	              http    requests in absolute-form, kept alive
 *	hello=        file with the ClientHello that opens a tunnel
 *	connect=      HOST:PORT: ask for it with CONNECT first
 *	url=          what http asks for, without the number of octets
 *	conns= size= seconds=
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "tests/perf/measure.h"

enum {
	ANSWER = 64,
	REQUEST = 128,
	SPACE = 512 * 1024,
	HEAD_MAX = 1024,
	WARM_US = 300000
};

enum mode { MODE_TUNNEL, MODE_NEW, MODE_IDLE, MODE_HTTP };
enum state { CONNECTING, ASKING, GREETING, IDLE, WAITING };

struct link { /* one connection */
	int fd;
	enum state state;
	uint64_t left; /* octets of the answer still to come; UINT64_MAX: head first */
	uint64_t asked_us;
	char head[HEAD_MAX];
	size_t head_n;
};

struct load {
	int poll;
	enum mode mode;
	struct sockaddr_in to;
	char hello[4096], ask[512], request[512];
	size_t hello_n, ask_n, request_n;
	uint64_t size, conns, open;
	struct link *links;
	char *space;
	struct measure m;
	bool is_running; /* requests are sent */
};

static void
fail(const char *what)
{
	perror(what);
	exit(2);
}

static void
link_open(struct load *l, struct link *k)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT, .data.ptr = k };

	k->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	k->state = CONNECTING;
	k->head_n = 0;
	k->asked_us = measure_now_us();
	if (k->fd < 0)
		fail("load: socket");
	if (connect(k->fd, (struct sockaddr *)&l->to, sizeof(l->to)) != 0 &&
	    errno != EINPROGRESS)
		fail("load: connect");
	if (epoll_ctl(l->poll, EPOLL_CTL_ADD, k->fd, &ev) != 0)
		fail("load: epoll");
}

static void
link_again(struct load *l, struct link *k, bool is_failure)
{
	(void)close(k->fd);
	l->m.failed += is_failure;
	if (l->m.failed > 10000)
		fail("load: too many connections fail");
	if (k->state >= IDLE && l->mode != MODE_NEW)
		l->open--;
	k->fd = -1;
	if (l->is_running || l->mode != MODE_NEW)
		link_open(l, k);
}

/* Small enough for an empty socket to take whole. */
static void
say(const struct link *k, const char *p, size_t n)
{
	if (send(k->fd, p, n, MSG_NOSIGNAL) != (ssize_t)n && errno != EPIPE &&
	    errno != ECONNRESET)
		fail("load: send");
}

static void
link_ask(const struct load *l, struct link *k)
{
	k->state = WAITING;
	if (l->mode != MODE_NEW) /* there it began with the connection */
		k->asked_us = measure_now_us();
	k->left = l->mode == MODE_HTTP ? UINT64_MAX : l->size;
	k->head_n = 0;
	say(k, l->request, l->request_n);
}

static void
link_ready(struct load *l, struct link *k)
{
	k->state = IDLE;
	l->open++;
	if (l->is_running && l->mode != MODE_IDLE)
		link_ask(l, k);
}

static void
link_greet(struct load *l, struct link *k)
{
	if (l->mode == MODE_HTTP) {
		link_ready(l, k);
		return;
	}
	k->state = GREETING;
	k->left = ANSWER;
	say(k, l->hello, l->hello_n);
}

static void
on_connected(struct load *l, struct link *k)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = k };

	(void)epoll_ctl(l->poll, EPOLL_CTL_MOD, k->fd, &ev);
	if (l->ask_n == 0) {
		link_greet(l, k);
		return;
	}
	k->state = ASKING;
	k->head_n = 0;
	say(k, l->ask, l->ask_n);
}

static void
on_answered(struct load *l, struct link *k)
{
	l->m.done++;
	measure_latency(&l->m, measure_now_us() - k->asked_us);
	if (l->mode == MODE_NEW) {
		link_again(l, k, false);
		return;
	}
	k->state = IDLE;
	if (l->is_running)
		link_ask(l, k);
}

/* A head: false when it is not complete; *at is behind it then. */
static bool
take_head(struct link *k, struct str s, size_t *at)
{
	size_t before = k->head_n, n = num_min(s.n, HEAD_MAX - before);
	char *end;

	memcpy(k->head + before, s.p, n);
	k->head_n += n;
	end = memmem(k->head, k->head_n, "\r\n\r\n", 4);
	if (end == NULL && k->head_n == HEAD_MAX)
		exit(3);
	*at = end == NULL ? s.n : (size_t)(end - k->head) + 4 - before;
	if (end != NULL && memmem(k->head, 16, " 200", 4) == NULL) {
		fprintf(stderr, "load: %.*s\n", (int)k->head_n, k->head);
		exit(3);
	}
	return end != NULL;
}

static uint64_t
length_of(const struct link *k)
{
	const char *p = strcasestr(k->head, "content-length:");
	uint64_t v = 0;

	if (p == NULL)
		exit(3);
	for (p += strlen("content-length:"); *p == ' '; p++)
		;
	if (!num_parse_u64(str_of(p, strcspn(p, "\r")), UINT64_MAX, &v))
		exit(3);
	return v;
}

static void
on_bytes(struct load *l, struct link *k, struct str s)
{
	size_t at = 0;

	if (k->state == ASKING || k->left == UINT64_MAX) {
		if (!take_head(k, s, &at))
			return;
		if (k->state == ASKING) {
			link_greet(l, k);
			return;
		}
		k->left = length_of(k);
	}
	if (k->state < GREETING || s.n - at > k->left || k->state == IDLE)
		exit(4); /* more than was asked for */
	k->left -= s.n - at;
	l->m.bytes += k->state == WAITING ? s.n - at : 0;
	if (k->left > 0)
		return;
	if (k->state == GREETING && l->mode == MODE_NEW)
		link_ask(l, k);
	else if (k->state == GREETING)
		link_ready(l, k);
	else
		on_answered(l, k);
}

static void
on_event(struct load *l, struct link *k)
{
	ssize_t n;

	if (k->state == CONNECTING) {
		on_connected(l, k);
		return;
	}
	n = recv(k->fd, l->space, SPACE, 0);
	if (n > 0)
		on_bytes(l, k, str_of(l->space, (size_t)n));
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		link_again(l, k, true);
}

static void
turn(struct load *l, int ms)
{
	struct epoll_event ready[256];
	int n = epoll_wait(l->poll, ready, COUNT_OF(ready), ms);

	for (int i = 0; i < n; i++)
		on_event(l, ready[i].data.ptr);
}

static void
run_for(struct load *l, uint64_t us)
{
	uint64_t end = measure_now_us() + us;

	l->is_running = true;
	for (uint64_t i = 0; i < l->conns; i++) {
		if (l->links[i].fd < 0)
			link_open(l, &l->links[i]);
		else if (l->links[i].state == IDLE && l->mode != MODE_IDLE)
			link_ask(l, &l->links[i]);
	}
	while (measure_now_us() < end)
		turn(l, 20);
	l->is_running = false;
}

/* Everything that was asked is answered, or it has failed. */
static void
settle(struct load *l)
{
	uint64_t end = measure_now_us() + 20000000, busy = 1;

	while (busy > 0 && measure_now_us() < end) {
		busy = 0;
		for (uint64_t i = 0; i < l->conns; i++)
			busy += l->links[i].fd >= 0 && l->links[i].state != IDLE;
		if (busy > 0)
			turn(l, 20);
	}
	l->m.failed += busy;
}

static void
open_all(struct load *l)
{
	uint64_t end = measure_now_us() + 60000000, begun = 0;

	while (l->open < l->conns && measure_now_us() < end) {
		while (begun < l->conns && begun < l->open + 64)
			link_open(l, &l->links[begun++]);
		turn(l, 20);
	}
	if (l->open < l->conns) {
		fprintf(stderr, "load: %llu of %llu are open\n",
			(unsigned long long)l->open, (unsigned long long)l->conns);
		exit(5);
	}
}

static void
prepare(struct load *l, char **argv)
{
	const char *mode = measure_text(argv, "mode", "tunnel"),
		   *host = measure_text(argv, "connect", NULL);
	int fd = open(measure_text(argv, "hello", "/dev/null"), O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, l->hello, sizeof(l->hello));

	l->hello_n = n > 0 ? (size_t)n : 0;
	(void)close(fd);
	l->mode = strcmp(mode, "new") == 0    ? MODE_NEW
		  : strcmp(mode, "idle") == 0 ? MODE_IDLE
		  : strcmp(mode, "http") == 0 ? MODE_HTTP
					      : MODE_TUNNEL;
	l->size = measure_number(argv, "size", 1024);
	l->conns = measure_number(argv, "conns", 64);
	l->request_n = REQUEST;
	(void)snprintf(l->request, sizeof(l->request), "G%015llu",
		       (unsigned long long)l->size);
	if (l->mode == MODE_HTTP)
		l->request_n = (size_t)snprintf(
			l->request, sizeof(l->request),
			"GET %s%llu HTTP/1.1\r\nHost: %s\r\nUser-Agent: "
			"load\r\nAccept: */*\r\n\r\n",
			measure_text(argv, "url", ""), (unsigned long long)l->size,
			measure_text(argv, "host", ""));
	if (host != NULL)
		l->ask_n = (size_t)snprintf(l->ask, sizeof(l->ask),
					    "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n",
					    host, host);
}

int
main(int argc, char **argv)
{
	struct load l = { .poll = epoll_create1(0), .space = malloc(SPACE) };
	uint64_t seconds = measure_number(argv, "seconds", 2);

	(void)argc;
	measure_address(argv, &l.to);
	prepare(&l, argv);
	l.links = calloc(l.conns, sizeof(*l.links));
	if (l.poll < 0 || l.space == NULL || l.links == NULL)
		return 2;
	for (uint64_t i = 0; i < l.conns; i++)
		l.links[i].fd = -1;
	if (l.mode != MODE_NEW)
		open_all(&l);
	if (l.mode != MODE_IDLE) {
		run_for(&l, WARM_US);
		settle(&l);
	}
	l.m = (struct measure){ 0 };
	measure_ready();
	l.m.began_us = measure_now_us();
	run_for(&l, seconds * 1000000);
	settle(&l);
	l.m.ended_us = measure_now_us();
	measure_tell(&l.m);
	return 0;
}

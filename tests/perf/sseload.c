/*
 * sseload KEY=VALUE...: server-sent events through a gateway; see measure.h for its lines.
 * We are the host at origin=:origin_port= and the client of to=:port= at once, so one
 * clock times each event.  A stream's next event leaves when the one before has arrived:
 * whoever holds one back until more comes stands still, which is found and told.
 *
 *	h2= conns= streams=   HTTP/2 in clear, so many streams on each connection
 *	host= authority=
 *	seconds=
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netinet/tcp.h>

#include "proxy/base/num.h"
#include "tests/perf/web_link.h"

enum { SOURCES_MAX = 4096, HEAD_MAX = 4096, WARM_US = 300000, QUIET_US = 5000000 };

struct source { /* one answer that lasts */
	int fd;
	bool is_asked;
	char head[HEAD_MAX];
	size_t head_n;
	uint64_t sent;
};

struct load {
	struct web web;
	int listener, poll; /* the host's side */
	struct source *sources[SOURCES_MAX];
	size_t sources_n;
	struct web_link *links;
	uint64_t conns, outstanding;
	struct measure m;
	bool is_running;
};

static void
fail(const char *what)
{
	fprintf(stderr, "sseload: %s\n", what);
	exit(4);
}

static void
say(const struct source *s, const char *p, size_t n)
{
	if (send(s->fd, p, n, MSG_NOSIGNAL) != (ssize_t)n)
		fail("a stream of the host was closed");
}

static void
send_event(struct load *l, size_t at)
{
	struct source *s = l->sources[at];
	char event[160], chunk[192];
	int n = snprintf(event, sizeof event, "data: %010zu %010llu %016llu %s\n\n", at,
			 (unsigned long long)s->sent++,
			 (unsigned long long)measure_now_us(),
			 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");

	l->outstanding++;
	say(s, chunk, (size_t)snprintf(chunk, sizeof chunk, "%x\r\n%s\r\n", n, event));
}

static void
welcome(struct load *l)
{
	int fd, on = 1;

	while ((fd = accept4(l->listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
		struct epoll_event ev = { .events = EPOLLIN };
		struct source *s = calloc(1, sizeof *s);

		if (s == NULL || l->sources_n == SOURCES_MAX)
			fail("too many streams");
		s->fd = fd;
		ev.data.u64 = l->sources_n;
		l->sources[l->sources_n++] = s;
		(void)setsockopt(fd, SOL_TCP, TCP_NODELAY, &on, sizeof on);
		(void)epoll_ctl(l->poll, EPOLL_CTL_ADD, fd, &ev);
	}
}

static void
hear(struct load *l, size_t at)
{
	static const char head[] =
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
		"Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"
		"Transfer-Encoding: chunked\r\n\r\n";
	struct source *s = l->sources[at];
	ssize_t n = recv(s->fd, s->head + s->head_n, HEAD_MAX - s->head_n, 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		(void)close(s->fd);
		s->fd = -1;
		return;
	}
	s->head_n += (size_t)n;
	if (s->is_asked || memmem(s->head, s->head_n, "\r\n\r\n", 4) == NULL)
		return;
	s->is_asked = true;
	say(s, head, sizeof head - 1);
	send_event(l, at);
}

static void
host_turn(struct load *l)
{
	struct epoll_event ready[256];
	int n = epoll_wait(l->poll, ready, COUNT_OF(ready), 0);

	for (int i = 0; i < n; i++) {
		if (ready[i].data.u64 == UINT64_MAX)
			welcome(l);
		else
			hear(l, (size_t)ready[i].data.u64);
	}
}

/* "data: STREAM NUMBER TIME ...": the next one of its stream, and no other. */
static void
take_event(struct load *l, struct web_slot *s, const char *text)
{
	uint64_t at = 0, number = 0, time = 0;

	if (!num_parse_u64(str_of(text, 10), SOURCES_MAX, &at) ||
	    !num_parse_u64(str_of(text + 11, 10), UINT64_MAX, &number) ||
	    !num_parse_u64(str_of(text + 22, 16), UINT64_MAX, &time) ||
	    number != s->number++ || at >= l->sources_n)
		fail("events are out of order");
	l->outstanding--;
	l->m.done++;
	measure_latency(&l->m, measure_now_us() - time);
	if (l->is_running)
		send_event(l, (size_t)at);
}

static void
on_body(struct web_slot *s, struct str bytes)
{
	struct load *l = s->link->web->ctx;

	if (bytes.n > sizeof s->tail - s->tail_n)
		fail("more than one event at a time");
	memcpy(s->tail + s->tail_n, bytes.p, bytes.n);
	s->tail_n += bytes.n;
	char *begin = memmem(s->tail, s->tail_n, "data: ", 6),
	     *end = memmem(s->tail, s->tail_n, "\n\n", 2);
	if (begin == NULL || end == NULL)
		return;
	s->tail_n = 0;
	take_event(l, s, begin + 6);
}

static void
on_open(struct web_link *k)
{
	for (size_t i = 0; i < k->slots_n; i++)
		web_ask(&k->slots[i]);
}

static void
on_done(struct web_slot *s)
{
	(void)s;
	fail("a stream ended");
}

static void
on_end(struct web_link *k)
{
	(void)k;
	fail("a connection ended");
}

static void
turn(struct load *l)
{
	web_turn(&l->web, 0);
	host_turn(l);
}

static void
run_for(struct load *l, uint64_t us)
{
	uint64_t end = measure_now_us() + us;

	l->is_running = true;
	for (size_t i = 0; i < l->sources_n; i++)
		if (l->sources[i]->is_asked)
			send_event(l, i);
	while (measure_now_us() < end)
		turn(l);
	l->is_running = false;
}

/* Nothing is on the way any more. */
static void
settle(struct load *l)
{
	uint64_t end = measure_now_us() + QUIET_US;

	while (l->outstanding > 0 && measure_now_us() < end)
		turn(l);
	if (l->outstanding > 0)
		fail("an event is held");
}

static void
listen_at(struct load *l, char **argv)
{
	char *own[] = { argv[0], NULL, NULL, NULL };
	char to[64], port[64];
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = UINT64_MAX };
	struct sockaddr_in sa;
	int on = 1;

	(void)snprintf(to, sizeof to, "to=%s", measure_text(argv, "origin", ""));
	(void)snprintf(port, sizeof port, "port=%s",
		       measure_text(argv, "origin_port", "0"));
	own[1] = to;
	own[2] = port;
	measure_address(own, &sa);
	l->poll = epoll_create1(0);
	l->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	(void)setsockopt(l->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (l->poll < 0 || l->listener < 0 ||
	    bind(l->listener, (struct sockaddr *)&sa, sizeof sa) != 0 ||
	    listen(l->listener, SOURCES_MAX) != 0 ||
	    epoll_ctl(l->poll, EPOLL_CTL_ADD, l->listener, &ev) != 0)
		fail("the host does not listen");
}

static void
prepare(struct load *l, char **argv)
{
	listen_at(l, argv);
	measure_address(argv, &l->web.to);
	l->conns = measure_number(argv, "conns", 64);
	l->web.is_h2 = measure_number(argv, "h2", 0) != 0;
	l->web.slots_n = num_min(measure_number(argv, "streams", 1), WEB_SLOTS);
	l->web.host = measure_text(argv, "host", "");
	l->web.authority = measure_text(argv, "authority", l->web.host);
	l->web.path = "/events";
	l->web.on_open = on_open;
	l->web.on_body = on_body;
	l->web.on_done = on_done;
	l->web.on_end = on_end;
	l->web.ctx = l;
	web_start(&l->web);
	l->links = calloc(l->conns, sizeof *l->links);
	if (l->links == NULL)
		exit(2);
}

static void
open_all(struct load *l)
{
	uint64_t all = l->conns * (l->web.is_h2 ? l->web.slots_n : 1),
		 end = measure_now_us() + QUIET_US;

	for (uint64_t i = 0; i < l->conns; i++)
		web_open(&l->web, &l->links[i]);
	while (l->m.done < all && measure_now_us() < end)
		turn(l);
	if (l->m.done < all)
		fail("the first event does not come");
}

int
main(int argc, char **argv)
{
	static struct load l;
	uint64_t seconds = measure_number(argv, "seconds", 2);

	(void)argc;
	prepare(&l, argv);
	open_all(&l);
	run_for(&l, WARM_US);
	settle(&l);
	l.m = (struct measure){ 0 };
	measure_ready();
	l.m.began_us = measure_now_us();
	run_for(&l, seconds * 1000000);
	settle(&l);
	l.m.ended_us = measure_now_us();
	measure_tell(&l.m);
	return 0;
}

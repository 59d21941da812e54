/*
 * dnsload KEY=VALUE...: drives DNS load over UDP; see measure.h for its lines.
 *
 *	to= port=     the server
 *	name=         what is asked for; "%" in it stands for a number, new in each
 *query window=       queries on their way at once (64), over 8 sockets seconds=
 *
 * A query that has no answer after a second has failed.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "tests/perf/measure.h"

enum { SOCKETS = 8, WINDOW_MAX = 1024, PATIENCE_US = 1000000, PACKET = 512 };

struct dnsload {
	int poll, fds[SOCKETS];
	const char *name;
	uint64_t window, next;
	uint64_t asked_us[WINDOW_MAX]; /* by id; 0: free */
	struct measure m;
	unsigned rcode;
	bool is_running;
};

static size_t
put_name(unsigned char *to, const char *name, uint64_t number)
{
	char text[256];
	struct str rest;
	size_t at = 0;
	const char *mark = strchr(name, '%');

	if (mark == NULL)
		(void)snprintf(text, sizeof(text), "%s", name);
	else
		(void)snprintf(text, sizeof(text), "%.*s%llu%s", (int)(mark - name),
			       name, (unsigned long long)number, mark + 1);
	rest = str_from(text);
	while (rest.n > 0) {
		struct str label = str_cut(&rest, '.');

		to[at++] = (unsigned char)label.n;
		memcpy(to + at, label.p, label.n);
		at += label.n;
	}
	to[at++] = 0;
	return at;
}

static void
ask(struct dnsload *d, size_t id)
{
	unsigned char m[PACKET] = {
		(unsigned char)(id >> 8), (unsigned char)id, 1, 0, 0, 1
	};
	size_t n = 12 + put_name(m + 12, d->name, d->next++);

	m[n + 1] = 1;
	m[n + 3] = 1;
	d->asked_us[id] = measure_now_us();
	if (send(d->fds[id % SOCKETS], m, n + 4, 0) < 0)
		d->m.failed++;
}

static void
on_readable(struct dnsload *d, int fd)
{
	unsigned char m[PACKET];
	ssize_t n;

	while ((n = recv(fd, m, sizeof(m), MSG_DONTWAIT)) >= 12) {
		size_t id = num_be16(m);

		if (id >= d->window || d->asked_us[id] == 0)
			continue;
		measure_latency(&d->m, measure_now_us() - d->asked_us[id]);
		d->asked_us[id] = 0;
		d->m.done++;
		d->m.bytes += (size_t)n;
		d->rcode = m[3] & 15u;
		if (d->is_running)
			ask(d, id);
	}
}

/* True while any query is on its way. */
static bool
expire(struct dnsload *d)
{
	uint64_t now = measure_now_us();
	bool is_busy = false;

	for (size_t id = 0; id < d->window; id++) {
		if (d->asked_us[id] != 0 && now - d->asked_us[id] > PATIENCE_US) {
			d->asked_us[id] = 0;
			d->m.failed++;
		}
		if (d->asked_us[id] == 0 && d->is_running)
			ask(d, id);
		is_busy = is_busy || d->asked_us[id] != 0;
	}
	return is_busy;
}

static void
turn(struct dnsload *d)
{
	struct epoll_event ready[SOCKETS];
	int n = epoll_wait(d->poll, ready, SOCKETS, 50);

	for (int i = 0; i < n; i++)
		on_readable(d, ready[i].data.fd);
}

static void
run_for(struct dnsload *d, uint64_t us)
{
	uint64_t now = measure_now_us(), end = now + us, look = 0;

	d->is_running = true;
	for (; now < end; now = measure_now_us()) {
		if (now >= look) {
			(void)expire(d);
			look = now + 100000;
		}
		turn(d);
	}
	d->is_running = false;
	while (expire(d))
		turn(d);
}

static void
open_sockets(struct dnsload *d, const struct sockaddr_in *to)
{
	for (size_t i = 0; i < SOCKETS; i++) {
		struct epoll_event ev = { .events = EPOLLIN };

		d->fds[i] = ev.data.fd = socket(AF_INET, SOCK_DGRAM, 0);
		if (d->fds[i] < 0 ||
		    connect(d->fds[i], (const struct sockaddr *)to, sizeof(*to)) != 0 ||
		    epoll_ctl(d->poll, EPOLL_CTL_ADD, d->fds[i], &ev) != 0)
			exit(2);
	}
}

int
main(int argc, char **argv)
{
	struct dnsload d = { .poll = epoll_create1(0),
			     .name = measure_text(argv, "name", "ok.test"),
			     .window = measure_number(argv, "window", 64),
			     .next = measure_number(argv, "from", 0) };
	struct sockaddr_in to;

	(void)argc;
	measure_address(argv, &to);
	if (d.window > WINDOW_MAX || d.poll < 0)
		return 2;
	open_sockets(&d, &to);
	run_for(&d, 300000);
	d.m = (struct measure){ 0 };
	measure_ready();
	d.m.began_us = measure_now_us();
	run_for(&d, measure_number(argv, "seconds", 2) * 1000000);
	d.m.ended_us = measure_now_us();
	fprintf(stderr, "dnsload: last rcode %u\n", d.rcode);
	measure_tell(&d.m);
	return 0;
}

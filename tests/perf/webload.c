/*
 * webload KEY=VALUE...: drives HTTP through a gateway; see measure.h for its lines.
 *
 *	to= port=     the gateway
 *	mode=         keep    requests on connections that stay
 *	              new     a connection with its handshake, one request, the end
 *	              idle    open the connections with a request each, and do nothing
 *	host=         the name in the hello; a % in it and in the authority is another
 *	              number for each connection
 *	from=         the first of these numbers
 *	authority= path=
 *	tls= h2=      1 or 0
 *	pace=         so many milliseconds from one new connection to the next
 *	conns= streams= size= seconds=
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/base/num.h"
#include "tests/perf/web_link.h"

enum { WARM_US = 300000, FAILED_MAX = 1000 };

enum mode { MODE_KEEP, MODE_NEW, MODE_IDLE };

struct load {
	struct web web;
	enum mode mode;
	struct web_link *links;
	uint64_t conns, size, open, busy, number, pace_us, begun_us;
	struct measure m;
	bool is_running;
};

static void
open_link(struct load *l, struct web_link *k)
{
	k->number = l->number++;
	web_open(&l->web, k);
}

static bool
is_time(struct load *l)
{
	uint64_t now = measure_now_us();

	if (now - l->begun_us < l->pace_us)
		return false;
	l->begun_us = now;
	return true;
}

static void
ask(struct load *l, struct web_slot *s)
{
	l->busy++;
	web_ask(s);
	if (l->mode == MODE_NEW) /* there it began with the connection */
		s->asked_us = s->link->began_us;
}

static void
on_open(struct web_link *k)
{
	struct load *l = k->web->ctx;

	l->open++;
	if (l->mode != MODE_KEEP || l->is_running)
		for (size_t i = 0; i < (l->mode == MODE_KEEP ? k->slots_n : 1); i++)
			ask(l, &k->slots[i]);
}

static void
on_done(struct web_slot *s)
{
	struct load *l = s->link->web->ctx;

	l->busy--;
	if (s->bytes != l->size) {
		fprintf(stderr, "webload: %llu octets\n", (unsigned long long)s->bytes);
		exit(4);
	}
	l->m.done++;
	l->m.bytes += s->bytes;
	measure_latency(&l->m, measure_now_us() - s->asked_us);
	if (l->mode == MODE_NEW)
		web_close(s->link);
	else if (l->mode == MODE_KEEP && l->is_running)
		ask(l, s);
}

static void
on_end(struct web_link *k)
{
	struct load *l = k->web->ctx;

	for (size_t i = 0; i < k->slots_n; i++)
		l->busy -= k->slots[i].is_busy;
	if (++l->m.failed > FAILED_MAX) {
		fprintf(stderr, "webload: too many connections fail\n");
		exit(5);
	}
}

static void
run_for(struct load *l, uint64_t us)
{
	uint64_t end = measure_now_us() + us;

	l->is_running = true;
	for (uint64_t i = 0; l->mode == MODE_KEEP && i < l->conns; i++) {
		for (size_t j = 0; l->links[i].is_open && j < l->links[i].slots_n; j++)
			ask(l, &l->links[i].slots[j]);
		web_flush(&l->links[i]);
	}
	while (measure_now_us() < end) {
		for (uint64_t i = 0; l->mode != MODE_IDLE && i < l->conns; i++)
			if (l->links[i].fd < 0 && is_time(l))
				open_link(l, &l->links[i]);
		web_turn(&l->web, l->pace_us > 0 ? 1 : 20);
	}
	l->is_running = false;
}

/* Everything that was asked is answered, or it has failed. */
static void
settle(struct load *l)
{
	uint64_t end = measure_now_us() + 20000000;

	while (l->busy > 0 && measure_now_us() < end)
		web_turn(&l->web, 20);
	l->m.failed += l->busy;
}

static void
open_all(struct load *l)
{
	uint64_t end = measure_now_us() + 60000000, begun = 0;

	while ((l->open < l->conns || l->busy > 0) && measure_now_us() < end) {
		while (begun < l->conns && begun < l->open + 16)
			open_link(l, &l->links[begun++]);
		web_turn(&l->web, 20);
	}
	if (l->open < l->conns) {
		fprintf(stderr, "webload: %llu of %llu are open\n",
			(unsigned long long)l->open, (unsigned long long)l->conns);
		exit(5);
	}
}

static void
prepare(struct load *l, char **argv)
{
	const char *mode = measure_text(argv, "mode", "keep");

	l->mode = strcmp(mode, "new") == 0    ? MODE_NEW
		  : strcmp(mode, "idle") == 0 ? MODE_IDLE
					      : MODE_KEEP;
	l->size = measure_number(argv, "size", 1024);
	l->conns = measure_number(argv, "conns", 64);
	l->number = measure_number(argv, "from", 0);
	l->pace_us = measure_number(argv, "pace", 0) * 1000;
	measure_address(argv, &l->web.to);
	l->web.is_tls = measure_number(argv, "tls", 1) != 0;
	l->web.is_h2 = measure_number(argv, "h2", 0) != 0;
	l->web.slots_n = num_min(measure_number(argv, "streams", 1), WEB_SLOTS);
	l->web.host = measure_text(argv, "host", "");
	l->web.authority = measure_text(argv, "authority", l->web.host);
	l->web.path = measure_text(argv, "path", "/1024");
	l->web.on_open = on_open;
	l->web.on_done = on_done;
	l->web.on_end = on_end;
	l->web.ctx = l;
	web_start(&l->web);
	l->links = calloc(l->conns, sizeof *l->links);
	if (l->links == NULL)
		exit(2);
	for (uint64_t i = 0; i < l->conns; i++)
		l->links[i].fd = -1;
}

int
main(int argc, char **argv)
{
	struct load l = { 0 };
	uint64_t seconds = measure_number(argv, "seconds", 2);

	(void)argc;
	prepare(&l, argv);
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

#include "proxy/dialer/upstream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "proxy/dialer/channel.h"
#include "proxy/dialer/ids.h"

enum {
	TEST_WAIT_MS = 2000,
	TEST_QUESTIONS = 4 * CHANNEL_QUESTIONS, /* from one channel in a row */
	/* Up to 256 octets come whole once the kernel's pool is ready (getrandom(2)).
	 */
	NOISE_QUESTIONS = 256 / PACKET_NOISE,
};

struct slot { /* a channel and what it is busy with */
	struct upstream *up;
	struct channel *channel;
	struct loop_timer timeout;
	struct question *question; /* NULL: idle, and then in up->idle */
	struct list link;
};

struct question {
	struct list link; /* in up->waiting, or alone */
	upstream_fn fn;
	void *ctx;
	struct quota_share *share; /* while a slot works for it */
	struct packet_query packet;
	uint16_t type;
	uint32_t attempt; /* 0: the first */
	size_t server;    /* asked by this attempt */
	size_t name_len, starter_len;
	char text[]; /* name, then starter */
};

struct upstream {
	struct loop *loop;
	struct quota *quota;
	struct stats *stats;
	struct slot slots[UPSTREAM_CHANNELS];
	struct list idle, waiting;
	size_t waiting_n;
	struct image_server servers[UPSTREAM_SERVERS];
	size_t servers_n, preferred;
	uint32_t tries;
	uint64_t timeout_ms;
	uint8_t noise[NOISE_QUESTIONS * PACKET_NOISE];
	size_t noise_n; /* not used yet; from the end */
	int sink;       /* for upstream_test(); -1 afterwards */
};

static void pump(struct upstream *u);
static void next_attempt(struct slot *s);

static struct str
question_name(const struct question *q)
{
	return str_of(q->text, q->name_len);
}

/* A new id and new letters for each, from the kernel for some at a time. */
static enum status
make_packet(struct upstream *u, struct str name, uint16_t type,
	    struct packet_query *ret_q)
{
	if (u->noise_n == 0) {
		if (getrandom(u->noise, sizeof(u->noise), 0) !=
		    (ssize_t)sizeof(u->noise))
			return ST_SYSTEM;
		u->noise_n = NOISE_QUESTIONS;
	}
	u->noise_n--;
	return packet_make_query(name, type, u->noise + u->noise_n * PACKET_NOISE,
				 ret_q);
}

static void
finish(struct slot *s, enum status st, const struct packet_answer *a)
{
	struct upstream *u = s->up;
	struct question *q = s->question;

	loop_timer_clear(&s->timeout);
	s->question = NULL;
	list_append(&u->idle, &s->link);
	quota_give_lookup(u->quota, q->share);
	q->fn(q->ctx, st, a);
	free(q);
	pump(u);
}

static void
on_packet(void *ctx, enum status st, struct str packet)
{
	struct slot *s = ctx;
	struct packet_answer a;

	if (st == ST_OK)
		st = packet_read_answer(&s->question->packet, packet, &a);
	if (st == ST_NO_FILES) {
		finish(s, st, NULL);
		return;
	}
	if (st != ST_OK) {
		channel_renew(s->channel);
		s->question->attempt++;
		next_attempt(s);
		return;
	}
	s->up->preferred = s->question->server;
	finish(s, ST_OK, &a);
}

static void
on_timeout(void *ctx)
{
	struct slot *s = ctx;

	channel_cancel(s->channel);
	channel_renew(s->channel);
	s->question->attempt++;
	next_attempt(s);
}

static enum status
attempt(struct slot *s)
{
	struct upstream *u = s->up;
	struct question *q = s->question;

	q->server = (u->preferred + q->attempt) % u->servers_n;
	enum status st = make_packet(u, question_name(q), q->type, &q->packet);
	if (st != ST_OK)
		return st;
	return channel_ask(s->channel, &u->servers[q->server], &q->packet, on_packet,
			   s);
}

static void
next_attempt(struct slot *s)
{
	struct upstream *u = s->up;

	while (s->question->attempt < u->tries * u->servers_n) {
		if (attempt(s) == ST_OK) {
			loop_timer_set(&s->timeout, u->timeout_ms);
			return;
		}
		s->question->attempt++;
	}
	finish(s, ST_DNS_FAILED, NULL);
}

/* The timer starts a question that pump() chose: fn never runs inside upstream_ask().
 */
static void
on_slot_timer(void *ctx)
{
	struct slot *s = ctx;

	if (s->question->attempt == UINT32_MAX) {
		s->question->attempt = 0;
		next_attempt(s);
	} else {
		on_timeout(s);
	}
}

static bool
start(struct upstream *u, struct question *q)
{
	struct str starter = str_of(q->text + q->name_len, q->starter_len);

	if (quota_take_lookup(u->quota, starter, UPSTREAM_SHARE, &q->share) != ST_OK)
		return false;
	struct slot *s = LIST_OF(u->idle.next, struct slot, link);
	list_remove(&s->link);
	list_remove(&q->link);
	u->waiting_n--;
	s->question = q;
	q->attempt = UINT32_MAX;
	loop_timer_set(&s->timeout, 0);
	return true;
}

static void
pump(struct upstream *u)
{
	list_each_safe (it, &u->waiting) {
		if (list_is_empty(&u->idle))
			return;
		(void)start(u, LIST_OF(it, struct question, link));
	}
}

enum status
upstream_ask(struct upstream *u, const struct upstream_question *uq)
{
	if (u->servers_n == 0 || u->waiting_n >= UPSTREAM_WAITING)
		return ST_DNS_FAILED;
	struct question *q = calloc(1, sizeof(*q) + uq->name.n + uq->starter.n);
	if (q == NULL)
		return ST_NOMEM;
	q->fn = uq->fn;
	q->ctx = uq->ctx;
	q->type = uq->type;
	q->name_len = uq->name.n;
	q->starter_len = uq->starter.n;
	memcpy(q->text, uq->name.p, uq->name.n);
	if (uq->starter.n > 0)
		memcpy(q->text + uq->name.n, uq->starter.p, uq->starter.n);
	list_append(&u->waiting, &q->link);
	u->waiting_n++;
	stats_add(u->stats, STAT_LOOKUPS, 1);
	pump(u);
	return ST_OK;
}

void
upstream_set_image(struct upstream *u, const struct image *im)
{
	size_t n = 0;
	const struct image_server *servers = image_resolvers(im, &n);

	u->servers_n = num_min(n, UPSTREAM_SERVERS);
	if (u->servers_n > 0)
		memcpy(u->servers, servers, u->servers_n * sizeof(servers[0]));
	u->preferred = 0;
	u->tries = (uint32_t)image_number(im, OPT_RESOLVER_TRIES);
	u->timeout_ms = image_number(im, OPT_RESOLVER_TIMEOUT);
	for (size_t i = 0; i < UPSTREAM_CHANNELS; i++)
		channel_mark(u->slots[i].channel,
			     (uint32_t)image_number(im, OPT_EGRESS_MARK));
}

void
upstream_set_stats(struct upstream *u, struct stats *stats)
{
	u->stats = stats;
}

static enum status
open_sink(int *ret_fd)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd == -1)
		return ST_SYSTEM;
	if (bind(fd, (const struct sockaddr *)&sin, sizeof(sin)) == -1) {
		(void)close(fd);
		return ST_SYSTEM;
	}
	*ret_fd = fd;
	return ST_OK;
}

enum status
upstream_new(struct loop *l, struct quota *quota, struct upstream **ret_u)
{
	struct upstream *u = calloc(1, sizeof(*u));
	enum status st = ST_OK;

	if (u == NULL)
		return ST_NOMEM;
	u->loop = l;
	u->quota = quota;
	u->sink = -1;
	list_init(&u->idle);
	list_init(&u->waiting);
	for (size_t i = 0; i < UPSTREAM_CHANNELS && st == ST_OK; i++) {
		struct slot *s = &u->slots[i];
		s->up = u;
		st = channel_new(l, &s->channel);
		loop_timer_init(&s->timeout, l, on_slot_timer, s);
		list_append(&u->idle, &s->link);
	}
	if (st == ST_OK)
		st = open_sink(&u->sink);
	if (st != ST_OK) {
		upstream_free(u);
		return st;
	}
	*ret_u = u;
	return ST_OK;
}

void
upstream_free(struct upstream *u)
{
	if (u == NULL)
		return;
	for (size_t i = 0; i < UPSTREAM_CHANNELS; i++) {
		struct slot *s = &u->slots[i];
		if (s->up == NULL)
			continue;
		loop_timer_clear(&s->timeout);
		if (s->question != NULL)
			quota_give_lookup(u->quota, s->question->share);
		free(s->question);
		channel_free(s->channel);
	}
	list_each_safe (it, &u->waiting)
		free(LIST_OF(it, struct question, link));
	if (u->sink != -1)
		(void)close(u->sink);
	free(u);
}

static void
on_test_packet(void *ctx, enum status st, struct str packet)
{
	(void)ctx;
	(void)st;
	(void)packet;
}

static enum status
receive(int sink, uint16_t *ret_id, uint16_t *ret_port)
{
	struct pollfd p = { .fd = sink, .events = POLLIN };
	struct sockaddr_in from = { 0 };
	socklen_t from_len = sizeof(from);
	uint8_t packet[PACKET_QUERY_MAX] = { 0 };

	if (poll(&p, 1, TEST_WAIT_MS) != 1)
		return ST_TIMEOUT;
	ssize_t n = recvfrom(sink, packet, sizeof(packet), 0, (struct sockaddr *)&from,
			     &from_len);
	if (n < 2 || from_len != sizeof(from))
		return ST_SYSTEM;
	*ret_id = num_be16(packet);
	*ret_port = ntohs(from.sin_port);
	return ST_OK;
}

static enum status
test_once(struct slot *s, const struct image_server *sink, uint16_t *ret_id,
	  uint16_t *ret_port)
{
	struct packet_query q;
	enum status st = make_packet(s->up, STR("self.test"), PACKET_TYPE_A, &q);

	if (st == ST_OK)
		st = channel_ask(s->channel, sink, &q, on_test_packet, NULL);
	if (st == ST_OK)
		st = receive(s->up->sink, ret_id, ret_port);
	channel_cancel(s->channel);
	return st;
}

enum status
upstream_test(struct upstream *u)
{
	uint16_t ids[IDS_SAMPLE], ports[IDS_SAMPLE];
	struct sockaddr_in sin;
	socklen_t len = sizeof(sin);
	struct image_server sink;
	enum status st = ST_OK;

	need(u->sink != -1);
	if (getsockname(u->sink, (struct sockaddr *)&sin, &len) == -1 ||
	    !addr_from_sockaddr((const struct sockaddr *)&sin, &sink.addr, &sink.port))
		return ST_SYSTEM;
	for (size_t i = 0; i < IDS_SAMPLE && st == ST_OK; i++)
		st = test_once(&u->slots[i / TEST_QUESTIONS], &sink, &ids[i],
			       &ports[i]);
	(void)close(u->sink);
	u->sink = -1;
	if (st == ST_OK && (!ids_are_plausible(ids) || !ids_ports_are_renewed(ports)))
		st = ST_INTERNAL;
	return st;
}

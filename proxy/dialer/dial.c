#include "proxy/dialer/dial.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf/policy.h"
#include "proxy/dialer/parent.h"
#include "proxy/dialer/place.h"
#include "proxy/dialer/race.h"

enum { WATCH_AFTER_MS = 50 };

struct dial {
	struct dialer *dialer;
	struct peer *peer;
	struct list link; /* in dialer->dials */
	uint32_t seq, handle;
	int fd; /* the sandbox's own socket */
	struct quota_share *share;
	enum policy_way way;
	struct dest dest;   /* what is judged */
	struct dest target; /* what is dialled: dest, or the parent proxy */
	bool is_via, is_done, is_watched;
	uint8_t lookups_left;
	enum status dns_failed;   /* ST_OK: none did */
	struct place_found found; /* of the address judged last */
	struct resolve_wait wait4, wait6;
	struct loop_timer deadline, resolution;
	struct race race;
};

static const struct race_result nothing = { .st = ST_INTERNAL, .fd = -1 };

static void
answer(struct peer *p, uint32_t seq, const struct dial *d, const struct race_result *r)
{
	CLEANUP(buf_done) struct buf b, address;
	struct str text = STR("");

	buf_init(&b, 512);
	buf_init(&address, 64);
	if (r->st == ST_OK) {
		struct dest at;
		if (dest_from_addr(&r->addr, d->target.port, &at) == ST_OK)
			dest_put(&address, &at);
		if (buf_finish(&address, &text) != ST_OK)
			text = STR("");
	}
	buf_put_u16(&b, (uint16_t)r->st);
	buf_put_u32(&b, d == NULL ? RULE_NONE : d->found.rule);
	wire_put_str(&b, text);
	wire_put_str(&b, d == NULL ? STR("") : str_from(d->found.country));
	buf_put_u8(&b, r->attempts);
	buf_put_u8(&b, d != NULL && d->is_via);
	peer_answer(p, ASK_DIAL, seq, &b, r->st == ST_OK ? r->fd : -1);
}

static void
refuse(struct peer *p, uint32_t seq, enum status why)
{
	struct race_result r = nothing;

	r.st = why;
	stats_refused(p->dialer->role.stats, why);
	answer(p, seq, NULL, &r);
}

static void
end(struct dial *d)
{
	struct dialer *all = d->dialer;

	d->is_done = true;
	/* The worker's copy keeps the open file alive: closing ours does not end the
	 * watch. */
	if (d->is_watched)
		(void)epoll_ctl(all->watch, EPOLL_CTL_DEL, d->fd, NULL);
	(void)close(d->fd);
	resolve_stop(&d->wait4);
	resolve_stop(&d->wait6);
	race_clear(&d->race);
	loop_timer_clear(&d->deadline);
	loop_timer_clear(&d->resolution);
	list_remove(&d->link);
	quota_give_dial(&all->quota, d->share);
	all->dials_n--;
	loop_defer(all->loop, free, d);
	dialer_idle_check(all);
}

static void
finish(struct dial *d, const struct race_result *r)
{
	struct stats *stats = d->dialer->role.stats;

	if (d->is_done)
		return;
	if (r->st != ST_OK) {
		stats_add(stats, STAT_DIALS_FAILED, 1);
		stats_refused(stats, r->st);
	}
	answer(d->peer, d->seq, d, r);
	if (r->fd != -1)
		(void)close(r->fd);
	end(d);
}

static void
fail(struct dial *d, enum status why)
{
	struct race_result r = nothing;

	r.st = why;
	r.attempts = d->race.attempts_n;
	finish(d, &r);
}

static struct place
place_of(const struct dialer *d)
{
	return (struct place){ .image = d->role.image,
			       .countries = d->countries,
			       .networks = d->networks };
}

static enum status
may_parent(const struct dial *d, const struct addr *a)
{
	/* The operator says where it is; that it is not us is ours to see. */
	if (addr_classify(a) == ADDR_METADATA)
		return ST_ADDRESS_METADATA;
	return place_is_self(d->dialer->role.image, a, d->target.port) ? ST_ADDRESS_SELF
								       : ST_OK;
}

static enum status
may_dial(void *ctx, const struct addr *a)
{
	struct dial *d = ctx;
	const struct who *w = who_by_handle(d->dialer->role.who, d->handle);
	struct place p = place_of(d->dialer);

	if (w == NULL)
		return ST_UNKNOWN_SANDBOX;
	if (d->is_via)
		return may_parent(d, a);
	return place_judge(&p, w, &d->dest, a, &d->found);
}

static void
on_race_done(void *ctx, const struct race_result *result)
{
	struct dial *d = ctx;
	struct race_result r = *result;

	if (r.st == ST_END)
		r.st = d->dns_failed != ST_OK ? d->dns_failed : ST_DNS_NOT_FOUND;
	finish(d, &r);
}

static const struct race_hooks race_hooks = { .may = may_dial, .done = on_race_done };

static void
on_deadline(void *ctx)
{
	struct dial *d = ctx;
	bool is_resolving = d->lookups_left == 2 ||
			    (d->lookups_left > 0 && !race_is_running(&d->race));

	fail(d, is_resolving ? ST_DNS_FAILED : ST_CONNECT_TIMEOUT);
}

static void
on_resolution(void *ctx)
{
	struct dial *d = ctx;

	race_run(&d->race);
}

static void
got_addresses(struct dial *d, uint8_t family, const struct packet_answer *a)
{
	d->lookups_left--;
	if (a->st == ST_OK)
		race_add(&d->race, a->addrs, a->n);
	else if (a->st != ST_DNS_NOT_FOUND)
		d->dns_failed = a->st;
	if (d->lookups_left == 0)
		race_complete(&d->race);
	if (d->lookups_left == 0 || race_is_running(&d->race) ||
	    (family == 6 && a->st == ST_OK && a->n > 0))
		race_run(&d->race);
	else if (a->st == ST_OK && a->n > 0)
		loop_timer_set(&d->resolution, DIAL_RESOLUTION_DELAY_MS);
}

static void
on_v4(void *ctx, const struct packet_answer *a)
{
	got_addresses(ctx, 4, a);
}

static void
on_v6(void *ctx, const struct packet_answer *a)
{
	got_addresses(ctx, 6, a);
}

static void
look_up(struct dial *d, const struct who *w, uint8_t family)
{
	struct resolve_wait *wait = family == 4 ? &d->wait4 : &d->wait6;
	struct resolve_question q = {
		.name = dest_name(&d->target),
		.type = family == 4 ? PACKET_TYPE_A : PACKET_TYPE_AAAA,
		.sandbox = w->id,
	};
	struct packet_answer a = { .st = ST_OK };

	wait->fn = family == 4 ? on_v4 : on_v6;
	wait->ctx = d;
	enum status st = resolve_ask(d->dialer->resolve, &q, wait, &a);
	if (st == ST_AGAIN)
		return;
	if (st != ST_OK)
		a.st = st;
	got_addresses(d, family, &a);
}

static enum status
judge_name(struct dial *d, const struct who *w)
{
	struct policy_question q = { .policy = w->policy,
				     .dest = &d->dest,
				     .way = d->way };
	struct policy_answer a;

	policy_judge(d->dialer->role.image, &q, &a);
	d->found.rule = a.rule;
	if (a.action == ACTION_DENY)
		return a.reason;
	/* A worker has no business there: the connector asks for itself. */
	return a.connector == CONNECTOR_NONE ? ST_OK : ST_NEEDS_CONNECTOR;
}

/* A name that the parent resolves lies at a place nobody knows: any public address
 * stands for it, without country and network, so rules that want one refuse. */
static enum status
judge_unseen(struct dial *d, const struct who *w)
{
	static const struct addr public = { .family = 4, .b = { 1, 1, 1, 1 } };
	struct policy_place place = { .addr = &public };

	return policy_address(d->dialer->role.image, w->policy, &d->dest, &place,
			      &d->found.rule);
}

static enum status
judge(struct dial *d, const struct who *w)
{
	struct place p = place_of(d->dialer);
	enum status st = judge_name(d, w);

	if (st != ST_OK || !d->is_via)
		return st;
	return dest_is_name(&d->dest)
		       ? judge_unseen(d, w)
		       : place_judge(&p, w, &d->dest, &d->dest.addr, &d->found);
}

static void
begin(struct dial *d, const struct who *w)
{
	const struct image *im = d->dialer->role.image;

	race_set(&d->race, d->target.port, image_number(im, OPT_CONNECT_DELAY));
	loop_timer_set(&d->deadline, image_number(im, OPT_CONNECT_TIMEOUT));
	if (dest_is_name(&d->target)) {
		d->lookups_left = 2;
		look_up(d, w, 6);
		look_up(d, w, 4);
		return;
	}
	race_add(&d->race, &d->target.addr, 1);
	race_complete(&d->race);
	race_run(&d->race);
}

/* Events of its own it needs none: the kernel always tells of death. */
static void
watch_socket(struct dial *d)
{
	struct epoll_event ev = { .events = 0, .data.ptr = d };

	d->is_watched = epoll_ctl(d->dialer->watch, EPOLL_CTL_ADD, d->fd, &ev) == 0;
}

/* Most dials are answered before it is worth two system calls to watch for a death. */
void
dial_watch_late(void *ctx)
{
	struct dialer *all = ctx;

	list_each (it, &all->dials) {
		struct dial *d = LIST_OF(it, struct dial, link);
		if (!d->is_watched)
			watch_socket(d);
	}
}

void
dial_watch(void *ctx, unsigned events)
{
	struct dialer *all = ctx;
	struct epoll_event ready[64];

	(void)events;
	int n = epoll_wait(all->watch, ready, COUNT_OF(ready), 0);
	for (int i = 0; i < n; i++)
		fail(ready[i].data.ptr, ST_CLIENT_GONE);
}

static enum status
read_dest(const struct image *im, struct str host, uint16_t port, struct dest *ret_d)
{
	enum status st = dest_from_host(host, port, ret_d);
	size_t n = 0;
	struct dest d;

	/* One label is a name only where the operator gave it an address. */
	if (st != ST_BAD_HOST || dest_from_host_single(host, port, &d) != ST_OK)
		return st;
	(void)image_host_addrs(im, dest_name(&d), &n);
	if (n == 0)
		return st;
	*ret_d = d;
	return ST_OK;
}

/* An accepted connection that still stands: nothing else speaks for a sandbox. */
static const struct who *
who_asks(struct dialer *all, int fd)
{
	struct sockaddr_storage ss;
	socklen_t n = sizeof(ss);
	int type = 0;
	socklen_t type_n = sizeof(type);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_n) == -1 ||
	    type != SOCK_STREAM || getpeername(fd, (struct sockaddr *)&ss, &n) == -1)
		return NULL;
	return who_by_peer(all->role.who, fd, &ss);
}

struct wish { /* the body of the ask */
	struct str host;
	uint16_t port;
	uint8_t way;
};

static enum status
admit(struct dial *d, const struct wish *wish)
{
	struct dialer *all = d->dialer;
	const struct image *im = all->role.image;
	const struct who *w = who_asks(all, d->fd);

	if (w == NULL)
		return ST_UNKNOWN_SANDBOX;
	if (all->is_draining)
		return ST_DRAINING;
	enum status st = read_dest(im, wish->host, wish->port, &d->dest);
	if (st != ST_OK)
		return st;
	/* Of a plain request the worker knows more than is told here. */
	d->way = wish->way == WAY_HTTP ? WAY_ANY : (enum policy_way)wish->way;
	d->handle = w->handle;
	d->is_via = parent_for(im, &d->dest, &d->target);
	if (!d->is_via)
		d->target = d->dest;
	st = judge(d, w);
	if (st != ST_OK)
		return st;
	if (all->dials_n >= DIALS_MAX)
		return ST_LIMIT_CONNECTIONS;
	return quota_take_dial(&all->quota, w->id,
			       image_limits(im, w->limits)->connections, &d->share);
}

static void
start(struct peer *p, uint32_t seq, int fd, const struct wish *wish)
{
	struct dialer *all = p->dialer;
	struct dial *d = calloc(1, sizeof(*d));
	enum status st = ST_NOMEM;

	if (d != NULL) {
		d->dialer = all;
		d->peer = p;
		d->seq = seq;
		d->fd = fd;
		d->found.rule = RULE_NONE;
		st = admit(d, wish);
	}
	if (st != ST_OK) {
		refuse(p, seq, st);
		(void)close(fd);
		free(d);
		return;
	}
	stats_add(all->role.stats, STAT_DIALS, 1);
	list_append(&all->dials, &d->link);
	all->dials_n++;
	loop_timer_init(&d->deadline, all->loop, on_deadline, d);
	loop_timer_init(&d->resolution, all->loop, on_resolution, d);
	race_init(&d->race, all->loop, &race_hooks, d);
	if (!loop_timer_is_set(&all->watch_soon))
		loop_timer_set(&all->watch_soon, WATCH_AFTER_MS);
	begin(d, who_by_handle(all->role.who, d->handle));
}

void
dial_heard(struct peer *p, struct ask_msg *m)
{
	struct wire w = wire_from(m->body);
	struct wish wish = { .host = wire_str(&w) };

	wish.port = wire_u16(&w);
	wish.way = wire_u8(&w);
	if (wire_end(&w) != ST_OK || wish.way > WAY_TCP || m->fds_n != 1) {
		peer_kill(p, ST_BAD_MESSAGE);
		return;
	}
	if (wish.port == 0)
		refuse(p, m->seq, ST_BAD_PORT);
	else
		start(p, m->seq, ask_msg_take(m, 0), &wish);
}

void
dial_cancel_peer(struct peer *p)
{
	list_each_safe (it, &p->dialer->dials) {
		struct dial *d = LIST_OF(it, struct dial, link);
		if (d->peer == p)
			end(d);
	}
}

void
dial_cancel_sandbox(struct dialer *all, uint32_t handle)
{
	list_each_safe (it, &all->dials) {
		struct dial *d = LIST_OF(it, struct dial, link);
		if (d->handle == handle)
			fail(d, ST_UNKNOWN_SANDBOX);
	}
}

void
dial_judge_again(struct dialer *all)
{
	struct dest parent;

	list_each_safe (it, &all->dials) {
		struct dial *d = LIST_OF(it, struct dial, link);
		const struct who *w = who_asks(all, d->fd);
		enum status st = ST_UNKNOWN_SANDBOX;
		if (w != NULL) {
			d->handle = w->handle;
			st = judge(d, w);
		}
		/* Another way out than the one that was begun: ask again. */
		if (st == ST_OK &&
		    parent_for(all->role.image, &d->dest, &parent) != d->is_via)
			st = ST_RELOADED;
		if (st != ST_OK)
			fail(d, st);
	}
}

#include "proxy/dialer/dial_in.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include "proxy/io/sock.h"

enum { WATCH_AFTER_MS = 50 };

static const struct race_result nothing = { .st = ST_INTERNAL, .fd = -1 };

static void
answer(struct peer *p, enum ask a, uint32_t seq, const struct dial *d,
       const struct race_result *r)
{
	CLEANUP(buf_done) struct buf b = { 0 }, address = { 0 };
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
	peer_answer(p, a, seq, &b, r->st == ST_OK ? r->fd : -1);
}

void
dial_refuse_ask(struct peer *p, enum ask a, uint32_t seq, enum status why)
{
	struct race_result r = nothing;

	r.st = why;
	stats_refused(dialer_of(p)->role.stats, why);
	answer(p, a, seq, NULL, &r);
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
	if (d->fd != -1)
		sock_close_passed(d->fd);
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
	answer(d->peer, d->ask, d->seq, d, r);
	if (r->fd != -1)
		sock_close_passed(r->fd);
	end(d);
}

void
dial_fail(struct dial *d, enum status why)
{
	struct race_result r = nothing;

	r.st = why;
	r.attempts = d->race.attempts_n;
	finish(d, &r);
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

static const struct race_hooks race_hooks = { .may = dial_may, .done = on_race_done };

static void
on_deadline(void *ctx)
{
	struct dial *d = ctx;
	bool is_resolving = d->lookups_left == 2 ||
			    (d->lookups_left > 0 && !race_is_running(&d->race));

	dial_fail(d, is_resolving ? ST_DNS_FAILED : ST_CONNECT_TIMEOUT);
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
look_up(struct dial *d, uint8_t family)
{
	struct resolve_wait *wait = family == 4 ? &d->wait4 : &d->wait6;
	struct resolve_question q = {
		.name = dest_name(&d->target),
		.type = family == 4 ? PACKET_TYPE_A : PACKET_TYPE_AAAA,
		.sandbox = dial_whose(d),
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

struct dial *
dial_new(struct peer *p, enum ask a, uint32_t seq, int fd)
{
	struct dial *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return NULL;
	d->dialer = dialer_of(p);
	d->peer = p;
	d->ask = a;
	d->seq = seq;
	d->fd = fd;
	d->found.rule = RULE_NONE;
	return d;
}

void
dial_refuse(struct dial *d, enum status why)
{
	dial_refuse_ask(d->peer, d->ask, d->seq, why);
	if (d->fd != -1)
		sock_close_passed(d->fd);
	free(d);
}

void
dial_begin(struct dial *d)
{
	struct dialer *all = d->dialer;
	const struct image *im = all->role.image;

	stats_add(all->role.stats, STAT_DIALS, 1);
	list_append(&all->dials, &d->link);
	all->dials_n++;
	loop_timer_init(&d->deadline, all->loop, on_deadline, d);
	loop_timer_init(&d->resolution, all->loop, on_resolution, d);
	race_init(&d->race, all->loop, &race_hooks, d);
	if (d->fd != -1 && !loop_timer_is_set(&all->watch_soon))
		loop_timer_set(&all->watch_soon, WATCH_AFTER_MS);

	race_set(&d->race, d->target.port, image_number(im, OPT_CONNECT_DELAY));
	race_mark(&d->race, (uint32_t)image_number(im, OPT_EGRESS_MARK));
	loop_timer_set(&d->deadline, image_number(im, OPT_CONNECT_TIMEOUT));
	if (dest_is_name(&d->target)) {
		d->lookups_left = 2;
		look_up(d, 6);
		look_up(d, 4);
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
		if (!d->is_watched && d->fd != -1)
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
		dial_fail(ready[i].data.ptr, ST_CLIENT_GONE);
}

void
dial_cancel_peer(struct peer *p)
{
	list_each_safe (it, &dialer_of(p)->dials) {
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
			dial_fail(d, ST_UNKNOWN_SANDBOX);
	}
}

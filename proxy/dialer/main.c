#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "proxy/dialer/dial.h"
#include "proxy/dialer/dialer.h"
#include "proxy/dialer/lookup.h"
#include "proxy/dialer/mark.h"
#include "proxy/dialer/parent.h"

void
dialer_idle_check(struct dialer *d)
{
	if (!d->is_draining || d->drain_seq == 0 || d->dials_n > 0 || d->lookups_n > 0)
		return;
	role_drained(&d->role, d->drain_seq);
	d->drain_seq = 0;
}

/* What control says of a socket that only a worker holds: the dialer sees it later. */
static void
grant_reach(struct peer *p, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct wire w = wire_from(m->body);
	struct reach_point point = { .cookie = wire_u64(&w) };

	point.server = wire_str(&w);
	point.host = wire_str(&w);
	point.port = wire_u16(&w);
	if (wire_end(&w) != ST_OK) {
		peer_kill(p, ST_BAD_MESSAGE);
		return;
	}
	buf_init(&b, 16);
	buf_put_u16(&b, (uint16_t)reach_grant(&dialer_of(p)->reach, &point));
	peer_answer(p, m->ask, m->seq, &b, -1);
}

static void
on_heard(struct peer *p, struct ask_msg *m)
{
	if (m->ask == ASK_DIAL)
		dial_heard(p, m);
	else if (m->ask == ASK_FETCH)
		dial_fetch_heard(p, m);
	else if (m->ask == ASK_REACH)
		dial_reach_heard(p, m);
	else if (m->ask == ASK_GRANT_REACH)
		grant_reach(p, m);
	else if (m->ask == ASK_RESOLVE)
		lookup_heard(p, m);
	else if (m->ask == ASK_GRANT)
		peer_grant(p, m);
	else
		peer_kill(p, ST_BAD_MESSAGE);
}

static void
on_ended(struct peer *p)
{
	dial_cancel_peer(p);
	lookup_cancel_peer(p);
}

static const struct peer_hooks peer_hooks = { .heard = on_heard, .ended = on_ended };

static enum status
given(void *ctx, enum give kind, uint32_t index, struct str text, struct ask_msg *m)
{
	struct dialer *d = ctx;

	/* What is attached leaves its traces in the table of sandboxes; nothing to
	 * hold. */
	if (kind == GIVE_REVOKED) {
		dial_cancel_sandbox(d, index);
		return ST_OK;
	}
	if (kind != GIVE_LINE || index >= ROLE_COUNT)
		return ST_BAD_MESSAGE;
	int fd = ask_msg_take(m, 0);
	if (fd == -1)
		return ST_BAD_MESSAGE;
	enum status st = peer_new(&d->peers, (enum role)index, text, fd);
	if (st != ST_OK)
		(void)close(fd);
	return st;
}

static enum status
open_database(const struct image *im, enum option opt, struct ask_msg *m, size_t *at,
	      struct geo **ret_g)
{
	if (image_text(im, opt).n == 0) {
		*ret_g = NULL;
		return ST_OK;
	}
	int fd = ask_msg_take(m, (*at)++);
	if (fd == -1)
		return ST_BAD_CONFIG;
	enum status st = geo_open(fd, ret_g);
	(void)close(fd);
	return st;
}

static void
drop_prepared(struct dialer *d)
{
	geo_close(d->next_countries);
	geo_close(d->next_networks);
	d->next_countries = d->next_networks = NULL;
}

/* Descriptors behind the image's, in this order, of those databases that it names. */
static enum status
prepare(void *ctx, const struct image *im, struct ask_msg *m)
{
	struct dialer *d = ctx;
	size_t at = 1;

	drop_prepared(d);
	if (image_number(im, OPT_EGRESS_MARK) != 0 && !d->may_mark) {
		log_error(&d->role.log, "egress_mark needs CAP_NET_ADMIN: start the "
					"gateway as root with it; a reload gives none");
		return ST_BAD_CONFIG;
	}
	enum status st = parent_check(im);
	if (st == ST_OK)
		st = open_database(im, OPT_GEO_COUNTRY, m, &at, &d->next_countries);
	if (st == ST_OK)
		st = open_database(im, OPT_GEO_ASN, m, &at, &d->next_networks);
	if (st != ST_OK) {
		log_error(&d->role.log, "the new configuration does not fit: %s",
			  status_code(st));
		drop_prepared(d);
	}
	return st;
}

static void
commit(void *ctx, const struct image *old)
{
	struct dialer *d = ctx;

	lookup_renumber(d, old);
	geo_close(d->countries);
	geo_close(d->networks);
	d->countries = d->next_countries;
	d->networks = d->next_networks;
	d->next_countries = d->next_networks = NULL;
	resolve_set_image(d->resolve, d->role.image);
	dial_judge_again(d);
}

static void
drain(void *ctx, uint32_t deadline_ms, uint32_t seq)
{
	struct dialer *d = ctx;

	(void)deadline_ms; /* super holds it; every dial has a time-out of its own */
	d->is_draining = true;
	d->drain_seq = seq;
	dialer_idle_check(d);
}

static void
on_sandbox(void *ctx, const struct who *w, bool present)
{
	if (present)
		dial_judge_again(ctx); /* it may have less than a moment ago */
	else
		dial_cancel_sandbox(ctx, w->handle);
}

static void
on_super(void *ctx, unsigned events)
{
	struct dialer *d = ctx;

	(void)events;
	if (role_heard(&d->role) == ST_END)
		loop_stop(d->loop);
}

static enum status
dialer_init(struct dialer *d)
{
	list_init(&d->dials);
	list_init(&d->lookups);
	quota_init(&d->quota);
	reach_init(&d->reach, REACH_MAX);
	enum status st = loop_new(&d->loop);
	d->peers = (struct peers){
		.role = &d->role, .loop = d->loop, .hooks = &peer_hooks, .ctx = d
	};
	list_init(&d->peers.all);
	if (st == ST_OK)
		st = upstream_new(d->loop, &d->quota, &d->up);
	if (st == ST_OK)
		st = resolve_new(d->loop, d->up, &d->resolve);
	d->watch = epoll_create1(EPOLL_CLOEXEC);
	if (st == ST_OK && d->watch == -1)
		st = ST_SYSTEM;
	return st;
}

static void
dialer_done(struct dialer *d)
{
	peers_end(&d->peers);
	loop_io_clear(&d->super);
	loop_io_clear(&d->watch_io);
	loop_timer_clear(&d->watch_soon);
	resolve_free(d->resolve);
	upstream_free(d->up);
	quota_done(&d->quota);
	reach_done(&d->reach);
	drop_prepared(d);
	geo_close(d->countries);
	geo_close(d->networks);
	loop_free(d->loop);
	(void)close(d->watch);
}

static void
serve(struct dialer *d)
{
	loop_io_init(&d->super, d->loop, d->role.super.fd, on_super, d);
	loop_io_first(&d->super);
	loop_io_want(&d->super, LOOP_READ);
	loop_io_init(&d->watch_io, d->loop, d->watch, dial_watch, d);
	loop_io_want(&d->watch_io, LOOP_READ);
	loop_timer_init(&d->watch_soon, d->loop, dial_watch_late, d);
	loop_run(d->loop);
}

int
main(void)
{
	struct dialer d = { .watch = -1 };
	struct role_hooks hooks = { .ctx = &d,
				    .given = given,
				    .prepare = prepare,
				    .commit = commit,
				    .drain = drain,
				    .sandbox = on_sandbox };

	uint64_t keep = mark_keep();

	d.may_mark = keep != 0;
	if (jail_early(ROLE_DIALER, keep) != ST_OK || dialer_init(&d) != ST_OK)
		return 1;
	role_start(&d.role, ROLE_DIALER, &hooks);
	resolve_set_stats(d.resolve, d.role.stats);
	role_enter(&d.role, NULL);
	/* In the jail, where a source of randomness could be out of reach. */
	enum status st = upstream_test(d.up);
	if (st != ST_OK) {
		log_error(&d.role.log, "query ids and ports do not look random: %s",
			  status_code(st));
		return 1;
	}
	serve(&d);
	dialer_done(&d);
	return 0;
}

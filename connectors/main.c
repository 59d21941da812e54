/*
 * sandgate-connector: calls company systems with credentials; see connector.h.
 */
#include <jansson.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "connectors/bond.h"
#include "connectors/call.h"
#include "connectors/gauge.h"
#include "connectors/lane.h"
#include "connectors/probe.h"
#include "connectors/revoke.h"
#include "connectors/store.h"
#include "connectors/upstream.h"
#include "connectors/wipe.h"
#include "proxy/base/clock.h"
#include "proxy/base/needle.h"

/* What was read is wiped with each tick; all else is looked after with each fourth. */
enum { TICK_MS = 250, TICKS = 4, HEAP_KEPT = 16 << 20 };

uint64_t
connector_option(const struct connector *all, enum option opt)
{
	return image_number(all->role.image, opt);
}

const struct image_connector *
connector_at(const struct connector *all, uint32_t index)
{
	size_t n = 0;
	const struct image_connector *of = image_connectors(all->role.image, &n);

	return index < n ? &of[index] : NULL;
}

uint64_t
connector_now_s(void)
{
	return clock_wall_us() / 1000000;
}

void
connector_check_drained(struct connector *all)
{
	if (!all->is_draining || all->is_drained || !list_is_empty(&all->lanes) ||
	    !list_is_empty(&all->calls) || !stores_are_drained(all))
		return;
	all->is_drained = true;
	loop_timer_clear(&all->drain);
	role_drained(&all->role, all->drain_seq);
}

void
connector_wake(struct connector *all)
{
	if (!loop_timer_is_set(&all->tick))
		loop_timer_set(&all->tick, TICK_MS);
}

static void
on_tick(void *ctx)
{
	struct connector *all = ctx;

	if (++all->ticks % TICKS == 0) {
		lanes_tick(all);
		upstream_tick(all);
	}
	/* What hosts sent lately, echoes of credentials perhaps: views of it are gone. */
	OPENSSL_cleanse(all->flow.space, all->flow.space_n);
	OPENSSL_cleanse(all->clean, all->clean_n);
	if (!list_is_empty(&all->lanes) || !list_is_empty(&all->upstreams))
		connector_wake(all);
}

/* The other end of a line is gone: every open call has had its answer by now. */
static void
on_lost(void *ctx, struct ask_line *line, enum status why)
{
	struct connector *all = ctx;

	(void)why; /* super has the death recorded and sends a new line */
	if (all->keeper == line)
		all->keeper = NULL;
	if (all->dialer == line)
		all->dialer = NULL;
	ask_line_free(line);
	loop_timer_set(&all->alone, ROLE_ALONE_MS);
}

/* No death, so no new line will come: the other end closed this one, because of what we
 * said on it. */
static void
on_alone(void *ctx)
{
	struct connector *all = ctx;

	if (all->keeper != NULL && all->dialer != NULL)
		return;
	log_error(&all->role.log, "ends: a neighbour closed its line and lives on");
	_exit(1);
}

static void
on_asked(struct peer *p, struct ask_msg *m)
{
	if (m->ask == ASK_LANE)
		lane_heard(p, m);
	else if (m->ask == ASK_GRANT_CONNECTOR)
		peer_grant(p, m);
	else if (m->ask == ASK_CALL)
		call_heard(p, m);
	else if (m->ask == ASK_PROBE)
		probe_heard(p, m);
	else if (m->ask == ASK_REVOKE)
		revoke_heard(p, m);
	else
		peer_kill(p, ST_BAD_MESSAGE);
}

static void
on_asker_gone(struct peer *p)
{
	calls_end(p->set->ctx, p);
	probes_end(p->set->ctx, p);
	revokes_end(p->set->ctx, p);
}

static const struct peer_hooks peer_hooks = { .heard = on_asked,
					      .ended = on_asker_gone };

static enum status
given_line(struct connector *all, enum role peer, struct str name, struct ask_msg *m)
{
	struct ask_end end = { .self = ROLE_CONNECTOR, .peer = peer };
	struct ask_line **slot = NULL;

	end.fd = ask_msg_take(m, 0);
	if (end.fd < 0)
		return ST_BAD_MESSAGE;
	if (peer == ROLE_KEEPER)
		slot = &all->keeper;
	else if (peer == ROLE_DIALER)
		slot = &all->dialer;
	/* An older line ends by itself, with the process at its other end: on_lost().
	 */
	enum status st =
		slot != NULL ? ask_line_new(all->loop, &end, NULL, on_lost, all, slot)
			     : peer_new(&all->peers, peer, name, end.fd);
	if (st != ST_OK)
		(void)close(end.fd);
	return st;
}

static enum status
on_given(void *ctx, enum give kind, uint32_t index, struct str text, struct ask_msg *m)
{
	struct connector *all = ctx;

	if (kind != GIVE_LINE)
		return ST_OK;
	enum status st = given_line(all, (enum role)index, text, m);
	if (st != ST_OK || index != ROLE_KEEPER)
		return st;
	(void)snprintf(all->group, sizeof all->group, "%.*s", STR_ARG(text));
	/* One that is new knows nothing of what sources keep. */
	if (all->role.image != NULL)
		stores_renew(all);
	return ST_OK;
}

static enum status
on_prepare(void *ctx, const struct image *im, struct ask_msg *m)
{
	struct connector *all = ctx;

	return tls_roots_prepare(&all->roots, im, m);
}

/* What the engines of HTTP go by. */
static void
renew_numbers(struct connector *all)
{
	all->flow.limits = (struct h1_limits){
		.fields = (size_t)connector_option(all, OPT_LIMIT_FIELDS),
		.line = (size_t)connector_option(all, OPT_LIMIT_LINE),
		.head = (size_t)connector_option(all, OPT_LIMIT_HEAD),
	};
	all->front_limits = (struct front_limits){
		.head_ms = connector_option(all, OPT_REQUEST_HEAD_TIMEOUT),
		/* A lane stays as long as its worker wants it. */
		.keepalive_ms = UINT32_MAX,
		.stalled_ms = connector_option(all, OPT_STALLED_TIMEOUT),
		.linger_bytes = connector_option(all, OPT_LIMIT_DENIED_DRAIN),
		.requests = UINT32_MAX,
		.streams = CONNECTOR_STREAMS,
		.window = CONNECTOR_WINDOW,
		.connection = (size_t)CONNECTOR_STREAMS * CONNECTOR_WINDOW,
		.heads = CONNECTOR_HEADS,
	};
	all->leg_limits = (struct leg_limits){
		.streams = CONNECTOR_STREAMS,
		.window = CONNECTOR_WINDOW,
		.connection = (size_t)CONNECTOR_STREAMS * CONNECTOR_WINDOW,
	};
}

static void
on_commit(void *ctx, const struct image *old)
{
	struct connector *all = ctx;

	renew_numbers(all);
	(void)tls_roots_commit(&all->roots);
	if (gauges_renew(all, old) != ST_OK)
		log_error(&all->role.log, "no memory to count by: %s",
			  status_code(ST_NOMEM));
	upstream_flush(all);
	/* First: a probe knows its connector by its place in the image before. */
	probes_end(all, NULL);
	stores_renew(all);
	if (old == NULL)
		return;
	stats_add(all->role.stats, STAT_RELOADS, 1);
	bonds_renew(all);
	lanes_judge(all, old);
	calls_renew(all);
}

static void
on_sandbox(void *ctx, const struct who *w, bool present)
{
	if (present)
		lanes_judge_of(ctx, w->handle);
	else
		lanes_forget(ctx, w->handle);
}

static void
on_drain_over(void *ctx)
{
	struct connector *all = ctx;

	list_each_safe (it, &all->lanes)
		lane_end(LIST_OF(it, struct lane, link));
	calls_end(all, NULL);
	stores_done(all);
	connector_check_drained(all);
}

static void
on_drain(void *ctx, uint32_t deadline_ms, uint32_t seq)
{
	struct connector *all = ctx;

	all->is_draining = true;
	all->is_drained = false;
	all->drain_seq = seq;
	loop_timer_set(&all->drain, deadline_ms);
	lanes_drain(all);
	stores_drain(all);
	connector_check_drained(all);
}

static void
on_super(void *ctx, unsigned events)
{
	struct connector *all = ctx;

	(void)events;
	if (role_heard(&all->role) == ST_END)
		loop_stop(all->loop);
}

static enum status
connector_init(struct connector *all)
{
	enum status st;

	list_init(&all->lanes);
	list_init(&all->lents);
	list_init(&all->upstreams);
	list_init(&all->bonds);
	list_init(&all->probes);
	list_init(&all->stores);
	list_init(&all->calls);
	list_init(&all->revokes);
	st = loop_new(&all->loop);
	if (st == ST_OK)
		st = stream_room_new(&all->room);
	all->peers = (struct peers){
		.role = &all->role, .loop = all->loop, .hooks = &peer_hooks, .ctx = all
	};
	list_init(&all->peers.all);
	all->flow.loop = all->loop;
	all->flow.space_n = CONNECTOR_SPACE;
	all->flow.gather.wipes = true;
	all->flow.space = malloc(CONNECTOR_SPACE);
	/* What one read may bring, and what a search may have held back. */
	all->clean_n = CONNECTOR_SPACE + (size_t)NEEDLE_MAX * NEEDLE_GROWTH * 2;
	all->clean = malloc(all->clean_n);
	if (st == ST_OK && (all->flow.space == NULL || all->clean == NULL))
		st = ST_NOMEM;
	if (st != ST_OK)
		return st;
	loop_timer_init(&all->tick, all->loop, on_tick, all);
	loop_timer_init(&all->drain, all->loop, on_drain_over, all);
	loop_timer_init(&all->alone, all->loop, on_alone, all);
	return ST_OK;
}

static void
connector_done(struct connector *all)
{
	on_drain_over(all);
	probes_end(all, NULL);
	revokes_end(all, NULL);
	bonds_done(all);
	stores_done(all);
	upstream_done(all);
	peers_end(&all->peers);
	loop_timer_clear(&all->tick);
	loop_timer_clear(&all->drain);
	loop_timer_clear(&all->alone);
	loop_io_clear(&all->super);
	ask_line_free(all->keeper);
	ask_line_free(all->dialer);
	loop_free(all->loop);
	tls_roots_done(&all->roots);
	stream_room_free(all->room);
	free(all->flow.space);
	free(all->clean);
	free(all->gauges);
}

/* OpenSSL's buffers hold what was read, decrypted. */
static void *
crypto_new(size_t n, const char *file, int line)
{
	(void)file;
	(void)line;
	return malloc(n);
}

static void *
crypto_again(void *p, size_t n, const char *file, int line)
{
	(void)file;
	(void)line;
	return wipe_realloc(p, n);
}

static void
crypto_free(void *p, const char *file, int line)
{
	(void)file;
	(void)line;
	wipe_free(p);
}

int
main(void)
{
	static struct connector all;
	const struct role_hooks hooks = { .ctx = &all,
					  .given = on_given,
					  .prepare = on_prepare,
					  .commit = on_commit,
					  .drain = on_drain,
					  .sandbox = on_sandbox };
	enum status st = jail_early(ROLE_CONNECTOR, 0);

	json_set_alloc_funcs(malloc, wipe_free);
	need(CRYPTO_set_mem_functions(crypto_new, crypto_again, crypto_free) == 1);
	/* Requests take and give back blocks of 100 KiB and more: a heap that is cut and
	 * grown each time costs more than all else that is done for them. */
	(void)mallopt(M_TRIM_THRESHOLD, HEAP_KEPT);
	(void)mallopt(M_MMAP_THRESHOLD, HEAP_KEPT);
	if (st == ST_OK)
		st = connector_init(&all);
	if (st != ST_OK) {
		(void)fprintf(stderr, "sandgate-connector: %s\n", status_code(st));
		return 1;
	}
	role_start(&all.role, ROLE_CONNECTOR, &hooks);
	role_enter(&all.role, NULL);
	loop_io_init(&all.super, all.loop, all.role.super.fd, on_super, &all);
	loop_io_first(&all.super);
	loop_io_want(&all.super, LOOP_READ);
	loop_run(all.loop);
	connector_done(&all);
	return 0;
}

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/dns/dns.h"
#include "proxy/dns/tcp.h"
#include "proxy/dns/udp.h"

enum { RULE_TEXT_MAX = 4096 };

void
dns_check_drained(struct dns *d)
{
	if (!d->is_draining || d->pendings_n > 0 || d->drain_seq == 0)
		return;
	role_drained(&d->role, d->drain_seq);
	d->drain_seq = 0;
}

static void
on_dialer_heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct dns *d = ctx;

	(void)line;
	/* asks.def has no question from the dialer to us; ask.c closes on others. */
	log_error(&d->role.log, "the dialer asked %s", ask_name(m->ask));
}

static void
on_dialer_lost(void *ctx, struct ask_line *line, enum status why)
{
	struct dns *d = ctx;

	log_error(&d->role.log, "the line to the dialer is lost: %s", status_code(why));
	if (d->dialer == line)
		d->dialer = NULL;
	ask_line_free(line);
	loop_timer_set(&d->alone, ROLE_ALONE_MS);
}

/* No death, so no new line will come: it was closed because of what we said on it. */
static void
on_alone(void *ctx)
{
	struct dns *d = ctx;

	if (d->dialer != NULL)
		return;
	log_error(&d->role.log, "ends: the dialer closed its line and lives on");
	_exit(1);
}

static enum status
take_dialer(struct dns *d, int fd)
{
	struct ask_end end = { .fd = fd, .self = ROLE_DNS, .peer = ROLE_DIALER };
	struct ask_line *line;
	enum status st;

	st = ask_line_new(d->loop, &end, on_dialer_heard, on_dialer_lost, d, &line);
	if (st != ST_OK) {
		close(fd);
		return st;
	}
	/* A new dialer: what the old one still owed ends by its line's loss or
	 * deadline. */
	d->dialer = line;
	return ST_OK;
}

static enum status
take_synth(struct dns *d, int fd)
{
	struct synth *s;
	enum status st = synth_open(fd, true, &s);

	close(fd);
	if (st != ST_OK)
		return st;
	synth_close(d->synth);
	d->synth = s;
	return ST_OK;
}

static enum status
take_listener(struct dns *d, uint32_t index, struct str text, int fd)
{
	struct dns_door door = { .dns = d, .listener = index };

	if (str_eq(text, STR("udp")))
		return udp_open(&door, fd);
	if (str_eq(text, STR("tcp")))
		return tcp_open(&door, fd);
	close(fd);
	return ST_BAD_MESSAGE;
}

/* Made in a sandbox's namespace.  One that is no good costs that sandbox its DNS, not
 * the others theirs. */
static enum status
take_attached(struct dns *d, uint32_t handle, struct str text, int fd)
{
	struct dns_door door = { .dns = d, .handle = handle };
	enum status st = ST_BAD_MESSAGE;

	if (str_eq(text, STR("dns-udp")))
		st = udp_open(&door, fd);
	else if (str_eq(text, STR("dns-tcp")))
		st = tcp_open(&door, fd);
	else
		close(fd);
	if (st != ST_OK)
		log_error(&d->role.log, "a socket of sandbox %u was refused: %s",
			  handle, status_code(st));
	return ST_OK;
}

static enum status
take_fd(struct dns *d, enum give kind, uint32_t index, struct str text, int fd)
{
	if (kind == GIVE_LINE && index == ROLE_DIALER)
		return take_dialer(d, fd);
	if (kind == GIVE_SYNTH)
		return take_synth(d, fd);
	if (kind == GIVE_LISTENER)
		return take_listener(d, index, text, fd);
	if (kind == GIVE_ATTACHED)
		return take_attached(d, index, text, fd);
	close(fd);
	return ST_BAD_MESSAGE;
}

static enum status
given(void *ctx, enum give kind, uint32_t index, struct str text, struct ask_msg *m)
{
	struct dns *d = ctx;
	int fd;

	if (kind == GIVE_REVOKED) {
		udp_close_handle(d, index);
		tcp_close_handle(d, index);
		return ST_OK;
	}
	if (kind == GIVE_UNLISTEN) {
		udp_close_handle(d, HANDLE_NONE); /* those of no attached sandbox */
		tcp_close_listeners(d);
		return ST_OK;
	}
	fd = ask_msg_take(m, 0);
	if (fd == -1 && m->lost_fds && kind == GIVE_ATTACHED) {
		log_error(&d->role.log, "no descriptor left for sandbox %u", index);
		return ST_OK;
	}
	return fd == -1 ? ST_BAD_MESSAGE : take_fd(d, kind, index, text, fd);
}

/* Names and quotas of sandboxes that the new configuration does not have. */
static void
forget_gone(struct dns *d)
{
	struct str id;
	size_t at = 0;

	list_each_safe (it, &d->quotas.all) {
		struct quota *q = LIST_OF(it, struct quota, link);

		if (q->id_len > 0 && !who_by_id(d->role.who, quota_id(q)))
			quotas_forget(&d->quotas, q);
	}
	while (d->synth && synth_next(d->synth, &at, &id))
		if (!who_by_id(d->role.who, id))
			synth_forget(d->synth, id);
}

static void
commit(void *ctx, const struct image *old)
{
	struct dns *d = ctx;

	(void)old;
	recent_forget(&d->recent, HANDLE_NONE);
	forget_gone(d);
}

static void
sandbox(void *ctx, const struct who *w, bool present)
{
	struct dns *d = ctx;
	struct quota *q;

	recent_forget(&d->recent, w->handle);
	if (present)
		return;
	udp_close_handle(d, w->handle);
	tcp_close_handle(d, w->handle);
	q = map_get(&d->quotas.by_id, w->id);
	if (q)
		quotas_forget(&d->quotas, q);
	if (d->synth)
		synth_forget(d->synth, w->id);
}

static void
drain(void *ctx, uint32_t deadline_ms, uint32_t seq)
{
	struct dns *d = ctx;

	(void)deadline_ms; /* super holds it; each question has one of its own */
	d->is_draining = true;
	recent_forget(&d->recent, HANDLE_NONE);
	d->drain_seq = seq;
	dns_check_drained(d);
}

static void
on_super(void *ctx, unsigned events)
{
	struct dns *d = ctx;

	(void)events;
	if (role_heard(&d->role) == ST_END)
		loop_stop(d->loop);
}

static enum status
dns_init(struct dns *d)
{
	enum status st = loop_new(&d->loop);

	list_init(&d->udps);
	list_init(&d->tcps);
	list_init(&d->conns);
	list_init(&d->pendings);
	quotas_init(&d->quotas);
	buf_init(&d->rule, RULE_TEXT_MAX);
	if (st == ST_OK)
		loop_timer_init(&d->alone, d->loop, on_alone, d);
	if (st == ST_OK)
		st = udp_batch_new(&d->batch);
	if (st == ST_OK)
		recent_init(&d->recent, &d->role, d->loop);
	return st;
}

static void
dns_done(struct dns *d)
{
	udp_close_all(d);
	tcp_close_all(d);
	ask_line_free(d->dialer);
	loop_timer_clear(&d->alone);
	loop_io_clear(&d->super);
	recent_done(&d->recent);
	quotas_done(&d->quotas);
	loop_free(d->loop);
	synth_close(d->synth);
	udp_batch_free(d->batch);
	buf_done(&d->rule);
	free(d);
}

int
main(void)
{
	struct dns *d = calloc(1, sizeof(*d));
	struct role_hooks hooks = { .ctx = d,
				    .given = given,
				    .commit = commit,
				    .drain = drain,
				    .sandbox = sandbox };

	if (!d || jail_early(ROLE_DNS, 0) != ST_OK || dns_init(d) != ST_OK) {
		free(d);
		return 1;
	}
	role_start(&d->role, ROLE_DNS, &hooks);
	role_enter(&d->role, NULL);
	loop_io_init(&d->super, d->loop, d->role.super.fd, on_super, d);
	loop_io_first(&d->super);
	loop_io_want(&d->super, LOOP_READ);
	loop_run(d->loop);
	dns_done(d);
	return 0;
}

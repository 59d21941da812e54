#include "proxy/worker/exec_in.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "proxy/http/h2.h"
#include "proxy/worker/deny.h"
#include "proxy/worker/visit.h"

struct exec_in {
	struct loop_timer timer;
	struct buf seen; /* what may still become the preface */
};

static void
exec_in_free(void *ctx)
{
	struct exec_in *in = ctx;

	buf_done(&in->seen);
	free(in);
}

static void
exec_in_done(struct conn *c)
{
	struct exec_in *in = c->state;

	loop_timer_clear(&in->timer);
	loop_defer(c->w->loop, exec_in_free, in);
}

static void
exec_in_judge(struct conn *c)
{
	(void)c; /* nothing is decided yet */
}

static const struct conn_owner exec_in_owner = {
	.name = "exec_in",
	.judge = exec_in_judge,
	.drain = conn_close,
	.done = exec_in_done,
};

static bool
is_open(struct str seen)
{
	struct str preface = STR(H2_PREFACE);

	return seen.n < preface.n && str_starts(preface, seen);
}

static void
on_bytes(void *ctx, unsigned events)
{
	struct conn *c = ctx;
	struct exec_in *in = c->state;
	ssize_t n;

	(void)events;
	n = recv(c->io.fd, c->w->space, WORKER_SPACE, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		conn_close(c);
		return;
	}
	buf_put(&in->seen, str_of(c->w->space, (size_t)n));
	if (in->seen.st != ST_OK)
		deny_because(c, in->seen.st);
	else if (!is_open(str_of(in->seen.p, in->seen.len)))
		visit_start(c, str_of(in->seen.p, in->seen.len));
}

/* Who said nothing asked for nothing. */
static void
on_timeout(void *ctx)
{
	struct conn *c = ctx;

	stats_add(c->w->role.stats, STAT_TIMEOUT_HEAD, 1);
	conn_close(c);
}

void
exec_in_start(struct conn *c)
{
	struct exec_in *in = calloc(1, sizeof *in);

	c->form = FORM_CLOSE;
	if (in == NULL) {
		deny_because(c, ST_NOMEM);
		return;
	}
	buf_init(&in->seen, (size_t)2 * WORKER_SPACE);
	loop_timer_init(&in->timer, c->w->loop, on_timeout, c);
	loop_timer_set(&in->timer, worker_option(c->w, OPT_REQUEST_HEAD_TIMEOUT));
	conn_take(c, &exec_in_owner, in, on_bytes);
	loop_io_want(&c->io, LOOP_READ);
}

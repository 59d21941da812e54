#include "proxy/flow/shake.h"

static void
finish(struct shake *k, enum status st)
{
	shake_fn fn = k->fn;

	shake_cancel(k);
	fn(k->ctx, st);
}

/* While it is suspended, the peer's bytes may wait in the kernel. */
static void
wait(struct shake *k)
{
	stream_arm(k->stream, k->io, stream_is_suspended(k->stream) ? 0 : LOOP_READ);
}

static void
step(struct shake *k)
{
	enum status st = stream_handshake(k->stream);

	if (st == ST_AGAIN)
		wait(k);
	else
		finish(k, st);
}

static void
on_io(void *ctx, unsigned events)
{
	struct shake *k = ctx;

	/* A socket that is gone is told by the next step. */
	if ((events & LOOP_WRITE) != 0)
		(void)!stream_flush(k->stream);
	if (stream_is_suspended(k->stream))
		wait(k);
	else
		step(k);
}

static void
on_time(void *ctx)
{
	struct shake *k = ctx;

	finish(k, k->at_time);
}

void
shake_begin(struct shake *k, struct stream *s, struct loop_io *io, uint64_t ms,
	    shake_fn fn, void *ctx)
{
	*k = (struct shake){
		.stream = s, .io = io, .fn = fn, .ctx = ctx, .at_time = ST_TIMEOUT
	};
	io->fn = on_io;
	io->ctx = k;
	loop_timer_init(&k->timer, io->loop, on_time, k);
	loop_timer_set(&k->timer, ms);
	enum status st = stream_handshake(s);
	if (st == ST_AGAIN) {
		wait(k);
		return;
	}
	loop_io_want(io, 0);
	k->at_time = st;
	loop_timer_set(&k->timer, 0);
}

void
shake_resume(struct shake *k)
{
	need(shake_is_running(k));
	step(k);
}

void
shake_cancel(struct shake *k)
{
	if (!shake_is_running(k))
		return;
	loop_timer_clear(&k->timer);
	if (k->io->loop != NULL)
		loop_io_want(k->io, 0);
	k->fn = NULL;
}

bool
shake_is_running(const struct shake *k)
{
	return k->fn != NULL;
}

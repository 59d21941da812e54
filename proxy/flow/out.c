#include "proxy/flow/out.h"

#include <string.h>

#include <openssl/crypto.h>

#include "proxy/base/num.h"

void
out_init(struct out *o, struct stream *to)
{
	*o = (struct out){ .to = to };
	ring_init(&o->held, OUT_HELD_MAX);
}

static void
wipe_held(struct out *o)
{
	if (o->wipes && o->held.p != NULL)
		OPENSSL_cleanse(o->held.p, o->held.cap);
}

void
out_done(struct out *o, struct gather *g)
{
	if (g->to == o)
		g->to = NULL;
	wipe_held(o);
	ring_done(&o->held);
}

bool
out_is_blocked(const struct out *o)
{
	return !ring_is_empty(&o->held) || stream_is_blocked(o->to);
}

static void
fail(struct out *o, enum status st)
{
	o->st = st;
	wipe_held(o);
	ring_done(&o->held);
}

/* Bytes that the stream took; 0 when it takes none now. */
static size_t
push(struct out *o, const struct iovec *v, size_t n)
{
	size_t taken = 0;

	if (stream_writev(o->to, v, n, &taken) != ST_OK)
		fail(o, ST_END);
	return taken;
}

/* Copy what is left of the parts behind the first `skip` bytes into the ring. */
static void
hold(struct gather *g, size_t skip)
{
	struct out *o = g->to;

	for (size_t i = 0; i < g->parts_n && o->st == ST_OK; i++) {
		struct str s = str_of(g->parts[i].iov_base, g->parts[i].iov_len);
		size_t k = num_min(skip, s.n);
		skip -= k;
		s = str_skip(s, k);
		/* Producers stop at the first held byte, so one pass always fits. */
		if (ring_write(&o->held, s) != s.n)
			fail(o, ST_NOMEM);
	}
}

static void
flush(struct gather *g)
{
	struct out *o = g->to;
	size_t taken = 0;

	if (o->st == ST_OK && g->parts_n > 0 && !out_is_blocked(o))
		taken = push(o, g->parts, g->parts_n);
	hold(g, taken);
	if (g->wipes)
		OPENSSL_cleanse(g->text, g->text_n);
	g->parts_n = 0;
	g->text_n = 0;
}

void
gather_begin(struct gather *g, struct out *o)
{
	if (g->to == o)
		return;
	if (g->to != NULL)
		flush(g);
	g->to = o;
	o->wipes = g->wipes;
	g->parts_n = 0;
	g->text_n = 0;
}

void
gather_view(struct gather *g, struct str s)
{
	if (s.n == 0)
		return;
	if (g->parts_n == OUT_PARTS)
		flush(g);
	g->parts[g->parts_n++] = (struct iovec){ (void *)(uintptr_t)s.p, s.n };
}

void
gather_copy(struct gather *g, struct str s)
{
	while (s.n > 0) {
		if (g->text_n == OUT_TEXT || g->parts_n == OUT_PARTS)
			flush(g);
		struct str k = str_head(s, OUT_TEXT - g->text_n);
		memcpy(g->text + g->text_n, k.p, k.n);
		gather_view(g, str_of(g->text + g->text_n, k.n));
		g->text_n += k.n;
		s = str_skip(s, k.n);
	}
}

static enum status
outcome(struct out *o, uint64_t now_ms)
{
	if (o->st != ST_OK)
		return o->st;
	if (!out_is_blocked(o)) {
		o->blocked_ms = 0;
		wipe_held(o);
		ring_trim(&o->held);
		return ST_OK;
	}
	if (o->blocked_ms == 0)
		o->blocked_ms = now_ms;
	return ST_AGAIN;
}

enum status
gather_end(struct gather *g, struct out *o, uint64_t now_ms)
{
	if (g->to == o) {
		flush(g);
		g->to = NULL;
	}
	return outcome(o, now_ms);
}

/* What the stream itself holds goes first. */
static bool
resume_stream(struct out *o, uint64_t now_ms)
{
	enum status st;

	if (!stream_is_blocked(o->to))
		return true;
	st = stream_flush(o->to);
	if (st != ST_OK && st != ST_AGAIN)
		fail(o, ST_END);
	if (st == ST_OK)
		o->blocked_ms = now_ms;
	return st == ST_OK;
}

enum status
out_resume(struct out *o, uint64_t now_ms)
{
	size_t taken = 1;

	while (o->st == ST_OK && taken > 0 && out_is_blocked(o)) {
		if (!resume_stream(o, now_ms))
			break;
		struct str s = ring_peek(&o->held);
		struct iovec v = { (void *)(uintptr_t)s.p, s.n };
		taken = s.n > 0 ? push(o, &v, 1) : 0;
		if (o->st != ST_OK || taken == 0)
			break;
		ring_consume(&o->held, taken);
		o->blocked_ms = now_ms; /* progress, measured in bytes */
	}
	return outcome(o, now_ms);
}

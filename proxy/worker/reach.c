#include "proxy/worker/reach.h"

#include <stdlib.h>
#include <unistd.h>

#include "proxy/flow/shake.h"

struct reach {
	struct worker *w;
	struct stream stream;
	struct loop_io io;
	struct shake shake;
	reach_fn fn;
	void *ctx;
};

static void
end(struct reach *r)
{
	int fd = r->stream.fd; /* -1: it was moved away */

	shake_cancel(&r->shake);
	loop_io_clear(&r->io);
	stream_done(&r->stream);
	if (fd >= 0)
		(void)close(fd);
	loop_defer(r->w->loop, free, r);
}

static void
on_shaken(void *ctx, enum status st)
{
	struct reach *r = ctx;
	struct reached told = { .st = tls_client_why(r->stream.ssl, st),
				.stream = &r->stream,
				.make = leg_h1_new };

	if (str_eq(stream_alpn(&r->stream), STR("h2")))
		told.make = leg_h2_new;
	if (told.st != ST_OK)
		told.words = tls_client_words(r->stream.ssl);
	/* The leg gets events of its own. */
	loop_io_clear(&r->io);
	r->fn(r->ctx, &told);
	end(r);
}

static enum status
open_stream(struct reach *r, int fd, const struct reach_to *to)
{
	const struct tls_client *client = r->w->roots.client;
	SSL *ssl;

	if (client == NULL) /* this system has no authorities */
		return ST_UPSTREAM_UNTRUSTED;
	enum status st = tls_client_open(client, to->dest, to->offer, &ssl);
	return st == ST_OK ? stream_tls(&r->stream, fd, ssl, r->w->room) : st;
}

enum status
reach_start(struct worker *w, int fd, const struct reach_to *to, reach_fn fn, void *ctx,
	    struct reach **ret_reach)
{
	struct reach *r = calloc(1, sizeof *r);
	enum status st = ST_NOMEM;

	if (r != NULL) {
		*r = (struct reach){ .w = w, .fn = fn, .ctx = ctx };
		st = open_stream(r, fd, to);
	}
	if (st != ST_OK) {
		(void)close(fd);
		free(r);
		return st;
	}
	loop_io_init(&r->io, w->loop, fd, NULL, NULL);
	shake_begin(&r->shake, &r->stream, &r->io,
		    worker_option(w, OPT_CONNECT_TIMEOUT), on_shaken, r);
	*ret_reach = r;
	return ST_OK;
}

void
reach_cancel(struct reach *r)
{
	if (r != NULL)
		end(r);
}

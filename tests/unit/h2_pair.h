#ifndef TESTS_UNIT_H2_PAIR_H
#define TESTS_UNIT_H2_PAIR_H
/*
 * A client and a server session joined by memory, each writing down what it is told,
 * in the words of HTTP/1: one event a line.
 */
#include <stdlib.h>
#include <string.h>

#include "proxy/base/num.h"
#include "proxy/http/h1_read.h"
#include "proxy/http/h2.h"

struct h2_peer {
	struct h2 *h;
	struct h2_stream *stream; /* the one of the last event, or asked last */
	struct buf log;
	struct arena arena;
	struct head out; /* the head put last */
	struct uri uri;
	bool credits; /* at once, for all that comes */
	size_t body;
	size_t closed;
	uint32_t code;
	enum status st; /* what feeding said last */
};

struct h2_pair {
	struct h2_peer client, server;
	uint64_t now_ms;
};

static const struct h2_limits pair_limits = {
	.head = { 100, 16384, 65536 },
	.heads = 512 * 1024,
	.streams = 100,
	.window = 65536,
	.connection = 100 * 65536,
};

static inline void
peer_put_field(struct buf *b, struct str name, struct str value)
{
	buf_putc(b, ' ');
	for (size_t i = 0; i < name.n; i++)
		buf_putc(b, ascii_lower(name.p[i]));
	buf_putf(b, "=%.*s", STR_ARG(value));
}

static inline void
peer_put_head(struct buf *b, const struct head *h)
{
	static const char *const bodies[] = { "none", "length", "chunked", "close",
					      "tunnel" };

	if (h->status != 0)
		buf_put_dec(b, h->status);
	else
		buf_putf(b, "%.*s %.*s", STR_ARG(h->method), STR_ARG(h->target));
	for (size_t i = 0; i < h->fields_len; i++)
		peer_put_field(b, h->fields[i].name, h->fields[i].value);
	buf_putf(b, " [%s", bodies[h->body]);
	if (h->body == BODY_LENGTH)
		buf_putf(b, " %d", (int)h->length);
	buf_putc(b, ']');
}

static inline void
peer_on_head(void *ctx, struct h2_stream *s, const struct h2_msg *m)
{
	struct h2_peer *p = ctx;

	p->stream = s;
	peer_put_head(&p->log, m->head);
	if (m->is_https)
		buf_put(&p->log, STR(" https"));
	if (m->is_ws)
		buf_put(&p->log, STR(" ws"));
	if (m->is_whole)
		buf_put(&p->log, STR(" whole"));
	buf_putc(&p->log, '\n');
}

static inline void
peer_on_bad(void *ctx, struct h2_stream *s, enum status why)
{
	struct h2_peer *p = ctx;

	p->stream = s;
	buf_putf(&p->log, "bad %s\n", status_code(why));
}

static inline void
peer_on_body(void *ctx, struct h2_stream *s, struct str view)
{
	struct h2_peer *p = ctx;

	need(view.n > 0);
	p->body += view.n;
	if (p->credits)
		h2_credit(s, view.n);
	if (view.n <= 100)
		buf_putf(&p->log, "body %.*s\n", STR_ARG(view));
}

static inline void
peer_on_end(void *ctx, struct h2_stream *s, struct head *trailers)
{
	struct h2_peer *p = ctx;

	(void)s;
	buf_put(&p->log, STR("end"));
	for (size_t i = 0; trailers != NULL && i < trailers->fields_len; i++)
		peer_put_field(&p->log, trailers->fields[i].name,
			       trailers->fields[i].value);
	buf_putc(&p->log, '\n');
}

static inline void
peer_on_closed(void *ctx, struct h2_stream *s, uint32_t code)
{
	struct h2_peer *p = ctx;

	if (p->stream == s)
		p->stream = NULL;
	p->closed++;
	p->code = code;
	buf_putf(&p->log, "closed %u\n", code);
}

static inline void
peer_open(struct h2_peer *p, enum h2_role role, const struct h2_limits *lim)
{
	static const struct h2_events events = { peer_on_head, peer_on_bad,
						 peer_on_body, peer_on_end,
						 peer_on_closed };

	*p = (struct h2_peer){ .credits = true };
	buf_init(&p->log, 1 << 20);
	arena_init(&p->arena, 1 << 20);
	p->h = h2_new(role, lim, &events, p);
	need(p->h != NULL);
}

static inline void
peer_close(struct h2_peer *p)
{
	h2_free(p->h);
	buf_done(&p->log);
	arena_done(&p->arena);
}

/* What was told since the last time. */
static inline const char *
peer_log(struct h2_peer *p)
{
	const char *text = buf_cstr(&p->log);
	struct str all = str_from(text);
	struct str copy = arena_copy(&p->arena, str_of(all.p, all.n + 1));

	need(copy.p != NULL);
	buf_clear(&p->log);
	return copy.p;
}

/* One batch from one to the other; false: there was none. */
static inline bool
peer_send(struct h2_peer *from, struct h2_peer *to, uint64_t now_ms)
{
	struct str v = h2_pending(from->h, now_ms);

	if (v.n == 0)
		return false;
	to->st = h2_feed(to->h, v, now_ms);
	h2_sent(from->h, v.n);
	return true;
}

static inline void
pair_run(struct h2_pair *p)
{
	while (peer_send(&p->client, &p->server, p->now_ms) ||
	       peer_send(&p->server, &p->client, p->now_ms))
		;
}

static inline void
pair_open_limits(struct h2_pair *p, const struct h2_limits *client,
		 const struct h2_limits *server)
{
	p->now_ms = 1000;
	peer_open(&p->client, H2_CLIENT, client);
	peer_open(&p->server, H2_SERVER, server);
	pair_run(p);
}

static inline void
pair_open(struct h2_pair *p)
{
	pair_open_limits(p, &pair_limits, &pair_limits);
}

static inline void
pair_close(struct h2_pair *p)
{
	peer_close(&p->client);
	peer_close(&p->server);
}

/* Fields as HTTP/1 writes them, without rules. */
static inline void
peer_fields(struct h2_peer *p, const char *text)
{
	struct str rest = str_from(text);

	head_init(&p->out, &p->arena);
	while (rest.n > 0) {
		struct str value = str_cut(&rest, '\n');
		struct str name = str_cut(&value, ':');
		need(head_add(&p->out, name, str_trim(str_head(value, value.n - 1))) ==
		     ST_OK);
	}
}

static inline struct h2_out
peer_asking(struct h2_peer *p, const char *method, const char *url, const char *fields)
{
	struct str m = str_from(method);

	peer_fields(p, fields);
	p->out.method = arena_copy(&p->arena, m);
	p->out.method_id = method_of(m);
	need(uri_parse(p->out.method_id, arena_copy(&p->arena, str_from(url)),
		       &p->uri) == ST_OK);
	return (struct h2_out){ .head = &p->out, .uri = &p->uri };
}

static inline void
pair_ask(struct h2_pair *p, const char *method, const char *url, const char *fields,
	 enum body_kind body, uint64_t length)
{
	struct h2_out o = peer_asking(&p->client, method, url, fields);

	p->client.out.body = body;
	p->client.out.length = length;
	o.is_whole = body == BODY_NONE;
	need(h2_request(p->client.h, &o, p, &p->client.stream) == ST_OK);
}

static inline void
pair_answer(struct h2_pair *p, uint16_t status, const char *fields, enum body_kind body,
	    uint64_t length)
{
	struct h2_out o = { .head = &p->server.out, .is_whole = body == BODY_NONE };

	peer_fields(&p->server, fields);
	p->server.out.status = status;
	p->server.out.body = body;
	p->server.out.length = length;
	need(h2_respond(p->server.stream, &o) == ST_OK);
}

#endif

#include "connectors/upstream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/flow/parent.h"
#include "proxy/flow/shake.h"
#include "proxy/io/sock.h"

/* A connection, from its handshake on. */
struct upstream {
	struct list link; /* all->upstreams */
	struct connector *all;
	struct leg *leg;
	uint32_t connector, handle;
	uint64_t generation;
	struct dest dest;
	bool has_key;
	uint64_t since_ms; /* idle since; 0: it isn't */
};

struct upstream_call {
	struct connector *all;
	struct ask_line *line;
	uint32_t seq;
	bool is_asked;
	struct tls_client *own; /* with a client certificate; NULL: all->roots.client */
	uint32_t connector, handle;
	uint64_t generation;
	struct dest dest;
	bool is_plain, is_via;
	enum tls_offer offer;
	int fd;
	struct parent parent;
	struct stream stream;
	struct loop_io io;
	struct shake shake;
	bool has_stream;
	upstream_fn fn;
	void *ctx;
};

static void
drop(struct upstream *u)
{
	list_remove(&u->link);
	leg_free(u->leg);
	loop_defer(u->all->loop, free, u);
}

static void
on_settled(void *ctx, struct leg *g)
{
	struct upstream *u = ctx;

	if (g->sides > 0)
		return;
	u->since_ms = loop_now_ms(u->all->loop);
	/* A key was shown: whoever comes next shows its own. */
	if (g->is_over || u->has_key || u->generation != u->all->role.generation)
		drop(u);
	else
		connector_wake(u->all);
}

static const struct leg_hooks leg_hooks = { .settled = on_settled };

static bool
fits(const struct upstream *u, const struct upstream_wish *w)
{
	return u->handle == w->handle && u->connector == w->connector &&
	       u->generation == u->all->role.generation && !u->has_key &&
	       u->leg->is_https != w->is_plain && (!w->is_ws || u->leg->takes_ws) &&
	       u->dest.port == w->dest->port && dest_same_host(&u->dest, w->dest);
}

enum tls_offer
upstream_offer(const struct image_connector *at)
{
	if (at->upstream_http == UPSTREAM_HTTP_1)
		return TLS_OFFER_H1;
	return at->upstream_http == UPSTREAM_HTTP_2 ? TLS_OFFER_H2 : TLS_OFFER_BOTH;
}

struct side *
upstream_take(struct connector *all, const struct upstream_wish *wish, bool is_careful)
{
	struct list *before;
	struct side *s;

	/* Newest first: the least likely to have been closed by its host. */
	for (struct list *it = all->upstreams.prev; it != &all->upstreams;
	     it = before) {
		struct upstream *u = LIST_OF(it, struct upstream, link);
		before = it->prev;
		if (!fits(u, wish))
			continue;
		if (is_careful && u->leg->sides == 0 &&
		    !u->leg->class->is_quiet(u->leg)) {
			drop(u);
			continue;
		}
		if (leg_ask(u->leg, &s) != ST_OK)
			continue;
		u->since_ms = 0;
		return s;
	}
	return NULL;
}

/* Of the call's things, those that no connection took over. */
static void
call_free(struct upstream_call *c)
{
	shake_cancel(&c->shake);
	parent_cancel(&c->parent);
	if (c->io.loop != NULL)
		loop_io_clear(&c->io);
	if (c->has_stream)
		stream_done(&c->stream);
	if (c->fd >= 0)
		(void)close(c->fd);
	tls_client_free(c->own);
	c->own = NULL;
	c->fd = -1;
	loop_defer(c->all->loop, free, c);
}

void
upstream_cancel(struct upstream_call *c)
{
	if (c == NULL)
		return;
	if (c->is_asked)
		ask_cancel(c->line, c->seq);
	call_free(c);
}

static void
finish(struct upstream_call *c, const struct upstream_got *got)
{
	upstream_fn fn = c->fn;
	void *ctx = c->ctx;

	call_free(c);
	fn(ctx, got);
}

static void
fail(struct upstream_call *c, enum status why, const char *words)
{
	const struct upstream_got got = { .st = why, .words = words };

	finish(c, &got);
}

static struct upstream *
upstream_new(const struct upstream_call *c)
{
	struct upstream *u = calloc(1, sizeof *u);

	if (u == NULL)
		return NULL;
	u->all = c->all;
	u->connector = c->connector;
	u->handle = c->handle;
	u->generation = c->generation;
	u->dest = c->dest;
	u->has_key = c->own != NULL;
	list_init(&u->link);
	return u;
}

/* The connection stands: it becomes a leg, and its first side is the caller's. */
static void
established(struct upstream_call *c)
{
	bool is_h2 = str_eq(stream_alpn(&c->stream), STR("h2"));
	struct upstream *u = upstream_new(c);
	struct upstream_got got = { .st = ST_NOMEM };
	struct leg_start start = { .flow = &c->all->flow,
				   .stream = &c->stream,
				   .hooks = &leg_hooks,
				   .limits = &c->all->leg_limits,
				   .ctx = u,
				   .is_https = !c->is_plain };

	if (c->io.loop != NULL)
		loop_io_clear(&c->io);
	if (u != NULL)
		u->leg = is_h2 ? leg_h2_new(&start) : leg_h1_new(&start);
	if (u == NULL || u->leg == NULL) {
		free(u);
		finish(c, &got);
		return;
	}
	c->has_stream = false;
	c->fd = -1;
	list_append(&c->all->upstreams, &u->link);
	got.st = leg_ask(u->leg, &got.side);
	if (got.st != ST_OK)
		drop(u);
	finish(c, &got);
}

static void
on_shaken(void *ctx, enum status st)
{
	struct upstream_call *c = ctx;

	if (st == ST_OK)
		established(c);
	else
		fail(c, tls_client_why(c->stream.ssl, st),
		     tls_client_words(c->stream.ssl));
}

static void
start_tls(struct upstream_call *c)
{
	const struct tls_client *tls = c->own != NULL ? c->own : c->all->roots.client;
	enum status st = ST_UPSTREAM_TLS;
	SSL *ssl = NULL;

	if (tls != NULL)
		st = tls_client_open(tls, &c->dest, c->offer, &ssl);
	if (st == ST_OK)
		st = stream_tls(&c->stream, c->fd, ssl, c->all->room);
	if (st != ST_OK) {
		fail(c, st, NULL);
		return;
	}
	c->has_stream = true;
	loop_io_init(&c->io, c->all->loop, c->fd, NULL, NULL);
	shake_begin(&c->shake, &c->stream, &c->io, UPSTREAM_SHAKE_MS, on_shaken, c);
}

static void
connected(struct upstream_call *c)
{
	if (!c->is_plain) {
		start_tls(c);
		return;
	}
	stream_plain(&c->stream, c->fd);
	c->has_stream = true;
	established(c);
}

static void
on_parent(void *ctx, enum status st)
{
	struct upstream_call *c = ctx;

	if (st == ST_OK)
		connected(c);
	else
		fail(c, st, NULL);
}

/* The socket leads to the parent proxy: it is told where to. */
static void
talk_to_parent(struct upstream_call *c)
{
	const struct parent_wish wish = {
		c->fd, &c->dest, connector_option(c->all, OPT_CONNECT_TIMEOUT)
	};
	enum status st = parent_begin(&c->parent, &c->all->flow, &wish, on_parent, c);

	if (st != ST_OK)
		fail(c, st, NULL);
}

/* As DIAL: status u16, rule u32, address, country, attempts u8, via u8; a socket. */
static enum status
read_answer(struct upstream_call *c, struct ask_msg *m)
{
	struct wire in = wire_from(m->body);
	uint16_t told = wire_u16(&in);
	enum status st = told < ST_COUNT ? (enum status)told : ST_NO_DIALER;

	(void)wire_u32(&in);
	(void)wire_str(&in);
	(void)wire_str(&in);
	(void)wire_u8(&in);
	c->is_via = wire_u8(&in) != 0;
	c->fd = ask_msg_take(m, 0);
	if (wire_end(&in) != ST_OK)
		return ST_NO_DIALER;
	if (st == ST_OK && (c->fd < 0 || sock_set_nonblock(c->fd) != ST_OK))
		return ST_NO_DIALER;
	return st;
}

static void
on_fetched(void *ctx, enum status st, struct ask_msg *m)
{
	struct upstream_call *c = ctx;

	c->is_asked = false;
	if (st == ST_OK)
		st = read_answer(c, m);
	else
		st = st == ST_TIMEOUT ? ST_CONNECT_TIMEOUT : ST_NO_DIALER;
	if (st != ST_OK)
		fail(c, st, NULL);
	else if (c->is_via)
		talk_to_parent(c);
	else
		connected(c);
}

static enum status
put_body(struct buf *b, const struct connector *all, const struct upstream_wish *wish)
{
	CLEANUP(buf_done) struct buf host = { 0 };
	const struct image_connector *at = connector_at(all, wish->connector);

	buf_init(&host, DEST_NAME_MAX + 8);
	dest_put_host(&host, wish->dest);
	wire_put_str(b, image_str(all->role.image, at->name));
	wire_put_str(b, str_of(host.p, host.len));
	buf_put_u16(b, wish->dest->port);
	return host.st != ST_OK ? host.st : b->st;
}

static enum status
ask(struct upstream_call *c, const struct upstream_wish *wish)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	size_t fds_n = wish->sandbox >= 0 ? 1 : 0;
	enum status st;

	buf_init(&b, ask_rule(ASK_FETCH)->size);
	st = put_body(&b, c->all, wish);
	if (st == ST_OK)
		st = ask_call(c->line, ASK_FETCH,
			      ASK_LOAD(str_of(b.p, b.len), &wish->sandbox, fds_n),
			      on_fetched, c, &c->seq);
	if (st != ST_OK)
		return st == ST_NOMEM ? st : ST_NO_DIALER;
	c->is_asked = true;
	return ST_OK;
}

enum status
upstream_begin(struct connector *all, const struct upstream_wish *wish, upstream_fn fn,
	       void *ctx, struct upstream_call **ret_c)
{
	struct upstream_call *c;
	enum status st = ST_OK;

	if (all->dialer == NULL)
		return ST_NO_DIALER;
	c = calloc(1, sizeof *c);
	if (c == NULL)
		return ST_NOMEM;
	*c = (struct upstream_call){ .all = all,
				     .line = all->dialer,
				     .connector = wish->connector,
				     .handle = wish->handle,
				     .generation = all->role.generation,
				     .dest = *wish->dest,
				     .is_plain = wish->is_plain,
				     .offer = wish->offer,
				     .fd = -1,
				     .fn = fn,
				     .ctx = ctx };
	if (wish->key.n > 0)
		st = all->roots.client == NULL
			     ? ST_UPSTREAM_TLS
			     : tls_client_with_key(all->roots.client, wish->chain,
						   wish->key, &c->own);
	if (st == ST_OK)
		st = ask(c, wish);
	if (st != ST_OK) {
		call_free(c);
		return st == ST_BAD_CONFIG ? ST_BAD_SECRET : st;
	}
	*ret_c = c;
	return ST_OK;
}

void
upstream_flush(struct connector *all)
{
	list_each_safe (it, &all->upstreams) {
		struct upstream *u = LIST_OF(it, struct upstream, link);
		if (u->leg->sides == 0)
			drop(u);
	}
}

void
upstream_tick(struct connector *all)
{
	uint64_t now = loop_now_ms(all->loop);
	size_t idle = 0;

	for (struct list *it = all->upstreams.prev, *before; it != &all->upstreams;
	     it = before) {
		struct upstream *u = LIST_OF(it, struct upstream, link);
		before = it->prev;
		if (u->leg->sides > 0)
			continue;
		if (now - u->since_ms > UPSTREAM_IDLE_MS || ++idle > UPSTREAM_IDLE_MAX)
			drop(u);
	}
}

void
upstream_done(struct connector *all)
{
	upstream_flush(all);
}

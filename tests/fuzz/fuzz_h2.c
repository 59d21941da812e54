/*
 * Split invariance: the bytes of a peer that keeps within its window give the same events
 * however they arrive, to either end; those of one that doesn't do no harm.  Round trip:
 * a request that a client session writes reads back as the same message, and so does its
 * answer.
 */
#include "tests/unit/h2_pair.h"
#include "tests/unit/h2_raw.h"

enum { INPUT_MAX = 1 << 16, DRAINS = 64, BREAKS_WINDOWS = 128 };

/* Small, so that the limits are reached. */
static const struct h2_limits limits = {
	.head = { 20, 400, 2000 },
	.heads = 32768,
	.streams = 8,
	.window = 1000,
	.connection = 10000,
};

/*
 * More than an input can use up.  Credit is given as bytes come, so whether a frame of
 * more than the window is too much, and how much of it is given before, depends on the
 * pieces.
 */
static const struct h2_limits wide = {
	.head = { 20, 400, 2000 },
	.heads = 32768,
	.streams = 8,
	.window = 2 * INPUT_MAX,
	.connection = 2 * INPUT_MAX,
};

/* Bodies come in as many pieces as the bytes did: of them only the octets count. */
struct told {
	struct h2_peer peer;
	bool is_body;
};

static void
settle_body(struct told *t)
{
	if (t->is_body)
		buf_putc(&t->peer.log, '\n');
	t->is_body = false;
}

static void
on_head(void *ctx, struct h2_stream *s, const struct h2_msg *m)
{
	struct told *t = ctx;
	struct arena a;
	struct head kept;
	size_t n = m->head->fields_len;

	settle_body(t);
	peer_on_head(&t->peer, s, m);
	/* How much is given before it is too much depends on the pieces. */
	h2_own(s, m->head->body == BODY_LENGTH ? t : NULL);
	if (n % 2 == 0)
		return;
	h2_keep(s, m->head, &a, &kept);
	need(kept.fields_len == n && kept.arena == &a);
	arena_done(&a);
}

static void
on_bad(void *ctx, struct h2_stream *s, enum status why)
{
	struct h2_out o = { 0 };
	struct told *t = ctx;

	settle_body(t);
	peer_on_bad(&t->peer, s, why);
	head_init(&t->peer.out, &t->peer.arena);
	t->peer.out.status = 400;
	o.head = &t->peer.out;
	o.is_whole = true;
	need(h2_respond(s, &o) == ST_OK);
	h2_leave(s);
}

static void
on_body(void *ctx, struct h2_stream *s, struct str view)
{
	struct told *t = ctx;

	h2_credit(s, view.n);
	if (h2_owner(s) != NULL)
		return;
	if (t->peer.stream != s)
		settle_body(t);
	t->peer.stream = s;
	t->is_body = true;
	buf_put(&t->peer.log, view);
}

static void
on_end(void *ctx, struct h2_stream *s, struct head *trailers)
{
	settle_body(ctx);
	peer_on_end(&((struct told *)ctx)->peer, s, trailers);
}

static void
on_closed(void *ctx, struct h2_stream *s, uint32_t code)
{
	settle_body(ctx);
	peer_on_closed(&((struct told *)ctx)->peer, s, code);
}

static const struct h2_events events = { on_head, on_bad, on_body, on_end, on_closed };

static void
drain(struct told *t)
{
	struct str v;

	while ((v = h2_pending(t->peer.h, 1000)).n > 0)
		h2_sent(t->peer.h, v.n);
}

static void
ask(struct told *t)
{
	struct h2_out o = peer_asking(&t->peer, "GET", "http://ok.test/", "");

	o.is_whole = true;
	if (h2_may_request(t->peer.h))
		need(h2_request(t->peer.h, &o, t, &t->peer.stream) == ST_OK);
}

static void
open_one(struct told *t, enum h2_role role, const struct h2_limits *lim, bool drains)
{
	*t = (struct told){ 0 };
	buf_init(&t->peer.log, 1 << 22);
	arena_init(&t->peer.arena, 1 << 20);
	t->peer.h = h2_new(role, lim, &events, t);
	need(t->peer.h != NULL);
	if (role == H2_CLIENT) {
		ask(t);
		ask(t);
	}
	if (drains)
		h2_goaway(t->peer.h);
	drain(t);
}

/* Nothing is written in between: what is written depends on when. */
static enum status
feed_one(struct told *t, struct str in, size_t piece)
{
	enum status st = ST_OK;

	while (in.n > 0 && st == ST_OK) {
		struct str part = str_head(in, piece);
		st = h2_feed(t->peer.h, part, 1000);
		in = str_skip(in, part.n);
	}
	settle_body(t);
	drain(t);
	h2_close(t->peer.h);
	return st;
}

static size_t
piece_of(uint8_t how)
{
	return how % 64 + 1u;
}

static void
same_however_it_arrives(enum h2_role role, struct str in, uint8_t how)
{
	struct told a, b;

	open_one(&a, role, &wide, how & DRAINS);
	open_one(&b, role, &wide, how & DRAINS);
	need(feed_one(&a, in, SIZE_MAX) == feed_one(&b, in, piece_of(how)));
	need(str_eq(str_of(a.peer.log.p, a.peer.log.len),
		    str_of(b.peer.log.p, b.peer.log.len)));
	peer_close(&a.peer);
	peer_close(&b.peer);
}

static void
survives(enum h2_role role, struct str in, uint8_t how)
{
	struct told t;

	open_one(&t, role, &limits, how & DRAINS);
	(void)feed_one(&t, in, in.n % 2 == 0 ? SIZE_MAX : piece_of(how));
	peer_close(&t.peer);
}

static void
try_both(enum h2_role role, struct str in, uint8_t how)
{
	same_however_it_arrives(role, in, how);
	if (how & BREAKS_WINDOWS)
		survives(role, in, how);
}

/* A preface is too much to guess. */
static void
try_server(struct str in, uint8_t how)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 1 << 22);
	raw_preface(&b);
	buf_put(&b, in);
	try_both(H2_SERVER, str_of(b.p, b.len), how);
}

static void
try_client(struct str in, uint8_t how)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 1 << 22);
	raw_frame(&b, RAW_SETTINGS, 0, 0, STR(""));
	buf_put(&b, in);
	try_both(H2_CLIENT, str_of(b.p, b.len), how);
}

/* Lines "name:value" of the input that a reader of heads would have let in. */
static void
add_fields(struct head *h, struct str in)
{
	enum token t = TOKEN_NONE;

	while (in.n > 0 && h->fields_len < 15) {
		struct str value = str_cut(&in, '\n');
		struct str name = str_cut(&value, ':');
		value = str_trim(value);
		if (value.p != NULL && name.n + value.n < 300 &&
		    head_judge(name, value, &t) == ST_OK)
			need(head_add(h, name, value) == ST_OK);
	}
}

static void
expect_same(struct h2_peer *to, const struct head *h, struct str body)
{
	CLEANUP(buf_done) struct buf want = { 0 };
	struct str log = str_from(peer_log(to));

	buf_init(&want, 1 << 20);
	for (size_t i = 0; i < h->fields_len; i++)
		if (h->fields[i].token == TOKEN_NONE &&
		    head_field_passes(h, &h->fields[i])) {
			buf_clear(&want);
			peer_put_field(&want, h->fields[i].name, h->fields[i].value);
			need(memmem(log.p, log.n, want.p, want.len) != NULL);
		}
	buf_clear(&want);
	buf_putf(&want, "body %.*s\n", STR_ARG(body));
	need(memmem(log.p, log.n, want.p, want.len) != NULL);
}

static void
answer(struct h2_pair *p, const struct head *trailers, struct str body)
{
	pair_answer(p, 200, "Server: x\r\n", BODY_LENGTH, body.n);
	need(h2_put(p->server.stream, body) == ST_OK);
	need(h2_put_end(p->server.stream, &p->client.out, trailers) == ST_OK);
	pair_run(p);
	expect_same(&p->client, &p->server.out, body);
}

static void
round_trip(struct str in, unsigned how)
{
	static const struct field last = { { "x-key", 5 },
					   { "secret", 6 },
					   TOKEN_NONE };
	struct h2_limits mine = limits;
	struct h2_pair p;
	struct str body = STR("x y");
	struct h2_out o;

	mine.wipes = how & 1;
	pair_open_limits(&p, &mine, &mine);
	o = peer_asking(&p.client, "POST", "http://ok.test:81/a?b", "");
	add_fields(&p.client.out, in);
	p.client.out.body = BODY_CHUNKED;
	o.is_ws = how & 2;
	o.last = &last;
	o.last_n = how >> 2 & 1;
	need(h2_request(p.client.h, &o, &p, &p.client.stream) == ST_OK);
	need(h2_put(p.client.stream, str_head(body, 2)) == ST_OK);
	need(h2_put(p.client.stream, str_skip(body, 2)) == ST_OK);
	need(h2_put_end(p.client.stream, &p.client.out, &p.client.out) == ST_OK);
	pair_run(&p);
	if (p.server.stream != NULL && p.server.st == ST_OK &&
	    p.server.body == body.n) {
		expect_same(&p.server, &p.client.out, body);
		if (!o.is_ws)
			answer(&p, NULL, body);
	}
	pair_close(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2 || size > INPUT_MAX)
		return 0;
	struct str in = str_of(data + 2, size - 2);

	switch (data[1] % 3) {
	case 0:
		try_server(in, data[0]);
		break;
	case 1:
		try_client(in, data[0]);
		break;
	default:
		round_trip(in, data[0]);
		break;
	}
	return 0;
}

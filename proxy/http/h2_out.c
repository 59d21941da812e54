#include <stdlib.h>
#include <string.h>

#include "proxy/base/num.h"
#include "proxy/http/h2_in.h"

enum { FIXED_FIELDS = 10 };

/* A list of fields being made: names and values stay where they are until it is given
 * to nghttp2, which copies. */
struct list_of_nv {
	nghttp2_nv *v;
	size_t n, cap;
	struct arena *a; /* what is not in a head: lower-case names, numbers */
	enum status st;
};

static void
nv_init(struct list_of_nv *l, struct arena *a, size_t fields)
{
	*l = (struct list_of_nv){ .a = a, .cap = fields + FIXED_FIELDS };
	l->v = arena_alloc(a, l->cap * sizeof *l->v);
	if (l->v == NULL)
		l->st = ST_NOMEM;
}

static void
nv_add(struct list_of_nv *l, struct str name, struct str value, bool is_secret)
{
	if (l->st != ST_OK)
		return;
	need(l->n < l->cap);
	l->v[l->n++] = (nghttp2_nv){
		.name = (uint8_t *)(uintptr_t)name.p,
		.value = (uint8_t *)(uintptr_t)value.p,
		.namelen = name.n,
		.valuelen = value.n,
		.flags = is_secret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE,
	};
}

static void
nv_add_number(struct list_of_nv *l, struct str name, uint64_t n)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 32);
	buf_put_dec(&b, n);
	struct str text = arena_copy(l->a, str_of(b.p, b.len));
	if (b.st != ST_OK || text.p == NULL)
		l->st = ST_NOMEM;
	nv_add(l, name, text, false);
}

static bool
is_lower(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] != ascii_lower(s.p[i]))
			return false;
	return true;
}

static void
nv_add_field(struct list_of_nv *l, const struct field *f, bool is_secret)
{
	struct str name = f->name;

	if (!is_lower(name)) {
		char *p = arena_alloc(l->a, name.n);
		if (p == NULL) {
			l->st = ST_NOMEM;
			return;
		}
		for (size_t i = 0; i < name.n; i++)
			p[i] = ascii_lower(name.p[i]);
		name.p = p;
	}
	is_secret = is_secret || (token_flags(f->token) & TOKEN_IS_CREDENTIAL);
	nv_add(l, name, f->value, is_secret);
}

/* RFC 9113 section 8.2.2, whoever wrote it. */
static bool
belongs_to_h1(enum token t)
{
	switch ((int)t) {
	case TOKEN_CONNECTION:
	case TOKEN_KEEP_ALIVE:
	case TOKEN_PROXY_CONNECTION:
	case TOKEN_TRANSFER_ENCODING:
	case TOKEN_UPGRADE:
	case TOKEN_HTTP2_SETTINGS:
	case TOKEN_TE:
	case TOKEN_HOST:
	case TOKEN_CONTENT_LENGTH:
	case TOKEN_SEC_WEBSOCKET_KEY:
	case TOKEN_SEC_WEBSOCKET_ACCEPT:
		return true;
	default:
		return false;
	}
}

static bool
passes(const struct h2_out *o, const struct field *f)
{
	if (belongs_to_h1(f->token))
		return false;
	if (o->is_own)
		return true;
	if (f->token == TOKEN_EXPECT)
		return o->head->expects_continue;
	return f->token != TOKEN_ALT_SVC && head_field_passes(o->head, f);
}

static void
add_fields(struct list_of_nv *l, const struct h2_out *o)
{
	const struct head *h = o->head;
	/* A length that describes a body which isn't sent: HEAD and 304. */
	bool describes = h->body == BODY_NONE && h->has_length && h->status >= 200 &&
			 h->status != 204;

	for (size_t i = 0; i < h->fields_len; i++)
		if (passes(o, &h->fields[i]))
			nv_add_field(l, &h->fields[i], false);
	if (!o->is_ws && (h->body == BODY_LENGTH || describes))
		nv_add_number(l, STR("content-length"), h->length);
	for (size_t i = 0; i < o->last_n; i++)
		nv_add_field(l, &o->last[i], true);
}

static struct str
authority(struct arena *a, const struct h2_out *o, enum status *st)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct uri *u = o->uri;

	buf_init(&b, DEST_NAME_MAX + 16);
	if (u->form != URI_AUTHORITY && u->dest.port == (o->is_https ? 443 : 80))
		dest_put_host(&b, &u->dest);
	else
		dest_put(&b, &u->dest);
	struct str text = arena_copy(a, str_of(b.p, b.len));
	if (b.st != ST_OK || text.p == NULL)
		*st = ST_NOMEM;
	return text;
}

static struct str
path(struct arena *a, const struct uri *u, enum status *st)
{
	size_t n = u->path.n + 1 + u->query.n;
	char *p = u->has_query ? arena_alloc(a, n) : NULL;

	if (!u->has_query)
		return u->path;
	if (p == NULL) {
		*st = ST_NOMEM;
		return u->path;
	}
	memcpy(p, u->path.p, u->path.n);
	p[u->path.n] = '?';
	if (u->query.n > 0)
		memcpy(p + u->path.n + 1, u->query.p, u->query.n);
	return str_of(p, n);
}

/* A path may hold a credential of its own: has_secrets. */
static void
add_request(struct list_of_nv *l, const struct h2_out *o, bool has_secrets)
{
	struct str text = o->is_ws ? STR("CONNECT") : o->head->method;

	nv_add(l, STR(":method"), text, false);
	if (o->uri->form != URI_AUTHORITY) {
		text = o->is_https ? STR("https") : STR("http");
		nv_add(l, STR(":scheme"), text, false);
	}
	nv_add(l, STR(":authority"), authority(l->a, o, &l->st), false);
	if (o->uri->form != URI_AUTHORITY)
		nv_add(l, STR(":path"), path(l->a, o->uri, &l->st), has_secrets);
	if (o->is_ws)
		nv_add(l, STR(":protocol"), STR("websocket"), false);
	add_fields(l, o);
	if (head_lists(o->head, TOKEN_TE, STR("trailers")))
		nv_add(l, STR("te"), STR("trailers"), false);
}

static const nghttp2_data_provider provider = { .read_callback = h2_out_read };

static size_t
arena_of(const struct h2_out *o)
{
	size_t n =
		(o->head->fields_len + o->last_n + FIXED_FIELDS) * sizeof(nghttp2_nv);

	for (size_t i = 0; i < o->head->fields_len; i++)
		n += o->head->fields[i].name.n + 16;
	for (size_t i = 0; i < o->last_n; i++)
		n += o->last[i].name.n + 16;
	if (o->uri != NULL)
		n += o->uri->path.n + o->uri->query.n;
	return n + 2048;
}

enum status
h2_request(struct h2 *h, const struct h2_out *o, void *owner, struct h2_stream **ret_s)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	struct list_of_nv l;

	need(!h->is_server && o->uri != NULL);
	arena_init(&a, arena_of(o));
	nv_init(&l, &a, o->head->fields_len + o->last_n);
	add_request(&l, o, h->limits.wipes);
	struct h2_stream *s = l.st == ST_OK ? h2_stream_new(h, 0) : NULL;
	if (s == NULL)
		return ST_NOMEM;
	int32_t id = nghttp2_submit_request(h->session, NULL, l.v, l.n,
					    o->is_whole ? NULL : &provider, s);
	if (id < 0) {
		h2_stream_free(s);
		return id == NGHTTP2_ERR_NOMEM ? ST_NOMEM : ST_END;
	}
	s->id = id;
	s->owner = owner;
	s->is_known = true;
	s->is_ws = o->is_ws;
	s->has_end = o->is_whole;
	s->asked = (uint8_t)o->head->method_id;
	h2_flood_earn(&h->flood);
	*ret_s = s;
	return ST_OK;
}

static enum status
submit(struct h2_stream *s, const struct h2_out *o, struct list_of_nv *l)
{
	nghttp2_session *session = s->h->session;
	bool is_interim = o->head->status < 200 && o->head->status != 101;
	int rv;

	if (is_interim) {
		rv = nghttp2_submit_headers(session, NGHTTP2_FLAG_NONE, s->id, NULL,
					    l->v, l->n, NULL);
	} else {
		rv = nghttp2_submit_response(session, s->id, l->v, l->n,
					     o->is_whole ? NULL : &provider);
		s->has_end = o->is_whole;
	}
	return rv == 0 ? ST_OK : ST_NOMEM;
}

enum status
h2_respond(struct h2_stream *s, const struct h2_out *o)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	struct list_of_nv l;
	uint16_t status = o->head->status;

	need(s->h->is_server && status >= 100 && status <= 999);
	if (status == 101 && !s->is_ws)
		return ST_UPSTREAM_BAD;
	arena_init(&a, arena_of(o));
	nv_init(&l, &a, o->head->fields_len + o->last_n);
	nv_add_number(&l, STR(":status"), status == 101 ? 200 : status);
	add_fields(&l, o);
	return l.st == ST_OK ? submit(s, o, &l) : l.st;
}

/* More room, for exactly what there is. */
static enum status
hold(struct h2_stream *s, struct str view)
{
	if (ring_space(&s->held) < view.n) {
		struct ring more;
		ring_init(&more, s->held.len + view.n);
		struct str old = ring_linear(&s->held);
		if (ring_write(&more, old) != old.n)
			return ST_NOMEM;
		h2_drop_held(s);
		s->held = more;
	}
	return ring_write(&s->held, view) == view.n ? ST_OK : ST_NOMEM;
}

enum status
h2_hold(struct h2_stream *s)
{
	struct str view = s->lent;

	s->lent = (struct str){ NULL, 0 };
	return view.n > 0 ? hold(s, view) : ST_OK;
}

static void
wake(struct h2_stream *s)
{
	/* Fails where there is nothing to wake: it isn't asleep. */
	(void)nghttp2_session_resume_data(s->h->session, s->id);
}

enum status
h2_put(struct h2_stream *s, struct str view)
{
	need(!s->has_end);
	if (s->is_ours || view.n == 0)
		return ST_OK;
	enum status st = h2_hold(s);
	if (st != ST_OK)
		return st;
	s->lent = view;
	wake(s);
	return ST_OK;
}

enum status
h2_put_end(struct h2_stream *s, const struct head *of, const struct head *trailers)
{
	need(!s->has_end);
	s->has_end = true;
	head_init(&s->trailers, &s->trailers_arena);
	for (size_t i = 0; trailers != NULL && i < trailers->fields_len; i++) {
		const struct field *f = &trailers->fields[i];
		if (!head_trailer_passes(of, f) || belongs_to_h1(f->token))
			continue;
		if (head_add(&s->trailers, f->name, f->value) != ST_OK)
			return ST_NOMEM;
	}
	s->has_trailers = s->trailers.fields_len > 0;
	wake(s);
	return ST_OK;
}

static int
submit_trailers(struct h2_stream *s)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	struct list_of_nv l;
	struct h2_out o = { .head = &s->trailers };

	arena_init(&a, arena_of(&o));
	nv_init(&l, &a, s->trailers.fields_len);
	for (size_t i = 0; i < s->trailers.fields_len; i++)
		nv_add_field(&l, &s->trailers.fields[i], false);
	return l.st == ST_OK ? nghttp2_submit_trailer(s->h->session, s->id, l.v, l.n)
			     : NGHTTP2_ERR_NOMEM;
}

size_t
h2_held(const struct h2_stream *s)
{
	return s->held.len + s->lent.n;
}

/* Its type is nghttp2's. */
/* NOLINTBEGIN(readability-function-size,readability-non-const-parameter) */
ssize_t
h2_out_read(nghttp2_session *session, int32_t id, uint8_t *p, size_t n, uint32_t *flags,
	    nghttp2_data_source *source, void *ctx)
/* NOLINTEND(readability-function-size,readability-non-const-parameter) */
{
	struct h2_stream *s = nghttp2_session_get_stream_user_data(session, id);
	size_t have = s == NULL ? 0 : h2_held(s);

	(void)source;
	(void)p;
	(void)ctx;
	if (s == NULL) /* h2_close() was first */
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (have == 0 && !s->has_end)
		return NGHTTP2_ERR_DEFERRED;
	n = num_min(n, have);
	if (n > 0)
		*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (n == have && s->has_end) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (s->has_trailers) {
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			if (submit_trailers(s) != 0)
				return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
		}
	}
	return (ssize_t)n;
}

static void
move(struct h2_stream *s, size_t n)
{
	s->went += n;
	while (n > 0 && !ring_is_empty(&s->held)) {
		struct str v = str_head(ring_peek(&s->held), n);
		h2_out_put(s->h, v);
		ring_consume(&s->held, v.n);
		n -= v.n;
	}
	if (ring_is_empty(&s->held))
		h2_drop_held(s);
	h2_out_put(s->h, str_head(s->lent, n));
	s->lent = str_skip(s->lent, n);
}

int
h2_out_frame(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *hd,
	     size_t n, nghttp2_data_source *source, void *ctx)
{
	struct h2 *h = ctx;
	struct h2_stream *s =
		nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	(void)source;
	need(s != NULL); /* h2_out_read() of the same call found it */
	h2_out_put(h, str_of(hd, 9));
	move(s, n);
	if (h->out.st != ST_OK)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	return h->out.len < H2_BATCH ? 0 : NGHTTP2_ERR_PAUSE;
}

/* How much the peer takes of this stream, whatever it takes of all. */
static int64_t
stream_window(const struct h2_stream *s)
{
	nghttp2_session *session = s->h->session;
	int32_t window = nghttp2_session_get_stream_remote_window_size(session, s->id);

	/* Not there yet: its head waits to be sent. */
	if (window < 0)
		return nghttp2_session_get_remote_settings(
			session, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE);
	return window;
}

bool
h2_is_clear(const struct h2_stream *s)
{
	return h2_held(s) == 0 &&
	       nghttp2_session_get_remote_window_size(s->h->session) > 0 &&
	       stream_window(s) > 0;
}

bool
h2_fits(const struct h2_stream *s, size_t others)
{
	int32_t window = nghttp2_session_get_remote_window_size(s->h->session);
	size_t held = h2_held(s), room = window > 0 ? (size_t)window : 0;

	/* More than enough: at the window's very end the peer has yet to say more. */
	return others < room && held < room - others &&
	       (int64_t)held < stream_window(s);
}

uint64_t
h2_went(const struct h2_stream *s)
{
	return s->went;
}

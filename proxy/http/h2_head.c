#include <string.h>

#include "proxy/base/num.h"
#include "proxy/http/framing.h"
#include "proxy/http/h2_in.h"

/* RFC 9113 section 6.5.2: what a field costs besides its text. */
enum { FIELD_COST = 32, LINE_COST = 4 };

static void
count(struct h2_stream *s, size_t n)
{
	s->h->heads = s->h->heads - s->heads + n;
	s->heads = n;
}

void
h2_head_begin(struct h2_stream *s)
{
	if (!s->has_head) /* the one before was 1xx, and is gone */
		count(s, 0);
	arena_done(&s->arena);
	head_init(&s->head, &s->arena);
	s->method = s->path = s->scheme = s->protocol = s->status = STR("");
	s->fields = s->octets = 0;
	s->has_authority = false;
	s->bad = ST_OK;
}

/* Counted before anything of it is kept. */
static bool
is_too_much(struct h2_stream *s, struct str name, struct str value)
{
	const struct h1_limits *lim = &s->h->limits.head;
	size_t cost = name.n + value.n + FIELD_COST;

	if (name.p[0] != ':' && s->fields++ >= lim->fields)
		return true;
	if (cost > lim->head - s->octets || name.n + value.n + LINE_COST > lim->line)
		return true;
	s->octets += cost;
	return false;
}

static enum status
add(struct h2_stream *s, enum token t, struct str name, struct str value)
{
	/* One piece for both: most fields are small. */
	char *p = arena_alloc(&s->arena, name.n + value.n);

	if (p == NULL)
		return ST_NOMEM;
	memcpy(p, name.p, name.n);
	if (value.n > 0)
		memcpy(p + name.n, value.p, value.n);
	return head_add_view(&s->head, t, str_of(p, name.n),
			     str_of(p + name.n, value.n));
}

/* Which ones there may be, and how often, nghttp2 has seen to. */
static enum status
pseudo(struct h2_stream *s, struct str name, struct str value)
{
	const struct {
		struct str name;
		struct str *to;
	} known[] = {
		{ STR(":method"), &s->method },     { STR(":path"), &s->path },
		{ STR(":scheme"), &s->scheme },     { STR(":status"), &s->status },
		{ STR(":protocol"), &s->protocol },
	};

	if (str_eq(name, STR(":authority"))) {
		s->has_authority = true;
		return add(s, TOKEN_HOST, STR("host"), value);
	}
	for (size_t i = 0; i < COUNT_OF(known); i++)
		if (str_eq(name, known[i].name)) {
			*known[i].to = arena_copy(&s->arena, value);
			return known[i].to->p == NULL ? ST_NOMEM : ST_OK;
		}
	s->bad = ST_BAD_HEADER;
	return ST_OK;
}

enum status
h2_head_field(struct h2_stream *s, struct str name, struct str value)
{
	enum token t = TOKEN_NONE;

	need(name.n > 0);
	if (is_too_much(s, name, value))
		return ST_HEAD_TOO_LARGE;
	if (s->bad != ST_OK)
		return ST_OK;
	if (name.p[0] == ':')
		return pseudo(s, name, value);
	value = str_trim(value);
	enum status st = head_judge(name, value, &t);
	if (st == ST_OK)
		return add(s, t, name, value);
	if (st != ST_END)
		s->bad = st;
	return ST_OK;
}

/* RFC 9113 section 8.3.1: Host and :authority are the same, or this is an attack. */
static enum status
settle_host(struct h2_stream *s)
{
	struct head *h = &s->head;
	const struct field *first = head_get(h, TOKEN_HOST);
	struct field one;

	if (first == NULL)
		return ST_BAD_HEADER;
	one = *first;
	for (size_t i = 0; i < h->fields_len; i++)
		if (h->fields[i].token == TOKEN_HOST &&
		    !str_ieq(h->fields[i].value, one.value))
			return ST_MISMATCH;
	if (head_count(h, TOKEN_HOST) == 1)
		return ST_OK;
	head_remove(h, TOKEN_HOST);
	return head_add_view(h, TOKEN_HOST, one.name, one.value);
}

/* RFC 9113 section 8.2.3: crumbs are one field to everybody but HTTP/2. */
static enum status
join_cookies(struct head *h)
{
	size_t n = 0, crumbs = head_count(h, TOKEN_COOKIE);
	char *p, *at;

	if (crumbs < 2)
		return ST_OK;
	for (size_t i = 0; i < h->fields_len; i++)
		if (h->fields[i].token == TOKEN_COOKIE)
			n += h->fields[i].value.n + 2;
	p = at = arena_alloc(h->arena, n);
	if (p == NULL)
		return ST_NOMEM;
	for (size_t i = 0; i < h->fields_len; i++) {
		struct str v = h->fields[i].value;
		if (h->fields[i].token != TOKEN_COOKIE)
			continue;
		if (at != p) {
			*at++ = ';';
			*at++ = ' ';
		}
		if (v.n > 0)
			memcpy(at, v.p, v.n);
		at += v.n;
	}
	struct str name = head_get(h, TOKEN_COOKIE)->name;
	head_remove(h, TOKEN_COOKIE);
	return head_add_view(h, TOKEN_COOKIE, name, str_of(p, (size_t)(at - p)));
}

static bool
is_visible(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return false;
	return s.n > 0;
}

/* RFC 8441: what HTTP/1 calls an upgrade, in the form that HTTP/1 gives it. */
static enum status
settle_protocol(struct h2_stream *s, bool is_end)
{
	struct head *h = &s->head;
	const struct field *v = head_get(h, TOKEN_SEC_WEBSOCKET_VERSION);

	if (!str_eq(s->protocol, STR("websocket")))
		return ST_BAD_PROTOCOL;
	if (is_end || head_count(h, TOKEN_CONTENT_LENGTH) > 0)
		return ST_BAD_UPGRADE;
	if (v == NULL)
		return head_add(h, STR("sec-websocket-version"), STR("13"));
	if (head_count(h, TOKEN_SEC_WEBSOCKET_VERSION) > 1 ||
	    !str_eq(v->value, STR("13")))
		return ST_BAD_UPGRADE;
	return ST_OK;
}

static enum status
settle_target(struct h2_stream *s, bool is_end)
{
	struct head *h = &s->head;
	bool is_connect = str_eq(s->method, STR("CONNECT"));

	if (!is_http_token(s->method))
		return ST_BAD_REQUEST;
	s->is_ws = is_connect && s->protocol.n > 0;
	h->method = s->is_ws ? STR("GET") : s->method;
	h->method_id = method_of(h->method);
	h->target = s->path;
	if (is_connect && !s->is_ws) {
		const struct field *host = head_get(h, TOKEN_HOST);
		h->target = host->value;
		return is_visible(h->target) ? ST_OK : ST_BAD_TARGET;
	}
	s->is_https = str_eq(s->scheme, STR("https"));
	if (!is_visible(h->target) || (!s->is_https && !str_eq(s->scheme, STR("http"))))
		return ST_BAD_TARGET;
	return s->is_ws ? settle_protocol(s, is_end) : ST_OK;
}

static enum status
finish_request(struct h2_stream *s, bool is_end)
{
	struct head *h = &s->head;

	h->minor = 1;
	h->is_persistent = true;
	enum status st = s->bad;
	if (st == ST_OK)
		st = settle_host(s);
	if (st == ST_OK)
		st = settle_target(s, is_end);
	if (st == ST_OK)
		st = join_cookies(h);
	if (st == ST_OK)
		st = framing_of_request(h);
	if (st != ST_OK)
		return st;
	s->asked = (uint8_t)h->method_id;
	if (s->is_ws)
		head_remove(h, TOKEN_SEC_WEBSOCKET_KEY); /* whoever needs one makes it
							  */
	else if (h->body == BODY_NONE && !is_end && h->method_id != METHOD_CONNECT)
		h->body = BODY_CHUNKED;
	return ST_OK;
}

/* *ret_is_interim: another head follows. */
static enum status
finish_response(struct h2_stream *s, bool is_end, bool *ret_is_interim)
{
	struct head *h = &s->head;
	uint64_t code = 0;

	if (s->bad != ST_OK || s->status.n != 3 ||
	    !num_parse_strict(s->status, 599, &code) || code < 100)
		return ST_UPSTREAM_BAD;
	h->minor = 1;
	h->is_persistent = true;
	h->status = (uint16_t)code;
	if (s->is_ws && code >= 200 && code < 300 && !is_end)
		h->status = 101;
	bool is_interim = h->status < 200 && h->status != 101;
	enum status st = framing_of_response(h, (enum method)s->asked, s->is_ws);
	if (st != ST_OK)
		return st;
	if (h->body == BODY_UNTIL_CLOSE)
		h->body = is_end ? BODY_LENGTH : BODY_CHUNKED;
	h->has_length = h->has_length || h->body == BODY_LENGTH;
	*ret_is_interim = is_interim;
	return ST_OK;
}

static void
give_request(struct h2_stream *s, bool is_end)
{
	struct h2 *h = s->h;
	struct h2_msg m = { .head = &s->head, .is_whole = is_end };

	enum status st = finish_request(s, is_end);
	s->has_head = s->is_known = true;
	s->is_in_whole = is_end;
	m.is_https = s->is_https;
	m.is_ws = s->is_ws;
	if (st == ST_OK) {
		h->events.head(h->ctx, s, &m);
		return;
	}
	s->is_dead = true;
	h->events.bad(h->ctx, s, st);
}

static void
give_response(struct h2_stream *s, bool is_end)
{
	struct h2 *h = s->h;
	struct h2_msg m = { .head = &s->head, .is_ws = s->is_ws, .is_whole = is_end };
	bool is_interim = false;

	if (finish_response(s, is_end, &is_interim) != ST_OK) {
		h2_reset(s, H2_PROTOCOL_ERROR);
		return;
	}
	/* The next one that asks is refused; who answers can't be told to wait. */
	if (h->heads > h->limits.heads) {
		h2_reset(s, H2_ENHANCE_YOUR_CALM);
		return;
	}
	s->has_head = !is_interim;
	s->is_in_whole = is_end;
	h->events.head(h->ctx, s, &m);
}

/* A length behind the body makes sense to nobody but a reader that is lost. */
static void
give_trailers(struct h2_stream *s)
{
	struct h2 *h = s->h;
	enum status st = s->bad;

	for (size_t i = 0; i < s->head.fields_len; i++)
		if (token_flags(s->head.fields[i].token) & TOKEN_IS_FRAMING)
			st = ST_BAD_HEADER;
	s->is_in_whole = true;
	if (st == ST_OK) {
		h->events.end(h->ctx, s, &s->head);
	} else if (h->is_server) {
		s->is_dead = true;
		h->events.bad(h->ctx, s, st);
	} else {
		h2_reset(s, H2_PROTOCOL_ERROR);
	}
}

void
h2_head_end(struct h2_stream *s, bool is_end_stream)
{
	/* A page costs half: every stream has one, and of most it is the smaller part. */
	bool is_small = s->arena.used <= H2_HEAD_PAGE;
	count(s, s->heads + (is_small ? H2_HEAD_PAGE / 2 : s->arena.used));
	if (s->is_dead) {
		s->is_in_whole = s->is_in_whole || is_end_stream;
		return;
	}
	if (s->has_head)
		give_trailers(s);
	else if (s->h->is_server)
		give_request(s, is_end_stream);
	else
		give_response(s, is_end_stream);
}

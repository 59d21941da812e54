#include "proxy/worker/deny.h"

#include "proxy/base/enc.h"
#include "proxy/http/h1_write.h"
#include "proxy/http/socks.h"
#include "proxy/worker/linger.h"

enum { DENY_WORDS_MAX = 16384, TLS_ALERT = 0x15, TLS_FATAL = 2 };

uint64_t
deny_record(struct conn *c, struct exchange *x)
{
	struct stats *stats = c->w->role.stats;

	if (x->reason == ST_OK)
		x->reason = ST_FILTER_FAILED;
	stats_add(stats, STAT_DENIED, 1);
	stats_refused(stats, x->reason);
	if (x->reason == ST_LIMIT_CONNECTIONS)
		stats_add(stats, STAT_LIMIT_CONNECTIONS, 1);
	if (x->reason == ST_LIMIT_RATE)
		stats_add(stats, STAT_LIMIT_RATE, 1);
	if (x->reason == ST_LIMIT_BYTES)
		stats_add(stats, STAT_LIMIT_BYTES, 1);
	/* It is denied anyway; a ring without room has its own counter. */
	(void)!conn_row(c, x, ROW_DENY);
	return x->last_row;
}

static void
put_member(struct buf *b, const char *name, struct str value)
{
	buf_putf(b, ",\"%s\":", name);
	buf_put_json(b, value);
}

static void
put_message(struct buf *b, const struct exchange *x)
{
	struct buf text;

	buf_init(&text, 2048);
	buf_put(&text, str_from(status_words(x->reason)->sentence));
	if (x->dest != NULL && x->dest->port != 0) {
		buf_put(&text, STR(" Destination: "));
		dest_put(&text, x->dest);
	}
	put_member(b, "message", str_of(text.p, text.len));
	buf_done(&text);
}

static void
put_rule(struct buf *b, const struct image *im, const struct exchange *x)
{
	struct buf text;

	if (x->rule == RULE_NONE) {
		buf_put(b, STR(",\"rule\":null"));
		return;
	}
	buf_init(&text, 8192);
	image_put_rule(&text, im, x->rule);
	put_member(b, "rule", str_of(text.p, text.len));
	buf_done(&text);
}

void
deny_put_json(struct buf *b, const struct image *im, const struct exchange *x,
	      uint64_t id)
{
	const struct status_words *words = status_words(x->reason);

	buf_put(b, STR("{\"error\":{\"code\":"));
	buf_put_json(b, str_from(words->code));
	put_message(b, x);
	put_rule(b, im, x);
	put_member(b, "hint", str_from(words->hint));
	buf_put(b, STR(",\"id\":\""));
	enc_put_id(b, id);
	buf_put(b, STR("\"}}\n"));
}

/* RFC 9209 section 2.3: the registered error that comes nearest. */
static const char *
proxy_error(enum status reason)
{
	static const struct {
		enum status reason;
		const char *word;
	} words[] = {
		{ ST_DNS_NOT_FOUND, "dns_error" },
		{ ST_DNS_FAILED, "dns_error" },
		{ ST_CONNECT_REFUSED, "connection_refused" },
		{ ST_CONNECT_FAILED, "destination_unavailable" },
		{ ST_CONNECT_TIMEOUT, "connection_timeout" },
		{ ST_UPSTREAM_BAD, "http_protocol_error" },
		{ ST_UPSTREAM_CLOSED, "connection_terminated" },
		{ ST_UPSTREAM_TIMEOUT, "http_response_timeout" },
		{ ST_ADDRESS_PRIVATE, "destination_ip_prohibited" },
		{ ST_ADDRESS_METADATA, "destination_ip_prohibited" },
		{ ST_ADDRESS_SELF, "destination_ip_prohibited" },
		{ ST_LIMIT_CONNECTIONS, "connection_limit_reached" },
		{ ST_LOOP, "proxy_loop_detected" },
	};
	uint16_t http = status_words(reason)->http;

	for (size_t i = 0; i < COUNT_OF(words); i++)
		if (words[i].reason == reason)
			return words[i].word;
	if (http == 403 || http == 407 || http == 421 || http == 429)
		return "http_request_denied";
	return http < 500 ? "http_request_error" : "proxy_internal_error";
}

void
deny_put_proxy_status(struct buf *b, enum status reason)
{
	buf_putf(b, "sandgate; error=%s; details=\"%s\"", proxy_error(reason),
		 status_code(reason));
}

enum status
deny_head(struct head *h, enum status reason)
{
	static const struct {
		uint16_t http;
		const char *name, *value;
	} extra[] = {
		/* what RFC 9110 wants beside some status codes */
		{ 407, "Proxy-Authenticate", "Basic realm=\"sandgate\"" },
		{ 405, "Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" },
		{ 429, "Retry-After", "1" },
		{ 503, "Retry-After", "1" },
	};
	CLEANUP(buf_done) struct buf why = { 0 };
	struct str text;

	h->status = status_words(reason)->http;
	buf_init(&why, 256);
	deny_put_proxy_status(&why, reason);
	enum status st = buf_finish(&why, &text);
	if (st == ST_OK)
		st = head_add(h, STR("Content-Type"), STR("application/json"));
	if (st == ST_OK)
		st = head_add(h, STR("Cache-Control"), STR("no-store"));
	if (st == ST_OK)
		st = head_add(h, STR("Proxy-Status"), text);
	for (size_t i = 0; i < COUNT_OF(extra); i++)
		if (st == ST_OK && extra[i].http == h->status)
			st = head_add(h, str_from(extra[i].name),
				      str_from(extra[i].value));
	return st;
}

void
deny_put_http(struct buf *b, const struct image *im, const struct exchange *x,
	      uint64_t id, bool keep)
{
	CLEANUP(buf_done) struct buf body = { 0 };
	CLEANUP(arena_done) struct arena arena = { 0 };
	/* The code is the reason phrase: for CONNECT it is all that most clients show.
	 */
	struct h1_frame f = { .body = BODY_LENGTH,
			      .is_own = true,
			      .is_close = !keep,
			      .reason = str_from(status_code(x->reason)) };
	struct head h;

	arena_init(&arena, DENY_WORDS_MAX);
	head_init(&h, &arena);
	buf_init(&body, DENY_WORDS_MAX);
	deny_put_json(&body, im, x, id);
	f.length = body.len;
	enum status st = deny_head(&h, x->reason);
	h1_write_response(b, &h, &f);
	if (!str_eq(x->method, STR("HEAD")))
		buf_put(b, str_of(body.p, body.len));
	if (st != ST_OK || body.st != ST_OK)
		b->st = st != ST_OK ? st : body.st;
}

static void
put_alert(struct buf *b, enum status reason)
{
	uint8_t alert = status_words(reason)->tls_alert;

	buf_put_u8(b, TLS_ALERT);
	buf_put_u16(b, 0x0303);
	buf_put_u16(b, 2);
	buf_put_u8(b, TLS_FATAL);
	buf_put_u8(b, alert != 0 ? alert : 80);
}

static void
put_words(struct buf *b, const struct conn *c, const struct exchange *x, uint64_t id)
{
	switch ((enum conn_form)c->form) {
	case FORM_HTTP:
	case FORM_CONNECT:
		deny_put_http(b, c->w->role.image, x, id, false);
		break;
	case FORM_SOCKS:
		socks_put_reply(b, x->reason);
		break;
	case FORM_TLS:
		put_alert(b, x->reason);
		break;
	case FORM_CLOSE:
		break;
	}
}

void
deny(struct conn *c, struct exchange *x)
{
	struct buf words;
	uint64_t id;

	if (c->is_closed)
		return;
	id = deny_record(c, x);
	exchange_done(x);
	buf_init(&words, DENY_WORDS_MAX + 2048);
	put_words(&words, c, x, id);
	if (words.st == ST_OK && words.len > 0)
		linger_start(c, str_of(words.p, words.len));
	else if (x->reason == ST_LIMIT_CONNECTIONS || x->reason == ST_LIMIT_RATE ||
		 x->reason == ST_LIMIT_PENDING)
		conn_reset(c); /* a flood must not leave its TIME-WAITs with us */
	else
		conn_close(c);
	buf_done(&words);
}

void
deny_because(struct conn *c, enum status reason)
{
	struct exchange x;

	conn_exchange(c, &x);
	if (c->dest.port != 0)
		x.dest = &c->dest;
	x.reason = reason;
	deny(c, &x);
}

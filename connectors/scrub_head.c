#include "connectors/scrub_head.h"

#include "connectors/scrub.h"
#include "proxy/base/buf.h"

/* A-IM: RFC 3229, answers that are differences. */
static const char *const unreadable[] = { "a-im", "grpc-accept-encoding",
					  "connect-accept-encoding",
					  "sec-websocket-extensions" };

/* What says that messages inside the body may be compressed: gRPC, Connect, WebSocket.
 * Some servers answer as they were asked, whatever they were told about it. */
static const char *const inner[] = { "grpc-encoding", "connect-content-encoding",
				     "sec-websocket-extensions" };

enum status
scrub_request_head(struct head *h)
{
	for (size_t i = 0; i < COUNT_OF(unreadable); i++)
		head_remove_name(h, str_from(unreadable[i]));
	head_remove(h, TOKEN_RANGE);
	head_remove(h, TOKEN_IF_RANGE);
	return head_set(h, STR("accept-encoding"), STR("identity"));
}

/* All fields of Content-Encoding as the one list that they mean. */
static enum status
codings_of(const struct head *h, struct str *ret_codings)
{
	CLEANUP(buf_done) struct buf list = { 0 };
	enum status st;

	buf_init(&list, 256);
	for (size_t i = 0; i < h->fields_len; i++) {
		if (h->fields[i].token != TOKEN_CONTENT_ENCODING)
			continue;
		if (list.len > 0)
			buf_putc(&list, ',');
		buf_put(&list, h->fields[i].value);
	}
	st = list.st == ST_TOO_BIG ? ST_UPSTREAM_BAD : list.st;
	if (st != ST_OK)
		return st;
	*ret_codings = arena_copy(h->arena, str_of(list.p, list.len));
	return ret_codings->p != NULL ? ST_OK : ST_NOMEM;
}

static bool
is_identity(struct str list)
{
	while (list.p != NULL) {
		struct str word = str_trim(str_cut(&list, ','));

		if (word.n > 0 && !str_ieq(word, STR("identity")))
			return false;
	}
	return true;
}

static bool
hides_messages(const struct field *f)
{
	for (size_t i = 0; i < COUNT_OF(inner); i++)
		if (str_ieq(f->name, str_from(inner[i])))
			return !is_identity(f->value);
	return false;
}

static enum status
check_response(const struct head *h)
{
	/* 226: a difference, or whatever else its client may understand. */
	if (h->status == 206 || h->status == 226)
		return ST_UPSTREAM_BAD;
	for (size_t i = 0; i < h->fields_len; i++)
		if (hides_messages(&h->fields[i]))
			return ST_UPSTREAM_BAD;
	return ST_OK;
}

/* Digests of the encoded content and lengths are those of other octets now. */
static void
forget_coding(struct head *h)
{
	head_remove(h, TOKEN_CONTENT_ENCODING);
	head_remove(h, TOKEN_CONTENT_LENGTH);
	head_remove_name(h, STR("content-md5"));
	head_remove_name(h, STR("content-digest"));
	h->has_length = false;
	if (h->body == BODY_LENGTH)
		h->body = BODY_CHUNKED;
}

enum status
scrub_response_head(struct head *h, struct str *ret_codings)
{
	struct str codings = { 0 };
	enum status st = check_response(h);

	if (st != ST_OK || h->status == 101)
		return st;
	head_remove_name(h, STR("accept-ranges"));
	if (head_get(h, TOKEN_CONTENT_ENCODING) != NULL)
		st = codings_of(h, &codings);
	if (st != ST_OK)
		return st;
	if (codings.p != NULL && is_identity(codings)) {
		head_remove(h, TOKEN_CONTENT_ENCODING);
		codings = (struct str){ 0 };
	} else if (codings.p != NULL) {
		forget_coding(h);
	}
	*ret_codings = codings;
	return ST_OK;
}

static enum status
scrub_view(const struct needle_set *set, struct arena *a, struct str *s,
	   uint32_t *count)
{
	struct needle_run run = { 0 };
	struct needle_thread match;
	struct str copy;
	enum status st;

	if (!needle_read(set, &run, *s, &match) && run.st == ST_OK)
		return ST_OK;
	copy = arena_copy(a, *s);
	if (copy.p == NULL)
		return ST_NOMEM;
	union {
		const char *in;
		char *out;
	} own = { .in = copy.p };
	st = scrub_text(set, own.out, copy.n, count);
	if (st == ST_OK)
		*s = copy;
	return st;
}

/* HTTP/2 knows names in lower case only, and so that nobody makes an echo of one behind
 * this, they get it here. */
static enum status
lower(struct arena *a, struct str *s)
{
	char *p = arena_alloc(a, s->n);

	if (p == NULL)
		return ST_NOMEM;
	for (size_t i = 0; i < s->n; i++)
		p[i] = ascii_lower(s->p[i]);
	*s = str_of(p, s->n);
	return ST_OK;
}

static enum status
scrub_name(const struct needle_set *set, struct arena *a, struct str *name,
	   uint32_t *count)
{
	enum status st = scrub_view(set, a, name, count);

	if (st == ST_OK)
		st = lower(a, name);
	return st == ST_OK ? scrub_view(set, a, name, count) : st;
}

enum status
scrub_fields(const struct needle_set *set, struct head *h, uint32_t *count)
{
	enum status st = ST_OK;

	for (size_t i = 0; i < h->fields_len && st == ST_OK; i++) {
		st = scrub_name(set, h->arena, &h->fields[i].name, count);
		if (st == ST_OK)
			st = scrub_view(set, h->arena, &h->fields[i].value, count);
	}
	return st;
}

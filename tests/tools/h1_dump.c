/*
 * h1_dump request|response [piece] [method]: what the HTTP/1 readers make of standard
 * input when it arrives in pieces of that many bytes, one JSON line a message and a
 * last one {"end": code}.  For comparisons with other parsers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "proxy/base/num.h"
#include "proxy/http/h1_body.h"
#include "proxy/http/h1_read.h"
#include "proxy/http/uri.h"

enum { INPUT_MAX = 1 << 22 };

static const struct h1_limits limits = { 100, 16384, 65536 };

struct dump {
	bool is_response;
	enum method asked;
	size_t piece;
	struct str rest;
};

static void
put_fields(struct buf *b, const char *key, const struct head *h)
{
	buf_putf(b, ",\"%s\":[", key);
	for (size_t i = 0; i < h->fields_len; i++) {
		buf_put(b, i > 0 ? STR(",[") : STR("["));
		buf_put_json(b, h->fields[i].name);
		buf_putc(b, ',');
		buf_put_json(b, h->fields[i].value);
		buf_putc(b, ']');
	}
	buf_putc(b, ']');
}

static void
put_head(struct buf *b, const struct head *h)
{
	struct uri u;

	if (h->status > 0) {
		buf_putf(b, "{\"status\":%u", (unsigned)h->status);
	} else {
		buf_put(b, STR("{\"method\":"));
		buf_put_json(b, h->method);
		buf_put(b, STR(",\"target\":"));
		buf_put_json(b, h->target);
		buf_putf(b, ",\"destination\":\"%s\"",
			 status_code(uri_of_request(h, 80, &u)));
	}
	buf_putf(b, ",\"minor\":%u,\"keeps\":%s", (unsigned)h->minor,
		 h->is_persistent ? "true" : "false");
	put_fields(b, "fields", h);
}

static enum status
read_head(struct dump *d, struct arena *a, struct head *h)
{
	struct h1_read r;
	enum status st = ST_AGAIN;
	size_t used = 0;

	if (d->is_response)
		h1_read_response(&r, a, &limits, d->asked, false);
	else
		h1_read_request(&r, a, &limits);
	while (st == ST_AGAIN && d->rest.n > 0) {
		st = h1_read_feed(&r, str_head(d->rest, d->piece), &used, h);
		if (st == ST_OK || st == ST_AGAIN)
			d->rest = str_skip(d->rest, used);
	}
	h1_read_done(&r);
	return st;
}

static enum status
read_body(struct dump *d, const struct head *h, struct buf *b)
{
	CLEANUP(buf_done) struct buf payload = { 0 };
	CLEANUP(h1_body_done) struct h1_body body = { 0 };
	enum status st = ST_AGAIN;
	size_t used = 0;

	if (h->body == BODY_TUNNEL)
		return ST_END;
	buf_init(&payload, INPUT_MAX);
	h1_body_init(&body, h, &limits);
	do {
		struct str data = { NULL, 0 };
		st = h1_body_feed(&body, str_head(d->rest, d->piece), &used, &data);
		if (st != ST_OK && st != ST_AGAIN && st != ST_END)
			break;
		buf_put(&payload, data);
		d->rest = str_skip(d->rest, used);
	} while (st != ST_END && d->rest.n > 0);
	if (st != ST_END && d->rest.n == 0 && h1_body_may_close(&body))
		st = ST_END;
	buf_put(b, STR(",\"body\":"));
	buf_put_json(b, str_of(payload.p, payload.len));
	put_fields(b, "trailers", &body.trailers);
	return st;
}

/* ST_OK: another message may follow. */
static enum status
dump_message(struct dump *d)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct arena a;
	struct head h;

	arena_init(&a, 1 << 22);
	buf_init(&b, 1 << 26);
	enum status st = read_head(d, &a, &h);
	if (st == ST_OK) {
		put_head(&b, &h);
		st = read_body(d, &h, &b);
		buf_putf(&b, ",\"complete\":%s}\n", st == ST_END ? "true" : "false");
		const char *line = buf_cstr(&b);
		(void)fputs(line == NULL ? "" : line, stdout);
		if (st == ST_END)
			st = h.is_persistent && h.body != BODY_TUNNEL ? ST_OK : ST_END;
	}
	arena_done(&a);
	return st;
}

int
main(int argc, char **argv)
{
	static char input[INPUT_MAX];
	uint64_t piece = INPUT_MAX;
	enum status st = ST_OK;

	if (argc < 2 ||
	    (argc > 2 && !num_parse_u64(str_from(argv[2]), INPUT_MAX, &piece)))
		return EXIT_FAILURE;
	struct dump d = {
		.is_response = str_eq(str_from(argv[1]), STR("response")),
		.asked = argc > 3 ? method_of(str_from(argv[3])) : METHOD_GET,
		.piece = piece > 0 ? (size_t)piece : INPUT_MAX,
		.rest = str_of(input, fread(input, 1, sizeof input, stdin)),
	};
	while (st == ST_OK && d.rest.n > 0)
		st = dump_message(&d);
	(void)printf("{\"end\":\"%s\"}\n", status_code(st));
	return EXIT_SUCCESS;
}

#include "proxy/base/enc.h"
#include "proxy/worker/deny.h"

enum { GRPC_WORDS_MAX = 2048 };

bool
deny_is_grpc(const struct head *request)
{
	const struct field *f = head_get(request, TOKEN_CONTENT_TYPE);
	struct str grpc = STR("application/grpc"), rest;

	if (f == NULL || !str_starts(f->value, grpc) ||
	    !head_lists(request, TOKEN_TE, STR("trailers")))
		return false;
	/* application/grpc-web has its own frames, and reads HTTP's status. */
	rest = str_skip(f->value, grpc.n);
	return rest.n == 0 || rest.p[0] == '+' || rest.p[0] == ';';
}

/* As clients make a status of HTTP one of gRPC, where that says enough. */
static const char *
status_of(enum status reason)
{
	static const struct {
		uint16_t http;
		const char *grpc;
	} known[] = {
		{ 403, "7" },                 /* PERMISSION_DENIED */
		{ 421, "7" },                 /* as a name that is refused */
		{ 407, "16" },                /* UNAUTHENTICATED */
		{ 413, "8" },                 /* RESOURCE_EXHAUSTED */
		{ 429, "8" },  { 501, "12" }, /* UNIMPLEMENTED */
		{ 502, "14" },                /* UNAVAILABLE */
		{ 503, "14" }, { 504, "14" },
	};
	uint16_t http = status_words(reason)->http;

	for (size_t i = 0; i < COUNT_OF(known); i++)
		if (known[i].http == http)
			return known[i].grpc;
	return "13"; /* INTERNAL */
}

/* gRPC over HTTP/2, "Responses": printable ASCII stands, all else and % are escaped. */
static void
put_escaped(struct buf *b, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text >= ' ' && *text <= '~' && *text != '%')
			buf_putc(b, *text);
		else
			buf_putf(b, "%%%02X", (unsigned)(unsigned char)*text);
	}
}

enum status
deny_head_grpc(struct head *h, enum status reason, uint64_t id)
{
	const struct status_words *words = status_words(reason);
	CLEANUP(buf_done) struct buf text = { 0 };
	CLEANUP(buf_done) struct buf why = { 0 };
	enum status st;

	h->status = 200;
	buf_init(&text, GRPC_WORDS_MAX);
	buf_putf(&text, "%s: ", words->code);
	put_escaped(&text, words->sentence);
	buf_putc(&text, ' ');
	put_escaped(&text, words->hint);
	buf_put(&text, STR(" id "));
	enc_put_id(&text, id);
	buf_init(&why, 256);
	deny_put_proxy_status(&why, reason);
	st = text.st != ST_OK ? text.st : why.st;
	if (st == ST_OK)
		st = head_add(h, STR("Content-Type"), STR("application/grpc"));
	if (st == ST_OK)
		st = head_add(h, STR("Grpc-Status"), str_from(status_of(reason)));
	if (st == ST_OK)
		st = head_add(h, STR("Grpc-Message"), str_of(text.p, text.len));
	return st == ST_OK ? head_add(h, STR("Proxy-Status"), str_of(why.p, why.len))
			   : st;
}

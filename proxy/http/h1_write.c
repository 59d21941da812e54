#include "proxy/http/h1_write.h"

#include <inttypes.h>

struct h1_frame
h1_frame_of(const struct head *h)
{
	return (struct h1_frame){ .body = h->body, .length = h->length };
}

static void
put_field(struct buf *b, struct str name, struct str value)
{
	buf_put(b, name);
	buf_put(b, STR(": "));
	buf_put(b, value);
	buf_put(b, STR("\r\n"));
}

static void
put_length(struct buf *b, uint64_t n)
{
	buf_put(b, STR("Content-Length: "));
	buf_put_dec(b, n);
	buf_put(b, STR("\r\n"));
}

static void
put_framing(struct buf *b, const struct h1_frame *f)
{
	if (f->body == BODY_LENGTH)
		put_length(b, f->length);
	else if (f->body == BODY_CHUNKED)
		buf_put(b, STR("Transfer-Encoding: chunked\r\n"));
}

/* Connection, and the fields that it names. */
static void
put_connection(struct buf *b, const struct h1_frame *f, bool keeps_te)
{
	struct str te = keeps_te ? STR("TE") : STR("");

	if (f->is_upgrade)
		put_field(b, STR("Upgrade"), STR("websocket"));
	if (keeps_te)
		put_field(b, STR("TE"), STR("trailers"));
	if (!f->is_upgrade && !f->is_close && !keeps_te)
		return;
	buf_put(b, STR("Connection: "));
	/* In this case of letters: there are peers who compare it so. */
	if (f->is_upgrade)
		buf_put(b, STR("Upgrade"));
	else if (f->is_close)
		buf_put(b, STR("close"));
	if (keeps_te && (f->is_upgrade || f->is_close))
		buf_put(b, STR(", "));
	buf_put(b, te);
	buf_put(b, STR("\r\n"));
}

static void
put_request_target(struct buf *b, const struct uri *u, const struct h1_frame *f)
{
	if (u->form == URI_AUTHORITY) {
		dest_put(b, &u->dest);
		return;
	}
	if (f->is_absolute) {
		buf_put(b, STR("http://"));
		dest_put(b, &u->dest);
		/* RFC 9112 section 3.2.4: the last proxy makes "*" of an empty path. */
		if (str_eq(u->path, STR("*")))
			return;
	}
	uri_put_target(b, u);
}

static bool
request_field_passes(const struct head *h, const struct field *fd,
		     const struct h1_frame *f)
{
	if (fd->token == TOKEN_EXPECT)
		return f->keeps_expect && h->expects_continue;
	return head_field_passes(h, fd);
}

void
h1_write_request(struct buf *b, const struct head *h, const struct uri *u,
		 uint16_t default_port, const struct h1_frame *f)
{
	buf_put(b, h->method);
	buf_putc(b, ' ');
	put_request_target(b, u, f);
	buf_put(b, STR(" HTTP/1.1\r\nHost: "));
	if (u->dest.port == default_port)
		dest_put_host(b, &u->dest);
	else
		dest_put(b, &u->dest);
	buf_put(b, STR("\r\n"));
	for (size_t i = 0; i < h->fields_len; i++)
		if (request_field_passes(h, &h->fields[i], f))
			put_field(b, h->fields[i].name, h->fields[i].value);
	put_framing(b, f);
	put_connection(b, f, head_lists(h, TOKEN_TE, STR("trailers")));
	buf_put(b, STR("\r\n"));
}

/* A length that describes a body which isn't sent: HEAD and 304. */
static bool
describes_length(const struct head *h, const struct h1_frame *f)
{
	return f->body == BODY_NONE && h->has_length && h->status >= 200 &&
	       h->status != 204;
}

void
h1_write_response(struct buf *b, const struct head *h, const struct h1_frame *f)
{
	need(h->status >= 100 && h->status <= 999);
	buf_put(b, STR("HTTP/1.1 "));
	buf_put_dec(b, h->status);
	buf_putc(b, ' ');
	buf_put(b, f->reason.n > 0 ? f->reason : str_from(h1_reason(h->status)));
	buf_put(b, STR("\r\n"));
	for (size_t i = 0; i < h->fields_len; i++)
		if (f->is_own || (h->fields[i].token != TOKEN_ALT_SVC &&
				  head_field_passes(h, &h->fields[i])))
			put_field(b, h->fields[i].name, h->fields[i].value);
	if (describes_length(h, f))
		put_length(b, h->length);
	put_framing(b, f);
	put_connection(b, f, false);
	buf_put(b, STR("\r\n"));
}

void
h1_write_chunk_head(struct buf *b, uint64_t n)
{
	need(n > 0);
	buf_putf(b, "%" PRIx64 "\r\n", n);
}

void
h1_write_last_chunk(struct buf *b, const struct head *of, const struct head *trailers)
{
	buf_put(b, STR("0\r\n"));
	for (size_t i = 0; trailers != NULL && i < trailers->fields_len; i++)
		if (head_trailer_passes(of, &trailers->fields[i]))
			put_field(b, trailers->fields[i].name,
				  trailers->fields[i].value);
	buf_put(b, STR("\r\n"));
}

static const struct {
	uint16_t status;
	const char *reason;
} reasons[] = {
	{ 100, "Continue" },
	{ 101, "Switching Protocols" },
	{ 103, "Early Hints" },
	{ 200, "OK" },
	{ 201, "Created" },
	{ 202, "Accepted" },
	{ 203, "Non-Authoritative Information" },
	{ 204, "No Content" },
	{ 205, "Reset Content" },
	{ 206, "Partial Content" },
	{ 300, "Multiple Choices" },
	{ 301, "Moved Permanently" },
	{ 302, "Found" },
	{ 303, "See Other" },
	{ 304, "Not Modified" },
	{ 307, "Temporary Redirect" },
	{ 308, "Permanent Redirect" },
	{ 400, "Bad Request" },
	{ 401, "Unauthorized" },
	{ 402, "Payment Required" },
	{ 403, "Forbidden" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 406, "Not Acceptable" },
	{ 407, "Proxy Authentication Required" },
	{ 408, "Request Timeout" },
	{ 409, "Conflict" },
	{ 410, "Gone" },
	{ 411, "Length Required" },
	{ 412, "Precondition Failed" },
	{ 413, "Content Too Large" },
	{ 414, "URI Too Long" },
	{ 415, "Unsupported Media Type" },
	{ 416, "Range Not Satisfiable" },
	{ 417, "Expectation Failed" },
	{ 421, "Misdirected Request" },
	{ 422, "Unprocessable Content" },
	{ 425, "Too Early" },
	{ 426, "Upgrade Required" },
	{ 428, "Precondition Required" },
	{ 429, "Too Many Requests" },
	{ 431, "Request Header Fields Too Large" },
	{ 451, "Unavailable For Legal Reasons" },
	{ 500, "Internal Server Error" },
	{ 501, "Not Implemented" },
	{ 502, "Bad Gateway" },
	{ 503, "Service Unavailable" },
	{ 504, "Gateway Timeout" },
	{ 505, "HTTP Version Not Supported" },
	{ 508, "Loop Detected" },
	{ 511, "Network Authentication Required" },
};

const char *
h1_reason(uint16_t status)
{
	for (size_t i = 0; i < COUNT_OF(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "";
}

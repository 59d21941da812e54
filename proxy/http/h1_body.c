#include "proxy/http/h1_body.h"

#include "proxy/base/enc.h"
#include "proxy/base/num.h"

enum { SIZE_DIGITS = 16, EXT_MAX = 256, EXT_MEAN = 16, EXT_ALLOWANCE = 1024 };

void
h1_body_init(struct h1_body *b, const struct head *h, const struct h1_limits *lim)
{
	need(h->body != BODY_TUNNEL);
	*b = (struct h1_body){ .kind = h->body, .limits = *lim, .state = H1_BODY_DATA };
	h1_line_init(&b->line, num_max(lim->line, SIZE_DIGITS + EXT_MAX + 2));
	head_init(&b->trailers, h->arena);
	b->left = h->body == BODY_LENGTH ? h->length : 0;
	if (h->body == BODY_CHUNKED)
		b->state = H1_BODY_SIZE;
	else if (h->body != BODY_UNTIL_CLOSE && b->left == 0)
		b->state = H1_BODY_OVER;
}

void
h1_body_done(struct h1_body *b)
{
	h1_line_done(&b->line);
}

bool
h1_body_is_over(const struct h1_body *b)
{
	return b->state == H1_BODY_OVER;
}

bool
h1_body_may_close(const struct h1_body *b)
{
	return b->state == H1_BODY_OVER || b->kind == BODY_UNTIL_CLOSE;
}

/* The length of a quoted string at the beginning of s (RFC 9110 section 5.6.4), or 0.
 */
static size_t
quoted_length(struct str s)
{
	if (s.n < 2 || s.p[0] != '"')
		return 0;
	bool is_escaped = false;
	for (size_t i = 1; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return 0;
		if (c == '"' && !is_escaped)
			return i + 1;
		is_escaped = c == '\\' && !is_escaped;
	}
	return 0;
}

static size_t
token_length(struct str s)
{
	size_t n = 0;

	while (n < s.n && is_http_token(str_head(str_skip(s, n), 1)))
		n++;
	return n;
}

/* *( ";" name [ "=" value ] ), without the blanks that RFC 9112 calls bad. */
static bool
is_extension(struct str s)
{
	while (s.n > 0) {
		size_t name = token_length(str_skip(s, 1));
		if (s.p[0] != ';' || name == 0)
			return false;
		s = str_skip(s, 1 + name);
		if (s.n == 0 || s.p[0] != '=')
			continue;
		s = str_skip(s, 1);
		size_t value = token_length(s);
		value = value > 0 ? value : quoted_length(s);
		if (value == 0)
			return false;
		s = str_skip(s, value);
	}
	return true;
}

static enum status
take_size(struct h1_body *b, struct str line)
{
	size_t digits = 0;

	while (digits < line.n && enc_hex_digit(line.p[digits]) >= 0)
		digits++;
	struct str ext = str_skip(line, digits);
	if (digits > SIZE_DIGITS || ext.n > EXT_MAX || !is_extension(ext) ||
	    !num_parse_hex(str_head(line, digits), INT64_MAX, &b->left))
		return ST_BAD_CHUNK;
	b->chunks++;
	b->ext_bytes += ext.n;
	/* Many small chunks with large extensions cost much and carry nothing. */
	if (b->ext_bytes > EXT_ALLOWANCE && b->ext_bytes / EXT_MEAN > b->chunks)
		return ST_BAD_CHUNK;
	b->state = b->left > 0 ? H1_BODY_DATA : H1_BODY_TRAILER;
	return ST_OK;
}

static enum status
step_size(struct h1_body *b, struct str *in)
{
	struct str line;

	b->line.limit = SIZE_DIGITS + EXT_MAX + 2;
	enum status st = h1_line_take(&b->line, in, &line);
	if (st == ST_TOO_BIG || st == ST_BAD_REQUEST)
		return ST_BAD_CHUNK;
	return st == ST_OK ? take_size(b, line) : st;
}

/* A length behind the body makes sense to nobody but a reader that is lost. */
static enum status
take_trailer(struct h1_body *b, struct str line)
{
	size_t before = b->trailers.fields_len;
	enum status st = h1_line_field(line, &b->limits, &b->trailers);

	if (st != ST_OK || b->trailers.fields_len == before)
		return st;
	if (token_flags(b->trailers.fields[before].token) & TOKEN_IS_FRAMING)
		return ST_BAD_CHUNK;
	return ST_OK;
}

static enum status
step_trailer(struct h1_body *b, struct str *in)
{
	size_t before = in->n;
	struct str line;

	b->line.limit = b->limits.line;
	enum status st = h1_line_take(&b->line, in, &line);
	b->trailer_bytes += before - in->n;
	if (st == ST_TOO_BIG || b->trailer_bytes > b->limits.head ||
	    (st == ST_AGAIN && b->trailer_bytes == b->limits.head))
		return ST_HEAD_TOO_LARGE;
	if (st != ST_OK)
		return st == ST_BAD_REQUEST ? ST_BAD_CHUNK : st;
	if (line.n > 0)
		return take_trailer(b, line);
	b->state = H1_BODY_OVER;
	return ST_OK;
}

/* The CRLF behind a chunk, octet by octet: anything else is a wrong chunk size. */
static enum status
step_data_end(struct h1_body *b, struct str *in)
{
	if (in->n == 0)
		return ST_AGAIN;
	if (in->p[0] != (b->left == 2 ? '\r' : '\n'))
		return ST_BAD_CHUNK;
	*in = str_skip(*in, 1);
	b->left--;
	if (b->left == 0)
		b->state = H1_BODY_SIZE;
	return ST_OK;
}

static struct str
take_data(struct h1_body *b, struct str *in)
{
	struct str data = *in;

	if (b->kind != BODY_UNTIL_CLOSE) {
		data = str_head(*in, b->left < in->n ? (size_t)b->left : in->n);
		b->left -= data.n;
		if (b->left == 0)
			b->state = b->kind == BODY_CHUNKED ? H1_BODY_DATA_END
							   : H1_BODY_OVER;
		if (b->state == H1_BODY_DATA_END)
			b->left = 2;
	}
	*in = str_skip(*in, data.n);
	return data;
}

static enum status
step(struct h1_body *b, struct str *in)
{
	switch (b->state) {
	case H1_BODY_SIZE:
		return step_size(b, in);
	case H1_BODY_DATA_END:
		return step_data_end(b, in);
	case H1_BODY_TRAILER:
		return step_trailer(b, in);
	case H1_BODY_DATA:
		return ST_AGAIN; /* with bytes it never comes here */
	case H1_BODY_OVER:
		break;
	}
	return ST_END;
}

enum status
h1_body_feed(struct h1_body *b, struct str in, size_t *ret_used,
	     struct str *ret_payload)
{
	struct str rest = in, data = { NULL, 0 };
	enum status st = ST_OK;

	while (st == ST_OK && data.n == 0) {
		if (b->state == H1_BODY_DATA && rest.n > 0)
			data = take_data(b, &rest);
		else
			st = step(b, &rest);
	}
	if (st != ST_OK && st != ST_AGAIN && st != ST_END)
		return st;
	*ret_used = in.n - rest.n;
	if (st == ST_OK)
		*ret_payload = data;
	return st;
}

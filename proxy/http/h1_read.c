#include "proxy/http/h1_read.h"

#include "proxy/base/num.h"
#include "proxy/http/framing.h"

static void
init(struct h1_read *r, struct arena *a, const struct h1_limits *lim)
{
	*r = (struct h1_read){ .limits = *lim, .state = H1_READ_START };
	r->limits.line = num_min(lim->line, lim->head);
	h1_line_init(&r->line, r->limits.line);
	head_init(&r->head, a);
}

void
h1_read_request(struct h1_read *r, struct arena *a, const struct h1_limits *lim)
{
	init(r, a, lim);
}

void
h1_read_response(struct h1_read *r, struct arena *a, const struct h1_limits *lim,
		 enum method asked, bool asked_upgrade)
{
	init(r, a, lim);
	r->is_response = true;
	r->asked = asked;
	r->asked_upgrade = asked_upgrade;
}

void
h1_read_done(struct h1_read *r)
{
	h1_line_done(&r->line);
}

bool
h1_read_has_begun(const struct h1_read *r)
{
	return r->state >= H1_READ_FIELDS ||
	       (r->line.part.len > 0 && !r->line.is_given);
}

/* Exactly "HTTP/1.0" or "HTTP/1.1". */
static enum status
parse_version(struct str text, uint8_t *ret_minor)
{
	if (text.n != 8 || !str_starts(text, STR("HTTP/")) ||
	    !ascii_is_digit(text.p[5]) || text.p[6] != '.' ||
	    !ascii_is_digit(text.p[7]))
		return ST_BAD_REQUEST;
	if (text.p[5] != '1' || text.p[7] > '1')
		return ST_BAD_VERSION;
	*ret_minor = (uint8_t)(text.p[7] - '0');
	return ST_OK;
}

static bool
is_target(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return false;
	return s.n > 0;
}

static enum status
take_request_line(struct h1_read *r, struct str line)
{
	struct head *h = &r->head;
	struct str copy = arena_copy(h->arena, line), version = copy;

	if (copy.p == NULL)
		return ST_NOMEM;
	h->method = str_cut(&version, ' ');
	h->target = str_cut(&version, ' ');
	if (!is_http_token(h->method) || version.p == NULL)
		return ST_BAD_REQUEST;
	enum status st = parse_version(version, &h->minor);
	if (st != ST_OK)
		return st;
	h->method_id = method_of(h->method);
	return is_target(h->target) ? ST_OK : ST_BAD_TARGET;
}

/* The reason phrase is checked and dropped: nothing may depend on it. */
static enum status
take_status_line(struct h1_read *r, struct str line)
{
	struct str reason = line, version = str_cut(&reason, ' ');
	struct str code = str_cut(&reason, ' ');
	uint64_t status = 0;

	if (parse_version(version, &r->head.minor) != ST_OK || code.n != 3 ||
	    !num_parse_strict(code, 599, &status) || status < 100)
		return ST_UPSTREAM_BAD;
	for (size_t i = 0; i < reason.n; i++) {
		unsigned char c = (unsigned char)reason.p[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return ST_UPSTREAM_BAD;
	}
	r->head.status = (uint16_t)status;
	return ST_OK;
}

static enum status
finish_request(struct h1_read *r)
{
	struct head *h = &r->head;
	size_t hosts = head_count(h, TOKEN_HOST);

	if (hosts > 1 || (hosts == 0 && h->minor == 1))
		return ST_BAD_HEADER;
	/* RFC 9112 section 9.3: a proxy keeps no connection with an HTTP/1.0 client. */
	h->is_persistent =
		h->minor == 1 && !head_lists(h, TOKEN_CONNECTION, STR("close"));
	return framing_of_request(h);
}

static enum status
finish_response(struct h1_read *r)
{
	struct head *h = &r->head;

	enum status st = framing_of_response(h, r->asked, r->asked_upgrade);
	if (st != ST_OK)
		return st;
	h->is_persistent = h->minor == 1 && h->body != BODY_UNTIL_CLOSE &&
			   !head_lists(h, TOKEN_CONNECTION, STR("close"));
	return ST_OK;
}

static enum status
take_line(struct h1_read *r, struct str line)
{
	enum status st = ST_OK;

	if (r->state == H1_READ_FIELDS) {
		if (line.n > 0)
			return h1_line_field(line, &r->limits, &r->head);
		r->state = H1_READ_OVER;
		return r->is_response ? finish_response(r) : finish_request(r);
	}
	/* RFC 9112 section 2.2: some clients send an empty line behind a body. */
	if (line.n == 0 && r->state == H1_READ_START && !r->is_response) {
		r->state = H1_READ_EMPTY_SEEN;
		r->taken = 0;
		return ST_OK;
	}
	st = r->is_response ? take_status_line(r, line) : take_request_line(r, line);
	r->state = H1_READ_FIELDS;
	return st;
}

/* One line, or a part of one; errors as a request has them. */
static enum status
step(struct h1_read *r, struct str *in)
{
	size_t before = in->n;
	struct str line;

	enum status st = h1_line_take(&r->line, in, &line);
	r->taken += before - in->n;
	if (st == ST_TOO_BIG)
		return r->state == H1_READ_FIELDS ? ST_HEAD_TOO_LARGE : ST_URI_TOO_LONG;
	/* A head that has no end at its limit would be over it. */
	if (r->taken > r->limits.head || (st == ST_AGAIN && r->taken == r->limits.head))
		return ST_HEAD_TOO_LARGE;
	return st == ST_OK ? take_line(r, line) : st;
}

enum status
h1_read_feed(struct h1_read *r, struct str in, size_t *ret_used, struct head *ret_head)
{
	struct str rest = in;
	enum status st = ST_OK;

	need(r->state != H1_READ_OVER);
	while (st == ST_OK && r->state != H1_READ_OVER)
		st = step(r, &rest);
	if (st != ST_OK && st != ST_AGAIN)
		return r->is_response && st != ST_NOMEM ? ST_UPSTREAM_BAD : st;
	*ret_used = in.n - rest.n;
	if (st == ST_OK)
		*ret_head = r->head;
	return st;
}

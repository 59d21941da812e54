#include "proxy/http/uri.h"

#include <string.h>

#include "proxy/base/enc.h"

static bool
is_visible(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return false;
	return s.n > 0;
}

/* The octet that "%XY" at s stands for, or -1. */
static int
triplet(struct str s)
{
	if (s.n < 3)
		return -1;
	int hi = enc_hex_digit(s.p[1]), lo = enc_hex_digit(s.p[2]);
	return hi < 0 || lo < 0 ? -1 : hi << 4 | lo;
}

/* "." and "..", also with the parameters that some servers cut off first. */
struct segment {
	unsigned dots, others;
	bool has_params;
};

static bool
is_dots(const struct segment *g)
{
	return g->others == 0 && (g->dots == 1 || g->dots == 2);
}

static void
segment_add(struct segment *g, int c)
{
	if (c == ';')
		g->has_params = true;
	if (g->has_params)
		return;
	if (c == '.')
		g->dots++;
	else
		g->others++;
}

/*
 * Octets that nobody writes in percent form except to be read differently twice:
 * controls, the backslash, letters and digits; lead octets that only overlong UTF-8
 * starts with.
 */
static bool
is_bad_octet(int c, int next)
{
	if (c < 0x20 || c == 0x7f || c == '\\' || c == 0xc0 || c == 0xc1)
		return true;
	if (c < 0x80)
		return ascii_is_alpha((char)c) || ascii_is_digit((char)c);
	return (c == 0xe0 && next >= 0x80 && next < 0xa0) ||
	       (c == 0xf0 && next >= 0x80 && next < 0x90);
}

enum status
uri_check_path(struct str path)
{
	struct segment g = { 0 };

	if (path.n == 0 || path.p[0] != '/' || !is_visible(path))
		return ST_BAD_PATH;
	for (path = str_skip(path, 1); path.n > 0;) {
		bool is_coded = path.p[0] == '%';
		int c = is_coded ? triplet(path) : path.p[0];
		struct str rest = str_skip(path, is_coded ? 3 : 1);
		if (c < 0 || c == '\\' || (!is_coded && (c == '?' || c == '#')))
			return ST_BAD_PATH;
		if (is_coded && is_bad_octet(c, str_head(rest, 1).n && rest.p[0] == '%'
							? triplet(rest)
							: -1))
			return ST_BAD_PATH;
		if (c == '/' && is_dots(&g))
			return ST_BAD_PATH;
		if (c == '/')
			g = (struct segment){ 0 };
		else
			segment_add(&g, c);
		path = rest;
	}
	return is_dots(&g) ? ST_BAD_PATH : ST_OK;
}

/* path[?query] into u; an empty path is "/". */
static enum status
parse_path(struct str text, struct uri *u)
{
	u->query = text;
	u->path = str_cut(&u->query, '?');
	u->has_query = u->query.p != NULL;
	if (u->path.n == 0)
		u->path = STR("/");
	return uri_check_path(u->path);
}

static enum status
parse_absolute(enum method m, struct str target, struct uri *u)
{
	struct str rest = str_skip(target, STR("http://").n);
	size_t n = 0;

	while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?')
		n++;
	struct str authority = str_head(rest, n);
	u->form = URI_ABSOLUTE;
	if (n == 0 || str_has(authority, '@') || str_has(authority, '\\'))
		return ST_BAD_TARGET;
	enum status st = dest_from_authority(authority, 80, &u->dest);
	if (st != ST_OK)
		return st;
	/* RFC 9112 section 3.2.4: this is how "OPTIONS *" comes to a proxy. */
	if (m == METHOD_OPTIONS && n == rest.n) {
		u->path = STR("*");
		return ST_OK;
	}
	return parse_path(str_skip(rest, n), u);
}

static enum status
parse_authority(struct str target, struct uri *u)
{
	u->form = URI_AUTHORITY;
	for (size_t i = 0; i < target.n; i++)
		if (strchr("/?@\\*", target.p[i]) != NULL)
			return ST_BAD_TARGET;
	return dest_from_authority(target, 0, &u->dest);
}

enum status
uri_parse(enum method m, struct str target, struct uri *ret_u)
{
	struct uri u = { .form = URI_ORIGIN };
	enum status st = ST_BAD_TARGET;

	if (!is_visible(target) || str_has(target, '#'))
		return ST_BAD_TARGET;
	if (m == METHOD_CONNECT) {
		st = parse_authority(target, &u);
	} else if (target.p[0] == '/') {
		st = parse_path(target, &u);
	} else if (str_starts(target, STR("http://"))) {
		st = parse_absolute(m, target, &u);
	} else if (m == METHOD_OPTIONS && str_eq(target, STR("*"))) {
		u.form = URI_ASTERISK;
		u.path = target;
		st = ST_OK;
	}
	if (st == ST_OK)
		*ret_u = u;
	return st;
}

enum status
uri_of_request(const struct head *h, uint16_t default_port, struct uri *ret_u)
{
	const struct field *host = head_get(h, TOKEN_HOST);
	struct uri u;
	struct dest said;

	enum status st = uri_parse(h->method_id, h->target, &u);
	if (st != ST_OK)
		return st;
	bool is_named = u.form == URI_ABSOLUTE || u.form == URI_AUTHORITY;
	if (host == NULL && !is_named) /* HTTP/1.0 */
		return ST_BAD_HOST;
	if (host != NULL) {
		/* Clients leave the port of a CONNECT target out of Host; "http"
		 * means 80. */
		uint16_t port = u.form == URI_AUTHORITY ? u.dest.port : default_port;
		port = u.form == URI_ABSOLUTE ? 80 : port;
		st = dest_from_authority(host->value, port, &said);
		if (st != ST_OK)
			return st;
		if (!is_named)
			u.dest = said;
		if (!dest_same_host(&u.dest, &said) || u.dest.port != said.port)
			return ST_MISMATCH;
	}
	*ret_u = u;
	return ST_OK;
}

void
uri_put_target(struct buf *b, const struct uri *u)
{
	buf_put(b, u->path);
	if (!u->has_query)
		return;
	buf_putc(b, '?');
	buf_put(b, u->query);
}

#ifndef TESTS_UNIT_SCRUB_FORMS_H
#define TESTS_UNIT_SCRUB_FORMS_H
/* scrub_forms: how senders write a secret, a row for each way that needle.def lists. */
#include <string.h>

#include "proxy/base/enc.h"

enum { TEXT_MAX = 4096 };

/* One form: writes s, with some octets before it in the same text where that matters. */
typedef void (*put_fn)(struct buf *b, struct str s);

static void
put_plain(struct buf *b, struct str s)
{
	buf_put(b, s);
}

static void
put_percent(struct buf *b, struct str s, bool is_upper, unsigned every)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned o = (unsigned char)s.p[i];

		if (i % every != 0 && strchr("%\\\"/+", s.p[i]) == NULL)
			buf_putc(b, s.p[i]);
		else if (is_upper)
			buf_putf(b, "%%%02X", o);
		else
			buf_putf(b, "%%%02x", o);
	}
}

static void
put_percent_needed(struct buf *b, struct str s)
{
	put_percent(b, s, true, 1000);
}

static void
put_percent_all(struct buf *b, struct str s)
{
	put_percent(b, s, true, 1);
}

static void
put_percent_lower(struct buf *b, struct str s)
{
	put_percent(b, s, false, 1);
}

static void
put_percent_some(struct buf *b, struct str s)
{
	put_percent(b, s, false, 3);
}

static void
put_json(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '"' || s.p[i] == '\\')
			buf_putc(b, '\\');
		buf_putc(b, s.p[i]);
	}
}

static void
put_json_slash(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (strchr("\"\\/", s.p[i]) != NULL)
			buf_putc(b, '\\');
		buf_putc(b, s.p[i]);
	}
}

static void
put_json_u(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		buf_putf(b, "\\u%04x", (unsigned)(unsigned char)s.p[i]);
}

static void
put_percent_json(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '/')
			buf_put(b, STR("\\/"));
		else
			put_percent_needed(b, str_of(s.p + i, 1));
}

static void
put_hex(struct buf *b, struct str s)
{
	enc_put_hex(b, s);
}

static void
put_hex_upper(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		buf_putf(b, "%02X", (unsigned)(unsigned char)s.p[i]);
}

static void
put_base64(struct buf *b, const char *before, struct str s, const char *after,
	   bool is_url)
{
	CLEANUP(buf_done) struct buf whole = { 0 };
	size_t at = b->len;

	buf_init(&whole, TEXT_MAX);
	buf_put(&whole, str_from(before));
	buf_put(&whole, s);
	buf_put(&whole, str_from(after));
	enc_put_base64(b, str_of(whole.p, whole.len));
	for (; is_url && at < b->len; at++)
		b->p[at] = (char)(b->p[at] == '+'   ? '-'
				  : b->p[at] == '/' ? '_'
						    : b->p[at]);
}

static void
put_base64_0(struct buf *b, struct str s)
{
	put_base64(b, "", s, "", false);
}

static void
put_base64_1(struct buf *b, struct str s)
{
	put_base64(b, "\xff", s, "\xff", false);
}

static void
put_base64_2(struct buf *b, struct str s)
{
	put_base64(b, "??", s, "~~~", false);
}

static void
put_base64url_1(struct buf *b, struct str s)
{
	put_base64(b, "\xfe", s, "?\xff", true);
}

static void
put_basic(struct buf *b, struct str s)
{
	buf_put(b, STR("Basic "));
	put_base64(b, "x-access-token:", s, "", false);
}

static void
put_basic_user(struct buf *b, struct str s)
{
	buf_put(b, STR("Basic "));
	put_base64(b, "", s, ":x-oauth-basic", false);
}

static const struct {
	const char *name;
	put_fn put;
	bool any_case; /* without a letter among the digits nobody knows their case */
} forms[] = {
	{ "plain", put_plain, false },
	{ "percent, what must be", put_percent_needed, false },
	{ "percent, all, upper case", put_percent_all, false },
	{ "percent, all, lower case", put_percent_lower, true },
	{ "percent, some", put_percent_some, true },
	{ "percent, then JSON", put_percent_json, false },
	{ "JSON", put_json, false },
	{ "JSON with slashes", put_json_slash, false },
	{ "JSON, all \\u", put_json_u, false },
	{ "hex", put_hex, false },
	{ "hex, upper case", put_hex_upper, true },
	{ "base64", put_base64_0, false },
	{ "base64, one before", put_base64_1, false },
	{ "base64, two before", put_base64_2, false },
	{ "base64url, one before", put_base64url_1, false },
	{ "Basic with the secret as password", put_basic, false },
	{ "Basic with the secret as user", put_basic_user, false },
};

#endif

#include "proxy/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 256 };

static size_t
at_most(size_t want, size_t limit)
{
	return want < limit ? want : limit;
}

/* len <= cap <= max holds between calls; this is the one place that moves cap. */
static bool
room(struct buf *b, size_t n)
{
	if (b->st != ST_OK)
		return false;
	if (n > b->max - b->len) { /* subtract, never add: n is a peer's number */
		b->st = ST_TOO_BIG;
		return false;
	}
	if (n <= b->cap - b->len)
		return true;

	size_t cap = b->cap ? b->cap : at_most(FIRST_CAP, b->max);
	while (cap - b->len < n)
		cap = cap > b->max / 2 ? b->max : cap * 2;
	char *p = realloc(b->p, cap);
	if (p == NULL) {
		b->st = ST_NOMEM;
		return false;
	}
	b->p = p;
	b->cap = cap;
	return true;
}

void
buf_init(struct buf *b, size_t max)
{
	need(max > 0);
	*b = (struct buf){ .max = max };
}

void
buf_done(struct buf *b)
{
	free(b->p);
	*b = (struct buf){ .max = b->max };
}

void
buf_clear(struct buf *b)
{
	b->len = 0;
	b->st = ST_OK;
}

void
buf_put(struct buf *b, struct str s)
{
	if (s.n == 0 || !room(b, s.n))
		return;
	memcpy(b->p + b->len, s.p, s.n);
	b->len += s.n;
}

char *
buf_space(struct buf *b, size_t n)
{
	return room(b, n) ? b->p + b->len : NULL;
}

void
buf_putc(struct buf *b, char c)
{
	buf_put(b, (struct str){ &c, 1 });
}

void
buf_put_dec(struct buf *b, uint64_t v)
{
	char digits[20]; /* of UINT64_MAX */
	size_t at = sizeof digits;

	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v > 0);
	buf_put(b, str_of(digits + at, sizeof digits - at));
}

void
buf_putf(struct buf *b, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	need(n >= 0);
	if ((size_t)n >= sizeof line) { /* cut text is wrong text */
		b->st = b->st == ST_OK ? ST_TOO_BIG : b->st;
		return;
	}
	buf_put(b, (struct str){ line, (size_t)n });
}

static void
put_be(struct buf *b, uint64_t v, unsigned bytes)
{
	char out[8];

	for (unsigned i = 0; i < bytes; i++)
		out[i] = (char)(unsigned char)(v >> (8 * (bytes - 1 - i)) & 0xff);
	buf_put(b, (struct str){ out, bytes });
}

void
buf_put_u8(struct buf *b, uint8_t v)
{
	put_be(b, v, 1);
}

void
buf_put_u16(struct buf *b, uint16_t v)
{
	put_be(b, v, 2);
}

void
buf_put_u32(struct buf *b, uint32_t v)
{
	put_be(b, v, 4);
}

void
buf_put_u64(struct buf *b, uint64_t v)
{
	put_be(b, v, 8);
}

/* Length that a lead byte announces (RFC 3629), 0 if it is none. */
static size_t
utf8_announced(unsigned char c)
{
	if (c < 0x80)
		return 1;
	if (c < 0xc2 || c > 0xf4)
		return 0;
	return c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Length of the valid UTF-8 sequence at s, 0 if there is none. */
static size_t
utf8_len(struct str s)
{
	unsigned char c = (unsigned char)s.p[0];
	size_t n = utf8_announced(c);

	if (n == 0 || n > s.n)
		return 0;
	for (size_t i = 1; i < n; i++)
		if (((unsigned char)s.p[i] & 0xc0) != 0x80)
			return 0;
	unsigned char d = n > 1 ? (unsigned char)s.p[1] : 0;
	bool overlong = (c == 0xe0 && d < 0xa0) || (c == 0xf0 && d < 0x90);
	bool outside = (c == 0xed && d > 0x9f) || (c == 0xf4 && d > 0x8f);
	return overlong || outside ? 0 : n;
}

/* Line separators and bidi controls are legal UTF-8, yet they forge log lines. */
static bool
may_stand(struct str seq)
{
	unsigned char c = (unsigned char)seq.p[0];

	if (seq.n == 1)
		return c >= 0x20 && c != 0x7f;
	if (seq.n == 2)
		return !(c == 0xc2 && (unsigned char)seq.p[1] < 0xa0);
	return !(seq.n == 3 && c == 0xe2 && ((unsigned char)seq.p[1] & 0xfe) == 0x80);
}

size_t
buf_shown(struct str s)
{
	size_t k = s.n == 0 ? 0 : utf8_len(s);

	return k > 0 && may_stand(str_head(s, k)) ? k : 0;
}

/* Of a whole sequence of up to three octets: those with four may all stand. */
static unsigned
character(struct str seq)
{
	unsigned c = (unsigned char)seq.p[0];

	if (seq.n == 2)
		c &= 0x1f;
	else if (seq.n == 3)
		c &= 0x0f;
	for (size_t i = 1; i < seq.n; i++)
		c = c << 6 | ((unsigned char)seq.p[i] & 0x3f);
	return c;
}

void
buf_put_json(struct buf *b, struct str s)
{
	buf_putc(b, '"');
	while (s.n > 0 && b->st == ST_OK) {
		size_t k = utf8_len(s);
		struct str seq = str_head(s, k == 0 ? 1 : k);
		if (k > 0 && may_stand(seq) && s.p[0] != '"' && s.p[0] != '\\')
			buf_put(b, seq);
		else
			buf_putf(b, "\\u%04x",
				 k > 0 ? character(seq) : (unsigned char)s.p[0]);
		s = str_skip(s, seq.n);
	}
	buf_putc(b, '"');
}

enum status
buf_finish(const struct buf *b, struct str *ret_view)
{
	need(b->len <= b->cap && b->cap <= b->max);
	if (b->st == ST_OK)
		*ret_view = (struct str){ b->len ? b->p : "", b->len };
	return b->st;
}

const char *
buf_cstr(struct buf *b)
{
	if (!room(b, 1))
		return NULL;
	b->p[b->len] = '\0';
	return b->p;
}

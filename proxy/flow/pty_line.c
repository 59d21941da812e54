#include "proxy/flow/pty_line.h"

#include <string.h>

enum {
	KEY_INTERRUPT = 3,
	KEY_END = 4, /* a terminal hands over what it has, line or not */
	KEY_BACK = 8,
	KEY_OPERATE = 15, /* readline: runs the line, and gets the next one of before */
	KEY_KILL = 21,
	KEY_WORD = 23,
	KEY_MORE = 24, /* readline: ^X ^E runs what an editor makes of it */
	KEY_ESCAPE = 27,
	KEY_DELETE = 127
};

enum { PLAIN, ESCAPED, SEQUENCE };

void
pty_line_init(struct pty_line *l)
{
	memset(l, 0, sizeof *l);
}

static void
clear(struct pty_line *l)
{
	l->n = 0;
	l->is_odd = false;
}

/* One character, which may be several octets (UTF-8, RFC 3629). */
static void
back(struct pty_line *l)
{
	while (l->n > 0 && ((unsigned char)l->text[l->n - 1] & 0xc0) == 0x80)
		l->n--;
	if (l->n > 0)
		l->n--;
}

static void
back_word(struct pty_line *l)
{
	while (l->n > 0 && l->text[l->n - 1] == ' ')
		l->n--;
	while (l->n > 0 && l->text[l->n - 1] != ' ')
		l->n--;
}

static void
add(struct pty_line *l, char c)
{
	if (l->n == sizeof l->text)
		l->is_odd = true;
	else
		l->text[l->n++] = c;
}

/* What comes behind it may stand elsewhere, or by itself. */
static void
mark(struct pty_line *l)
{
	l->is_odd = true;
	if (l->n > 0 && l->text[l->n - 1] != '\n')
		add(l, '\n');
}

/* Of sequences (ECMA-48, 5.4) only the marks around a paste are known: CSI 200 ~, 201 ~. */
static void
end_sequence(struct pty_line *l, char final)
{
	struct str p = str_of(l->parameters, l->parameters_n);
	bool is_paste =
		final == '~' && (str_eq(p, STR("200")) || str_eq(p, STR("201")));

	l->escape = PLAIN;
	if (!is_paste)
		mark(l);
}

/* False: the octet is none of a sequence's. */
static bool
take_escape(struct pty_line *l, char c)
{
	if (l->escape == PLAIN)
		return false;
	if (l->escape == ESCAPED) {
		l->parameters_n = 0;
		l->escape = c == '[' ? SEQUENCE : PLAIN;
		if (c != '[')
			mark(l);
		return true;
	}
	if (c >= 0x40 && c <= 0x7e) {
		end_sequence(l, c);
	} else if (c >= 0x20 && c <= 0x3f) {
		if (l->parameters_n < sizeof l->parameters)
			l->parameters[l->parameters_n++] = c;
	} else {
		l->escape = PLAIN; /* it was none */
		mark(l);
		return false;
	}
	return true;
}

static void
tell(const struct pty_line *l, bool is_whole, pty_line_fn fn, void *ctx)
{
	if (l->n > 0 || l->is_odd)
		fn(ctx, str_of(l->text, l->n), is_whole);
}

/* An odd number of backslashes is behind it: the last one takes the end of the line with it.
 * What is before that one; 0: there is none, or nothing. */
static size_t
continued(const struct pty_line *l)
{
	size_t n = l->n, slashes = 0;

	while (n > 0 && l->text[n - 1] == '\n')
		n--;
	while (slashes < n && l->text[n - 1 - slashes] == '\\')
		slashes++;
	return slashes % 2 == 1 ? n - 1 : 0;
}

static void
end_line(struct pty_line *l, pty_line_fn fn, void *ctx)
{
	size_t n = continued(l);

	tell(l, !l->is_odd, fn, ctx);
	if (n > 0)
		l->n = n;
	else
		clear(l);
}

/* With a cursor that is elsewhere they take back nothing, or another part, and without a
 * terminal they are octets like others. */
static void
take_back(struct pty_line *l, char c)
{
	if (l->is_odd || !l->is_tty)
		mark(l);
	else if (c == KEY_KILL || c == KEY_INTERRUPT)
		clear(l);
	else if (c == KEY_WORD)
		back_word(l);
	else
		back(l);
}

static void
take_odd(struct pty_line *l, char c, pty_line_fn fn, void *ctx)
{
	if (c == KEY_END || c == KEY_OPERATE || c == KEY_MORE)
		tell(l, false, fn, ctx);
	mark(l);
}

/* Of a line that is longer than its room the last half stays: what matters stands whole in one
 * of the parts that are told. */
static void
make_room(struct pty_line *l, pty_line_fn fn, void *ctx)
{
	const size_t half = sizeof l->text / 2;

	if (l->n < sizeof l->text)
		return;
	tell(l, false, fn, ctx);
	memmove(l->text, l->text + half, half);
	l->n = half;
	l->is_odd = true;
}

static void
take(struct pty_line *l, char c, pty_line_fn fn, void *ctx)
{
	make_room(l, fn, ctx);
	if (c == KEY_BACK || c == KEY_DELETE || c == KEY_WORD || c == KEY_KILL ||
	    c == KEY_INTERRUPT)
		take_back(l, c);
	else if (c == KEY_ESCAPE)
		l->escape = ESCAPED;
	else if ((unsigned char)c < ' ')
		take_odd(l, c, fn, ctx);
	else
		add(l, c);
}

void
pty_line_put(struct pty_line *l, struct str typed, pty_line_fn fn, void *ctx)
{
	for (size_t i = 0; i < typed.n; i++) {
		char c = typed.p[i];

		if (c == '\r' || c == '\n') {
			l->is_odd = l->is_odd || l->escape != PLAIN;
			l->escape = PLAIN;
			end_line(l, fn, ctx);
		} else if (!take_escape(l, c)) {
			take(l, c, fn, ctx);
		}
	}
}

void
pty_line_end(struct pty_line *l, pty_line_fn fn, void *ctx)
{
	l->escape = PLAIN;
	tell(l, false, fn, ctx);
	clear(l);
}

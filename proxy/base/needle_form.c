#include "proxy/base/needle_form.h"

/* needle_thread.sub */
enum {
	SUB_NONE,
	SUB_PERCENT,
	SUB_PERCENT_LOW,
	SUB_SLASH,
	SUB_U,
	SUB_U0,
	SUB_U00,
	SUB_LOW
};

static unsigned
octet(struct str s, size_t i)
{
	return (unsigned char)s.p[i];
}

/* JSON's short escapes: what stands for what. */
static const char short_for[] = "\"\\/\b\f\n\r\t", short_as[] = "\"\\/bfnrt";

char
needle_form_short(char c)
{
	for (size_t i = 0; i < sizeof(short_for) - 1; i++)
		if (c == short_for[i])
			return short_as[i];
	return 0;
}

static enum needle_read
advance(struct needle_thread *t, size_t end)
{
	t->sub = SUB_NONE;
	return ++t->at == end ? READ_DONE : READ_LIVE;
}

static enum needle_read
go_to(struct needle_thread *t, bool fits, uint8_t sub)
{
	t->sub = sub;
	return fits ? READ_LIVE : READ_DEAD;
}

static enum needle_read
read_plain(struct str text, struct needle_thread *t, char c)
{
	return c == text.p[t->at] ? advance(t, text.n) : READ_DEAD;
}

/* Asked for each character where a thread lives: no loop. */
static bool
is_nibble(char c, unsigned value)
{
	unsigned v = value & 15;

	return v < 10 ? c == (char)('0' + v) : ascii_lower(c) == (char)('a' + v - 10);
}

static enum needle_read
read_escape(struct str text, struct needle_thread *t, char c)
{
	unsigned o = octet(text, t->at);

	switch (t->sub) {
	case SUB_PERCENT:
		return go_to(t, is_nibble(c, o >> 4), SUB_PERCENT_LOW);
	case SUB_SLASH:
		if (c == 'u')
			return go_to(t, o < 0x80, SUB_U);
		return c != 0 && c == needle_form_short(text.p[t->at])
			       ? advance(t, text.n)
			       : READ_DEAD;
	case SUB_U:
		return go_to(t, c == '0', SUB_U0);
	case SUB_U0:
		return go_to(t, c == '0', SUB_U00);
	case SUB_U00:
		return go_to(t, is_nibble(c, o >> 4), SUB_LOW);
	default:
		return is_nibble(c, o) ? advance(t, text.n) : READ_DEAD;
	}
}

/* A backslash, and where percent is read a percent sign, never stand for themselves:
 * from one start there is one way to read. */
static enum needle_read
read_escaped(struct str text, struct needle_thread *t, char c)
{
	if (t->sub != SUB_NONE)
		return read_escape(text, t, c);
	if (c == '\\')
		return go_to(t, true, SUB_SLASH);
	if (c == '%' && t->form == FORM_PERCENT)
		return go_to(t, true, SUB_PERCENT);
	return read_plain(text, t, c);
}

static unsigned
nibble(struct str text, size_t i)
{
	return octet(text, i / 2) >> (i % 2 == 0 ? 4 : 0) & 15;
}

static enum needle_read
read_hex(struct str text, struct needle_thread *t, char c)
{
	return is_nibble(c, nibble(text, t->at)) ? advance(t, 2 * text.n) : READ_DEAD;
}

/* Value of a character of either alphabet, or 64. */
static unsigned
sextet_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (unsigned)(c - 'A');
	if (c >= 'a' && c <= 'z')
		return (unsigned)(c - 'a') + 26;
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0') + 52;
	if (c == '+' || c == '-')
		return 62;
	return c == '/' || c == '_' ? 63 : 64;
}

/* Bits of the first character that belong to what stands before the text. */
static unsigned
lead_of(enum needle_form f)
{
	return 2 * (unsigned)(f - FORM_BASE64_0);
}

static size_t
sextets(struct str text, unsigned lead)
{
	return (8 * text.n + lead + 5) / 6;
}

struct sextet {
	unsigned value, mask; /* mask: the bits that are the text's */
};

static struct sextet
sextet_at(struct str text, unsigned lead, size_t j)
{
	if (j == 0)
		return (struct sextet){ octet(text, 0) >> (2 + lead), 0x3f >> lead };
	size_t bit = 6 * j - lead, left = 8 * text.n - bit, i = bit / 8;
	unsigned two = octet(text, i) << 8 | (i + 1 < text.n ? octet(text, i + 1) : 0);
	unsigned mask = left < 6 ? 0x3fu << (6 - left) & 0x3f : 0x3f;

	return (struct sextet){ two >> (10 - bit % 8) & mask, mask };
}

static enum needle_read
read_base64(struct str text, struct needle_thread *t, char c)
{
	unsigned lead = lead_of(t->form), v = sextet_of(c);
	struct sextet want = sextet_at(text, lead, t->at);

	if (v > 63 || (v & want.mask) != want.value)
		return READ_DEAD;
	return advance(t, sextets(text, lead));
}

enum needle_read
needle_form_read(struct str text, struct needle_thread *t, char c)
{
	switch ((enum needle_form)t->form) {
	case FORM_PLAIN:
		return read_plain(text, t, c);
	case FORM_PERCENT:
	case FORM_JSON:
		return read_escaped(text, t, c);
	case FORM_HEX:
		return read_hex(text, t, c);
	case FORM_BASE64_0:
	case FORM_BASE64_1:
	case FORM_BASE64_2:
		return read_base64(text, t, c);
	case FORM_COUNT:
		break;
	}
	return READ_DEAD;
}

static const char alphabet[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_";

/* Two characters that say a nibble. */
static struct str
nibble_chars(unsigned value, char *space)
{
	space[0] = "0123456789abcdef"[value & 15];
	space[1] = "0123456789ABCDEF"[value & 15];
	return str_of(space, 2);
}

static struct str
escape_chars(struct str text, const struct needle_thread *t, char *space)
{
	unsigned o = octet(text, t->at);

	switch (t->sub) {
	case SUB_NONE:
		space[0] = (char)o;
		space[1] = '%';
		space[2] = '\\';
		return str_of(space, 3);
	case SUB_SLASH:
		return STR("u\"\\/bfnrt");
	case SUB_U:
	case SUB_U0:
		return STR("0");
	case SUB_PERCENT:
	case SUB_U00:
		return nibble_chars(o >> 4, space);
	default:
		return nibble_chars(o, space);
	}
}

static struct str
base64_chars(struct str text, const struct needle_thread *t, char *space)
{
	struct sextet s = sextet_at(text, lead_of(t->form), t->at);

	if (s.mask != 0x3f)
		return STR(alphabet);
	space[0] = alphabet[s.value];
	space[1] = alphabet[s.value > 61 ? s.value + 2 : s.value];
	return str_of(space, s.value > 61 ? 2 : 1);
}

/* Some characters among which the next one is. */
static struct str
candidates(struct str text, const struct needle_thread *t, char *space)
{
	if (t->form >= FORM_BASE64_0)
		return base64_chars(text, t, space);
	if (t->form == FORM_PLAIN)
		return str_of(text.p + t->at, 1);
	if (t->form == FORM_HEX)
		return nibble_chars(nibble(text, t->at), space);
	return escape_chars(text, t, space);
}

size_t
needle_form_next(struct str text, const struct needle_thread *t, char next[NEXT_MAX])
{
	char space[3];
	struct str some = candidates(text, t, space);
	size_t n = 0;

	for (size_t i = 0; i < some.n; i++) {
		struct needle_thread copy = *t;

		if (needle_form_read(text, &copy, some.p[i]) != READ_DEAD)
			next[n++] = some.p[i];
	}
	return n;
}

size_t
needle_form_least(enum needle_form f, struct str text)
{
	if (f == FORM_HEX)
		return 2 * text.n;
	return f >= FORM_BASE64_0 ? sextets(text, lead_of(f)) : text.n;
}

static bool
is_kept(enum needle_form f, const struct needle *n, size_t i)
{
	if (f == FORM_HEX)
		return nibble(n->text, i) == nibble(n->mask, i);
	if (f < FORM_BASE64_0)
		return n->text.p[i] == n->mask.p[i];
	return sextet_at(n->text, lead_of(f), i).value ==
	       sextet_at(n->mask, lead_of(f), i).value;
}

uint32_t
needle_form_kept(enum needle_form f, const struct needle *n)
{
	size_t units = needle_form_least(f, n->text), i = 0;

	if (n->mask.p == NULL)
		return 0;
	while (i < units && is_kept(f, n, i))
		i++;
	return (uint32_t)i;
}

static bool
has_any(const char *p, size_t n, char low, char high)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] >= low && p[i] <= high)
			return true;
	return false;
}

static char
hex_digit(unsigned value, bool is_upper)
{
	return (is_upper ? "0123456789ABCDEF" : "0123456789abcdef")[value & 15];
}

static void
put(char *p, size_t at, size_t from, char c)
{
	if (at >= from)
		p[at] = c;
}

/* Where the two digits of the escape at p[at] are; 0: there is none with digits. */
static size_t
digits_of(const char *p, size_t at, bool has_percent)
{
	if (p[at] == '%' && has_percent)
		return at + 1;
	return p[at] == '\\' && p[at + 1] == 'u' ? at + 4 : 0;
}

/* The case of digits, as the text has it; without a trace, as most write it. */
static bool
is_upper_case(const char *p, size_t n, bool has_percent)
{
	for (size_t at = 0; at < n; at++) {
		size_t digits = digits_of(p, at, has_percent);

		if (digits > 0 && has_any(p + digits, 2, 'A', 'F'))
			return true;
		if (digits > 0 && has_any(p + digits, 2, 'a', 'f'))
			return false;
	}
	return has_percent;
}

static void
mask_escaped(const struct needle *needle, bool has_percent, char *p, size_t n,
	     size_t from)
{
	bool is_upper = is_upper_case(p, n, has_percent);

	for (size_t i = 0, at = 0; at < n; i++) {
		size_t digits = digits_of(p, at, has_percent);
		char old = needle->text.p[i], c = needle->mask.p[i];
		unsigned o = (unsigned char)c;

		if (digits > 0) {
			put(p, digits, from, hex_digit(o >> 4, is_upper));
			put(p, digits + 1, from, hex_digit(o, is_upper));
			at = digits + 2;
		} else if (p[at] == '\\') {
			/* Few octets have a short escape: one that says something else. */
			if (old != c)
				put(p, at + 1, from, old == '/' ? '\\' : '/');
			at += 2;
		} else {
			put(p, at++, from, c);
		}
	}
}

static void
mask_hex(struct str mask, char *p, size_t n, size_t from)
{
	bool is_upper = has_any(p, n, 'A', 'F');

	for (size_t i = from; i < n; i++)
		p[i] = hex_digit(nibble(mask, i), is_upper);
}

static void
mask_base64(unsigned lead, struct str mask, char *p, size_t n, size_t from)
{
	bool is_url = has_any(p, n, '-', '-') || has_any(p, n, '_', '_');

	for (size_t j = 0; j < n; j++) {
		struct sextet to = sextet_at(mask, lead, j);
		unsigned old = sextet_of(p[j]), v = (old & ~to.mask) | to.value;

		if (v == old)
			continue;
		put(p, j, from, alphabet[is_url && v > 61 ? v + 2 : v]);
	}
}

void
needle_form_mask(enum needle_form f, const struct needle *needle, char *p, size_t n,
		 size_t from)
{
	struct str mask = needle->mask;

	switch (f) {
	case FORM_PLAIN:
		for (size_t i = from; i < n; i++)
			p[i] = mask.p[i];
		break;
	case FORM_PERCENT:
	case FORM_JSON:
		mask_escaped(needle, f == FORM_PERCENT, p, n, from);
		break;
	case FORM_HEX:
		mask_hex(mask, p, n, from);
		break;
	case FORM_BASE64_0:
	case FORM_BASE64_1:
	case FORM_BASE64_2:
		mask_base64(lead_of(f), mask, p, n, from);
		break;
	case FORM_COUNT:
		break;
	}
}

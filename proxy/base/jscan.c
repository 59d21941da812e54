#include "proxy/base/jscan.h"

#include <string.h>

#include "proxy/base/enc.h"

enum state {
	VALUE,
	FIRST_ITEM, /* a value or ] */
	FIRST_KEY,  /* a name or } */
	KEY,
	COLON,
	NEXT, /* a comma or the end of what is open */
	TEXT,
	ESCAPE,
	HEX,
	NUMBER,
	WORD,
	OVER,
	BAD,
};

/* Where a number is; only from ZERO on may it end. */
enum number {
	NO_NUMBER,
	SIGN,
	DOT,
	E,
	E_SIGN,
	ZERO,
	INTEGER,
	FRACTION,
	EXPONENT,
	NUMBERS
};
enum letter { A_ZERO, A_DIGIT, A_SIGN, A_DOT, AN_E, LETTERS };

/* What follows; all else ends the number.  A plus at its beginning never gets here. */
static const uint8_t number_after[NUMBERS][LETTERS] = {
	[SIGN] = { [A_ZERO] = ZERO, [A_DIGIT] = INTEGER },
	[DOT] = { [A_ZERO] = FRACTION, [A_DIGIT] = FRACTION },
	[E] = { [A_ZERO] = EXPONENT, [A_DIGIT] = EXPONENT, [A_SIGN] = E_SIGN },
	[E_SIGN] = { [A_ZERO] = EXPONENT, [A_DIGIT] = EXPONENT },
	[ZERO] = { [A_DOT] = DOT, [AN_E] = E },
	[INTEGER] = { [A_ZERO] = INTEGER,
		      [A_DIGIT] = INTEGER,
		      [A_DOT] = DOT,
		      [AN_E] = E },
	[FRACTION] = { [A_ZERO] = FRACTION, [A_DIGIT] = FRACTION, [AN_E] = E },
	[EXPONENT] = { [A_ZERO] = EXPONENT, [A_DIGIT] = EXPONENT },
};

static const char replacement[] = "\xef\xbf\xbd";
enum { REPLACEMENT = 3 };

void
jscan_init(struct jscan *j)
{
	*j = (struct jscan){ .state = VALUE };
}

bool
jscan_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static enum jscan_token
fail(struct jscan *j)
{
	j->state = BAD;
	return JSCAN_BAD;
}

static bool
is_in_array(const struct jscan *j)
{
	unsigned int at = j->depth - 1U;

	return (j->is_array[at / 8] >> (at % 8) & 1) != 0;
}

static enum jscan_token
nest(struct jscan *j, bool is_array)
{
	unsigned int at = j->depth;
	uint8_t bit = (uint8_t)(1U << (at % 8));

	if (at == JSCAN_DEPTH)
		return fail(j);
	j->is_array[at / 8] = (uint8_t)(j->is_array[at / 8] & ~bit);
	if (is_array)
		j->is_array[at / 8] |= bit;
	j->depth++;
	j->state = is_array ? FIRST_ITEM : FIRST_KEY;
	return is_array ? JSCAN_ARRAY : JSCAN_OBJECT;
}

static void
value_over(struct jscan *j)
{
	j->state = j->depth == 0 ? OVER : NEXT;
}

static enum jscan_token
shut(struct jscan *j, bool is_array)
{
	j->depth--;
	value_over(j);
	return is_array ? JSCAN_ARRAY_END : JSCAN_OBJECT_END;
}

static void
begin_text(struct jscan *j, bool is_key)
{
	j->state = TEXT;
	j->is_key = is_key;
	j->high = 0;
	j->tail = 0;
}

static uint8_t
go_on(uint8_t at, char c)
{
	if (c == '0')
		return number_after[at][A_ZERO];
	if (ascii_is_digit(c))
		return number_after[at][A_DIGIT];
	if (c == '+' || c == '-')
		return number_after[at][A_SIGN];
	if (c == '.')
		return number_after[at][A_DOT];
	return ascii_lower(c) == 'e' ? number_after[at][AN_E] : (uint8_t)NO_NUMBER;
}

/* A number's first character is taken with the rest of it, by step_number(). */
static bool
begin_number(struct jscan *j, char c)
{
	if (c != '-' && !ascii_is_digit(c))
		return false;
	j->state = NUMBER;
	j->number = NO_NUMBER;
	return true;
}

static enum jscan_token
begin_value(struct jscan *j, struct str *in)
{
	char c = in->p[0];

	if (begin_number(j, c))
		return JSCAN_AGAIN;
	*in = str_skip(*in, 1);
	j->state = WORD;
	switch (c) {
	case '{':
		return nest(j, false);
	case '[':
		return nest(j, true);
	case '"':
		begin_text(j, false);
		break;
	case 't':
		j->word = "rue";
		break;
	case 'f':
		j->word = "alse";
		break;
	case 'n':
		j->word = "ull";
		break;
	default:
		return fail(j);
	}
	return JSCAN_AGAIN;
}

/* Between the parts of an object or array; white space is gone. */
static enum jscan_token
step_between(struct jscan *j, struct str *in)
{
	char c = in->p[0];

	if (j->state == VALUE || (j->state == FIRST_ITEM && c != ']'))
		return begin_value(j, in);
	*in = str_skip(*in, 1);
	if (j->state == FIRST_ITEM)
		return shut(j, true);
	if (j->state == FIRST_KEY && c == '}')
		return shut(j, false);
	if ((j->state == FIRST_KEY || j->state == KEY) && c == '"') {
		begin_text(j, true);
		return JSCAN_AGAIN;
	}
	if (j->state == COLON && c == ':') {
		j->state = VALUE;
		return JSCAN_AGAIN;
	}
	if (j->state != NEXT)
		return fail(j);
	if (c == ',')
		j->state = is_in_array(j) ? VALUE : KEY;
	else if (c == (is_in_array(j) ? ']' : '}'))
		return shut(j, c == ']');
	else
		return fail(j);
	return JSCAN_AGAIN;
}

static enum jscan_token
step_number(struct jscan *j, struct str *in, struct str *ret_text)
{
	size_t n = 0;

	if (j->number == NO_NUMBER) {
		j->number = in->p[0] == '-' ? (uint8_t)SIGN : go_on(SIGN, in->p[0]);
		n = 1;
	}
	for (; n < in->n; n++) {
		uint8_t next = go_on(j->number, in->p[n]);
		if (next == NO_NUMBER)
			break;
		j->number = next;
	}
	*ret_text = str_head(*in, n);
	*in = str_skip(*in, n);
	if (n > 0)
		return JSCAN_NUMBER;
	if (j->number < ZERO)
		return fail(j);
	value_over(j);
	return JSCAN_TEXT_END;
}

static enum jscan_token
step_word(struct jscan *j, struct str *in)
{
	char c = in->p[0];

	if (c != *j->word)
		return fail(j);
	*in = str_skip(*in, 1);
	j->word++;
	if (*j->word != '\0')
		return JSCAN_AGAIN;
	value_over(j);
	return JSCAN_LITERAL;
}

/* The first octet of a character of UTF-8 (RFC 3629): what may follow it. */
static bool
begin_tail(struct jscan *j, uint8_t c)
{
	if (c < 0xc2 || c > 0xf4)
		return false;
	j->tail = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
	j->tail_low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	j->tail_high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	return true;
}

/* May c stand in a string as it is, here? */
static bool
is_plain(struct jscan *j, char c)
{
	uint8_t u = (uint8_t)c;

	if (j->tail > 0) {
		if (u < j->tail_low || u > j->tail_high)
			return false;
		j->tail--;
		j->tail_low = 0x80;
		j->tail_high = 0xbf;
		return true;
	}
	if (u >= 0x80)
		return begin_tail(j, u);
	return u >= 0x20 && c != '"' && c != '\\';
}

static enum jscan_token
part_of(const struct jscan *j)
{
	return j->is_key ? JSCAN_KEY : JSCAN_STRING;
}

/* The half of a pair that stays alone. */
static enum jscan_token
put_alone(struct jscan *j, struct str *ret_text)
{
	j->high = 0;
	*ret_text = str_of(replacement, REPLACEMENT);
	return part_of(j);
}

static enum jscan_token
step_text(struct jscan *j, struct str *in, struct str *ret_text)
{
	size_t n = 0;

	if (j->high != 0 && in->p[0] != '\\')
		return put_alone(j, ret_text);
	while (n < in->n && is_plain(j, in->p[n]))
		n++;
	if (n > 0) {
		*ret_text = str_head(*in, n);
		*in = str_skip(*in, n);
		return part_of(j);
	}
	char c = in->p[0];
	if (j->tail > 0 || (c != '"' && c != '\\'))
		return fail(j);
	*in = str_skip(*in, 1);
	if (c == '\\') {
		j->state = ESCAPE;
		return JSCAN_AGAIN;
	}
	if (j->is_key) {
		j->state = COLON;
		return JSCAN_KEY_END;
	}
	value_over(j);
	return JSCAN_TEXT_END;
}

static enum jscan_token
step_escape(struct jscan *j, struct str *in, struct str *ret_text)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char c = in->p[0];

	if (c == 'u') {
		*in = str_skip(*in, 1);
		j->state = HEX;
		j->digits = 0;
		j->unit = 0;
		return JSCAN_AGAIN;
	}
	if (j->high != 0)
		return put_alone(j, ret_text);
	const char *at = c == '\0' ? NULL : strchr(from, c);
	if (at == NULL)
		return fail(j);
	*in = str_skip(*in, 1);
	j->state = TEXT;
	*ret_text = str_of(to + (at - from), 1);
	return part_of(j);
}

static size_t
put_tail(char *p, uint32_t c, int octets)
{
	size_t n = 0;

	while (octets-- > 0)
		p[n++] = (char)(uint8_t)(0x80 | (c >> (6 * octets) & 0x3f));
	return n;
}

static size_t
put_utf8(char *p, uint32_t c)
{
	static const uint8_t lead[] = { 0, 0xc0, 0xe0, 0xf0 };
	int octets = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;

	p[0] = (char)(uint8_t)(lead[octets] | (c >> (6 * octets)));
	return 1 + put_tail(p + 1, c, octets);
}

/* \uXXXX is whole. */
static enum jscan_token
put_unit(struct jscan *j, struct str *ret_text)
{
	bool is_high = j->unit >= 0xd800 && j->unit < 0xdc00;
	bool is_low = j->unit >= 0xdc00 && j->unit < 0xe000;
	uint32_t c = is_low ? 0xfffd : j->unit;
	size_t n = 0;

	j->state = TEXT;
	if (j->high != 0 && is_low)
		c = 0x10000 + ((uint32_t)(j->high - 0xd800) << 10) +
		    (j->unit - 0xdc00U);
	else if (j->high != 0)
		n = put_utf8(j->out, 0xfffd);
	j->high = is_high ? j->unit : 0;
	if (!is_high)
		n += put_utf8(j->out + n, c);
	*ret_text = str_of(j->out, n);
	return n > 0 ? part_of(j) : JSCAN_AGAIN;
}

static enum jscan_token
step_hex(struct jscan *j, struct str *in, struct str *ret_text)
{
	int digit = enc_hex_digit(in->p[0]);

	if (digit < 0)
		return fail(j);
	*in = str_skip(*in, 1);
	j->unit = (uint16_t)(j->unit << 4 | digit);
	j->digits++;
	return j->digits == 4 ? put_unit(j, ret_text) : JSCAN_AGAIN;
}

static enum jscan_token
step(struct jscan *j, struct str *in, struct str *ret_text)
{
	switch ((enum state)j->state) {
	case TEXT:
		return step_text(j, in, ret_text);
	case ESCAPE:
		return step_escape(j, in, ret_text);
	case HEX:
		return step_hex(j, in, ret_text);
	case NUMBER:
		return step_number(j, in, ret_text);
	case WORD:
		return step_word(j, in);
	case VALUE:
	case FIRST_ITEM:
	case FIRST_KEY:
	case KEY:
	case COLON:
	case NEXT:
		break;
	case OVER:
		return JSCAN_OVER;
	case BAD:
		return JSCAN_BAD;
	}
	if (!jscan_is_space(in->p[0]))
		return step_between(j, in);
	*in = str_skip(*in, 1);
	return JSCAN_AGAIN;
}

enum jscan_token
jscan_next(struct jscan *j, struct str *in, struct str *ret_text)
{
	enum jscan_token t = JSCAN_AGAIN;

	while (t == JSCAN_AGAIN && in->n > 0)
		t = step(j, in, ret_text);
	if (in->n == 0 && t == JSCAN_AGAIN && j->state >= OVER)
		return j->state == OVER ? JSCAN_OVER : JSCAN_BAD;
	return t;
}

/* Strings of a programming language, with what is written into them. */
#include "conf/risk_code.h"
#include "proxy/base/enc.h"

static char
escaped(struct risk_code *c)
{
	char ch = code_peek(c, 0);
	int high = enc_hex_digit(code_peek(c, 1)), low = enc_hex_digit(code_peek(c, 2));
	bool is_long = ch == 'u' && code_peek(c, 1) == '0' && code_peek(c, 2) == '0';

	if (is_long) {
		high = enc_hex_digit(code_peek(c, 3));
		low = enc_hex_digit(code_peek(c, 4));
	}
	if ((ch == 'x' || is_long) && high >= 0 && low >= 0) {
		code_skip(c, is_long ? 5 : 3);
		return risk_byte((unsigned)high * 16 + (unsigned)low);
	}
	if (ch >= '0' && ch <= '7') {
		unsigned v = 0;
		for (size_t n = 0;
		     n < 3 && code_peek(c, 0) >= '0' && code_peek(c, 0) <= '7'; n++) {
			v = v * 8 + (unsigned)(code_peek(c, 0) - '0');
			code_skip(c, 1);
		}
		return risk_byte(v);
	}
	code_skip(c, 1);
	if (ch == 'n')
		return '\n';
	if (str_has(STR("trabfv"), ch))
		return ' ';
	return ch;
}

/* `${...}`, `{...}` or `#{...}` in a string: code, and a hole.  How long, or 0. */
static size_t
inserted(struct risk_code *c, char quote, bool is_format)
{
	bool is_js = code_is(c, "js") && quote == '`' && code_peek(c, 0) == '$';
	bool is_ruby =
		code_is(c, "ruby|julia") && quote != '\'' && code_peek(c, 0) == '#';
	size_t at = is_js || is_ruby ? 1 : 0;

	if (!is_js && !is_ruby && !is_format)
		return 0;
	if (code_peek(c, at) != '{' || (is_format && code_peek(c, at + 1) == '{'))
		return 0;
	struct str inside = str_skip(c->rest, at + 1);
	if (!risk_spend(c->run, inside.n))
		return 0;
	size_t end = risk_span(inside, '{', '}');
	if (end == inside.n)
		return 0;
	risk_code(c->run, c->language, str_head(inside, end));
	return at + end + 2;
}

static bool
put_part(struct risk_code *c, char quote, bool is_format, bool is_raw, char *out)
{
	size_t n = inserted(c, quote, is_format);
	char ch = code_peek(c, 0);

	if (n > 0) {
		code_skip(c, n);
		*out = HOLE_ANY;
		return true;
	}
	if (code_is(c, "perl|php") && quote == '"' && ch == '$' &&
	    code_is_start(code_peek(c, 1))) {
		code_skip(c, 1);
		while (code_is_name(code_peek(c, 0)))
			code_skip(c, 1);
		*out = HOLE_ANY;
		return true;
	}
	code_skip(c, 1);
	if (ch == '\\' && !is_raw && c->rest.n == 0)
		return false;
	if (ch == '\\' && !is_raw) {
		if (code_peek(c, 0) == '\n') {
			code_skip(c, 1);
			return false;
		}
		ch = escaped(c);
	}
	*out = ch;
	return true;
}

/* At a quote.  Appends to out, which has room for all of it; returns how much. */
static size_t
read_string(struct risk_code *c, bool is_format, bool is_raw, char *out)
{
	char quote = code_peek(c, 0);
	bool is_triple = code_is(c, "python|julia|java|kotlin|scala") &&
			 code_peek(c, 1) == quote && code_peek(c, 2) == quote;
	bool is_long = is_triple || quote == '`' || !code_is(c, "python|js|java|go|c");
	size_t n = 0;

	code_skip(c, is_triple ? 3 : 1);
	while (c->rest.n > 0) {
		bool ends = code_peek(c, 0) == quote &&
			    (!is_triple ||
			     (code_peek(c, 1) == quote && code_peek(c, 2) == quote));
		if (ends || (!is_long && code_peek(c, 0) == '\n'))
			break;
		n += put_part(c, quote, is_format, is_raw, out + n);
	}
	/* A regular expression of JavaScript may hold half a string; of others nothing
	 * is known behind one that does not end. */
	if (code_peek(c, 0) == quote && c->rest.n > 0)
		code_skip(c, is_triple ? 3 : 1);
	else if (is_long || code_is(c, "python"))
		risk_sign(c->run, RISK_SIGN_OPEN);
	return n;
}

struct kind { /* f"..." and r"..." of Python */
	bool is_format, is_raw;
};

/* Letters before a quote at i; how many. */
static size_t
prefix(const struct risk_code *c, size_t i, struct kind *ret_kind)
{
	size_t n = 0;

	*ret_kind = (struct kind){ false, false };
	while (n < 2 && code_is(c, "python") && i + n < c->rest.n &&
	       str_has(STR("rRbBuUfF"), c->rest.p[i + n])) {
		char letter = ascii_lower(c->rest.p[i + n++]);
		ret_kind->is_format = ret_kind->is_format || letter == 'f';
		ret_kind->is_raw = ret_kind->is_raw || letter == 'r';
	}
	return n;
}

/* The next string, if only a plus (or what the language has) stands between. */
static bool
goes_on(struct risk_code *c, struct kind *ret_kind)
{
	size_t i = 0, joins = 0;

	for (; i < c->rest.n && joins < 2; i++) {
		char ch = c->rest.p[i];
		if (ch == '+' || (ch == '.' && code_is(c, "php|perl|lua")))
			joins++;
		else if (ch != ' ' && ch != '\t' && ch != '\\' &&
			 (ch != '\n' || code_frame(c) == &c->frame[0]))
			break;
	}
	i += prefix(c, i, ret_kind);
	if (!risk_spend(c->run, i) || i >= c->rest.n ||
	    !str_has(STR("'\"`"), c->rest.p[i]) ||
	    (joins == 0 && !code_is(c, "python|ruby|c|awk")))
		return false;
	code_skip(c, i);
	return true;
}

void
code_read_string(struct risk_code *c, bool is_format, bool is_raw)
{
	char quote = code_peek(c, 0);
	bool is_shell = quote == '`' && code_is(c, "perl|ruby|php|lua|julia");
	size_t start = c->used;
	struct kind kind = { is_format, is_raw };

	do
		c->used +=
			read_string(c, kind.is_format, kind.is_raw, c->out + c->used);
	while (goes_on(c, &kind));
	struct str s = str_of(c->out + start, c->used - start);
	if (is_shell)
		risk_shell(c->run, s);
	code_string(c, s);
	c->before = '"';
	c->name = STR("");
}

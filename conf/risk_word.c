/*
 * One word of a shell's text: quotes off, expansions to holes.  What is expanded is
 * looked at in its turn: $(...) is a text of its own, ${X:-$(...)} too.
 */
#include "conf/risk_private.h"

#include "proxy/base/enc.h"

size_t
risk_span(struct str s, char open, char close)
{
	size_t depth = 0;
	char quote = '\0';

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (c == '\\' && quote != '\'')
			i++;
		else if (c == quote)
			quote = '\0';
		else if (quote != '\0')
			continue;
		else if (c == close && depth == 0)
			return i;
		else if (c == close)
			depth--;
		else if (c == open)
			depth++;
		else if (c == '\'' || c == '"')
			quote = c;
	}
	return s.n;
}

static void
put(struct risk_lex *l, char c)
{
	l->out[l->used++] = c;
}

static void
put_hole(struct risk_lex *l, char hole)
{
	/* Neighbours are one: what meets a hole meets two. */
	if (l->used > 0 && l->out[l->used - 1] == hole)
		return;
	if (++l->run->holes > RISK_HOLES_MAX)
		risk_sign(l->run, RISK_SIGN_DEEP);
	else
		put(l, hole);
}

static char
peek(const struct risk_lex *l, size_t i)
{
	return risk_at(l->rest, i);
}

static void
skip(struct risk_lex *l, size_t n)
{
	l->rest = str_skip(l->rest, n);
}

static bool
is_name_byte(char c)
{
	return ascii_is_alpha(c) || ascii_is_digit(c) || c == '_';
}

static void
put_variable(struct risk_lex *l, struct str name, bool is_whole)
{
	struct risk_deed d = { { NULL } };

	if (str_eq(name, STR("IFS")))
		risk_sign(l->run, RISK_SIGN_NAME);
	if (str_eq(name, STR("HOME")) && is_whole) {
		put(l, '~');
	} else if (str_eq(name, STR("PWD")) && is_whole) {
		put(l, '.');
	} else {
		if (name.n > 0) {
			risk_add(l->run, &d, COND_ENV, name);
			risk_apply(l->run, &d);
		}
		put_hole(l, HOLE_ANY);
	}
}

/* Behind "${". */
static void
read_braced(struct risk_lex *l)
{
	size_t end = risk_span(l->rest, '{', '}'), at = 0, n = 0;
	struct str inside = str_head(l->rest, end);

	if (end == l->rest.n)
		risk_sign(l->run, RISK_SIGN_OPEN);
	if (inside.n > 1 && (inside.p[0] == '!' || inside.p[0] == '#'))
		at = 1;
	while (at + n < inside.n && is_name_byte(inside.p[at + n]))
		n++;
	put_variable(l, str_head(str_skip(inside, at), n), n == inside.n);
	risk_expansions(l->run, str_skip(inside, at + n));
	skip(l, end + 1);
}

/* Behind "$(". */
static void
read_parens(struct risk_lex *l)
{
	size_t end = risk_span(l->rest, '(', ')');
	struct str inside = str_head(l->rest, end);

	if (end == l->rest.n)
		risk_sign(l->run, RISK_SIGN_OPEN);
	if (str_starts(inside, STR("(")) && str_ends(inside, STR(")")))
		risk_expansions(l->run, inside);
	else
		risk_shell(l->run, inside);
	put_hole(l, HOLE_ANY);
	skip(l, end + 1);
}

/* At a backquote. */
static void
read_backquotes(struct risk_lex *l)
{
	size_t end = 1;

	while (end < l->rest.n && l->rest.p[end] != '`')
		end += l->rest.p[end] == '\\' ? 2 : 1;
	if (end >= l->rest.n) {
		risk_sign(l->run, RISK_SIGN_OPEN);
		end = l->rest.n;
	}
	struct str inside = str_skip(str_head(l->rest, end), 1);
	/* A backslash in there is taken off before the text is read: for a second
	 * nesting only, which nobody writes today. */
	if (str_has(inside, '\\'))
		risk_sign(l->run, RISK_SIGN_COMPUTED);
	risk_shell(l->run, inside);
	put_hole(l, HOLE_ANY);
	skip(l, end + 1);
}

/* Digits of one number behind a backslash of $'...'. */
static void
put_coded(struct risk_lex *l, unsigned base, size_t most)
{
	unsigned v = 0;
	size_t n = 0;

	for (; n < most; n++) {
		int digit = enc_hex_digit(peek(l, n));
		if (digit < 0 || (unsigned)digit >= base)
			break;
		v = v * base + (unsigned)digit;
	}
	skip(l, n);
	put(l, risk_byte(v));
}

static void
put_escape(struct risk_lex *l)
{
	char c = peek(l, 0);

	if (c >= '0' && c <= '7') {
		put_coded(l, 8, 3);
		return;
	}
	skip(l, 1);
	if (c == 'x')
		put_coded(l, 16, 2);
	else if (c == 'u' || c == 'U' || c == 'c')
		put_hole(l, HOLE_ANY);
	else if (c == 'n')
		put(l, '\n');
	else if (str_has(STR("abefrtv"), c))
		put(l, ' ');
	else
		put(l, c);
}

/* Behind "$'". */
static void
read_ansi(struct risk_lex *l)
{
	while (l->rest.n > 0 && l->rest.p[0] != '\'') {
		char c = l->rest.p[0];
		skip(l, 1);
		if (c == '\\' && l->rest.n > 0)
			put_escape(l);
		else
			put(l, c);
	}
	if (l->rest.n == 0)
		risk_sign(l->run, RISK_SIGN_OPEN);
	skip(l, 1);
}

static void read_double(struct risk_lex *l);

/* At a '$'. */
static void
read_dollar(struct risk_lex *l, bool is_quoted)
{
	char c = peek(l, 1);
	size_t n = 0;

	if (c == '(' || c == '{') {
		skip(l, 2);
		(c == '(' ? read_parens : read_braced)(l);
	} else if (c == '\'' && !is_quoted) {
		skip(l, 2);
		read_ansi(l);
	} else if (c == '"' && !is_quoted) {
		skip(l, 2);
		read_double(l);
	} else if (is_name_byte(c) && !ascii_is_digit(c)) {
		skip(l, 1);
		while (is_name_byte(peek(l, n)))
			n++;
		put_variable(l, str_head(l->rest, n), true);
		skip(l, n);
	} else if (c != '\0' && (ascii_is_digit(c) || str_has(STR("@*#?$!-"), c))) {
		put_hole(l, HOLE_ANY);
		skip(l, 2);
	} else {
		put(l, '$');
		skip(l, 1);
	}
}

/* Behind a double quote. */
static void
read_double(struct risk_lex *l)
{
	while (l->rest.n > 0 && l->rest.p[0] != '"') {
		char c = l->rest.p[0], next = peek(l, 1);
		if (c == '$') {
			read_dollar(l, true);
		} else if (c == '`') {
			read_backquotes(l);
		} else if (c == '\\' && next == '\n') {
			skip(l, 2);
		} else if (c == '\\' && (next == '"' || next == '\\' || next == '$' ||
					 next == '`')) {
			put(l, next);
			skip(l, 2);
		} else {
			put(l, c);
			skip(l, 1);
		}
	}
	if (l->rest.n == 0)
		risk_sign(l->run, RISK_SIGN_OPEN);
	skip(l, 1);
}

static void
read_single(struct risk_lex *l)
{
	while (l->rest.n > 0 && l->rest.p[0] != '\'') {
		put(l, l->rest.p[0]);
		skip(l, 1);
	}
	if (l->rest.n == 0)
		risk_sign(l->run, RISK_SIGN_OPEN);
	skip(l, 1);
}

/* A bracket or brace that the shell would expand: how long, or 0. */
static size_t
expansion(const struct risk_lex *l, char close, const char *needs)
{
	bool has = needs[0] == '\0';

	for (size_t i = 1; i < l->rest.n; i++) {
		char c = l->rest.p[i];
		if (c == close && i > 1)
			return has ? i + 1 : 0;
		if (str_has(STR(" \t\n;&|<>()"), c) || !risk_spend(l->run, 1))
			return 0;
		has = has || str_has(str_from(needs), c);
	}
	return 0;
}

static bool
read_pattern(struct risk_lex *l)
{
	char c = l->rest.p[0];
	size_t n = 0;

	if (c == '*' || c == '?')
		n = 1;
	else if (c == '[')
		n = expansion(l, ']', "");
	else if (c == '{')
		n = expansion(l, '}', ",.");
	if (n == 0)
		return false;
	risk_expansions(l->run, str_head(l->rest, n));
	put_hole(l, c == '{' ? HOLE_ANY : HOLE_PART);
	skip(l, n);
	return true;
}

static bool
is_letter(char c)
{
	return ascii_is_alpha(c) || ascii_is_digit(c);
}

/* A quote at hand: `a"b"`, `"a"b` and `""a` are how names are hidden. */
static void
read_quoted(struct risk_lex *l, size_t start, struct risk_word *w)
{
	char c = l->rest.p[0];
	bool follows = l->used > start && is_letter(l->out[l->used - 1]);
	size_t before = l->used;

	skip(l, 1);
	(c == '"' ? read_double : read_single)(l);
	char next = peek(l, 0);
	if (follows || is_letter(next) || next == '"' || next == '\'' || next == '\\' ||
	    next == '$' || (before == l->used && next == '/'))
		w->is_odd = true;
}

static void
read_backslash(struct risk_lex *l, struct risk_word *w)
{
	char next = peek(l, 1);

	skip(l, l->rest.n < 2 ? 1 : 2);
	if (next == '\n' || next == '\0')
		return;
	w->is_odd = w->is_odd || is_letter(next);
	put(l, next);
}

static void
read_one(struct risk_lex *l, size_t start, struct risk_word *w)
{
	char c = l->rest.p[0];

	if (c == '\'' || c == '"') {
		read_quoted(l, start, w);
	} else if (c == '\\') {
		read_backslash(l, w);
	} else if (c == '$') {
		w->is_odd = w->is_odd || peek(l, 1) == '\'' || peek(l, 1) == '"';
		read_dollar(l, false);
	} else if (c == '`') {
		read_backquotes(l);
	} else if (!read_pattern(l)) {
		put(l, c);
		skip(l, 1);
	}
}

void
risk_word_read(struct risk_lex *l, struct risk_word *ret_w)
{
	struct str whole = l->rest;
	size_t start = l->used;
	struct risk_word w = { .text = STR("") };

	while (l->rest.n > 0 && !str_has(STR(" \t\r\n;&|<>()"), l->rest.p[0]))
		read_one(l, start, &w);
	w.text = str_of(l->out + start, l->used - start);
	w.name = STR("");
	if (w.text.n == 1 && w.text.p[0] == HOLE_ANY)
		w.name = str_head(whole, whole.n - l->rest.n);
	*ret_w = w;
}

void
risk_expansions(struct risk_run *run, struct str text)
{
	struct risk_lex l = { .run = run, .rest = text };

	if (!str_has(text, '$') && !str_has(text, '`'))
		return;
	l.out = arena_alloc(&run->arena, text.n + 1);
	if (l.out == NULL || run->depth >= RISK_DEPTH_MAX || !risk_spend(run, text.n)) {
		risk_sign(run, RISK_SIGN_DEEP);
		return;
	}
	run->depth++;
	while (l.rest.n > 0) {
		char c = l.rest.p[0];
		if (c == '$')
			read_dollar(&l, true);
		else if (c == '`')
			read_backquotes(&l);
		else
			skip(&l, c == '\\' ? 2 : 1);
	}
	run->depth--;
}

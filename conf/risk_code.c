#include "conf/risk_code.h"

#include <string.h>

#include "conf/risk_programs.h"
#include "proxy/base/enc.h"

static char
peek(const struct risk_code *c, size_t i)
{
	return i < c->rest.n ? c->rest.p[i] : '\0';
}

static void
skip(struct risk_code *c, size_t n)
{
	c->rest = str_skip(c->rest, n);
}

static bool
is_start_byte(char ch)
{
	return ascii_is_alpha(ch) || ch == '_' || ch == '$' ||
	       (unsigned char)ch >= 0x80;
}

static bool
is_name_byte(char ch)
{
	return is_start_byte(ch) || ascii_is_digit(ch);
}

static struct str
line_of(struct str s)
{
	const char *end = s.n == 0 ? NULL : memchr(s.p, '\n', s.n);

	return end == NULL ? s : str_head(s, (size_t)(end - s.p));
}

/* Comments */

static bool
skip_comment(struct risk_code *c)
{
	bool is_hash = code_is(c, "python|perl|ruby|r|julia|php|awk|powershell|tcl");
	bool is_slash = code_is(c, "js|java|go|php|c|rust|kotlin|scala|csharp");

	if ((is_hash && peek(c, 0) == '#' && !(c->before == '$')) ||
	    (is_slash && str_starts(c->rest, STR("//"))) ||
	    (code_is(c, "lua|sql|applescript") && str_starts(c->rest, STR("--")))) {
		skip(c, line_of(c->rest).n);
		return true;
	}
	if (!is_slash || !str_starts(c->rest, STR("/*")))
		return false;
	skip(c, 2);
	while (c->rest.n > 0 && !str_starts(c->rest, STR("*/")))
		skip(c, 1);
	skip(c, 2);
	return true;
}

/* Strings */

static char
escaped(struct risk_code *c)
{
	char ch = peek(c, 0);
	int high = enc_hex_digit(peek(c, 1)), low = enc_hex_digit(peek(c, 2));
	bool is_long = ch == 'u' && peek(c, 1) == '0' && peek(c, 2) == '0';

	if (is_long) {
		high = enc_hex_digit(peek(c, 3));
		low = enc_hex_digit(peek(c, 4));
	}
	if ((ch == 'x' || is_long) && high >= 0 && low >= 0) {
		skip(c, is_long ? 5 : 3);
		int v = high * 16 + low;
		return v < ' ' || v == 0x7f ? ' ' : (char)v;
	}
	if (ch >= '0' && ch <= '7') {
		unsigned v = 0;
		for (size_t n = 0; n < 3 && peek(c, 0) >= '0' && peek(c, 0) <= '7';
		     n++) {
			v = v * 8 + (unsigned)(peek(c, 0) - '0');
			skip(c, 1);
		}
		v &= 0xff;
		return v < ' ' || v == 0x7f ? ' ' : (char)v;
	}
	skip(c, 1);
	if (ch == 'n')
		return '\n';
	return str_has(STR("trabfv"), ch) ? ' ' : ch;
}

/* `${...}`, `{...}` or `#{...}` in a string: code, and a hole.  How long, or 0. */
static size_t
inserted(struct risk_code *c, char quote, bool is_format)
{
	bool is_js = code_is(c, "js") && quote == '`' && peek(c, 0) == '$';
	bool is_ruby = code_is(c, "ruby|julia") && quote != '\'' && peek(c, 0) == '#';
	size_t at = is_js || is_ruby ? 1 : 0;

	if (!is_js && !is_ruby && !is_format)
		return 0;
	if (peek(c, at) != '{' || (is_format && peek(c, at + 1) == '{'))
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
	char ch = peek(c, 0);

	if (n > 0) {
		skip(c, n);
		*out = HOLE_ANY;
		return true;
	}
	if (code_is(c, "perl|php") && quote == '"' && ch == '$' &&
	    is_start_byte(peek(c, 1))) {
		skip(c, 1);
		while (is_name_byte(peek(c, 0)))
			skip(c, 1);
		*out = HOLE_ANY;
		return true;
	}
	skip(c, 1);
	if (ch == '\\' && !is_raw && c->rest.n > 0) {
		if (peek(c, 0) == '\n') {
			skip(c, 1);
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
	char quote = peek(c, 0);
	bool is_triple = code_is(c, "python|julia|java|kotlin|scala") &&
			 peek(c, 1) == quote && peek(c, 2) == quote;
	bool is_long = is_triple || quote == '`' || !code_is(c, "python|js|java|go|c");
	size_t n = 0;

	skip(c, is_triple ? 3 : 1);
	while (c->rest.n > 0) {
		bool ends =
			peek(c, 0) == quote &&
			(!is_triple || (peek(c, 1) == quote && peek(c, 2) == quote));
		if (ends || (!is_long && peek(c, 0) == '\n'))
			break;
		n += put_part(c, quote, is_format, is_raw, out + n);
	}
	if (peek(c, 0) == quote)
		skip(c, is_triple ? 3 : 1);
	return n;
}

/* The next string, if only a plus (or what the language has) stands between. */
static bool
goes_on(struct risk_code *c)
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
	if (!risk_spend(c->run, i) || i == c->rest.n ||
	    !str_has(STR("'\"`"), c->rest.p[i]) ||
	    (joins == 0 && !code_is(c, "python|ruby|c|awk")))
		return false;
	skip(c, i);
	return true;
}

static void
on_string(struct risk_code *c, bool is_format, bool is_raw)
{
	char quote = peek(c, 0);
	bool is_shell = quote == '`' && code_is(c, "perl|ruby|php|lua|julia");
	size_t start = c->used;

	do
		c->used += read_string(c, is_format, is_raw, c->out + c->used);
	while (goes_on(c));
	struct str s = str_of(c->out + start, c->used - start);
	if (is_shell)
		risk_shell(c->run, s);
	code_string(c, s);
	c->before = '"';
	c->name = STR("");
}

/* Names */

static struct str
join(struct risk_code *c, struct str a, const char *between, struct str b)
{
	CLEANUP(buf_done) struct buf t = { 0 };
	struct str view = STR("");

	buf_init(&t, a.n + b.n + 16);
	buf_put(&t, a);
	buf_put(&t, str_from(between));
	buf_put(&t, b);
	if (buf_finish(&t, &view) != ST_OK)
		return STR("");
	return arena_copy(&c->run->arena, view);
}

static void
add_alias(struct risk_code *c, struct str alias, struct str target)
{
	if (alias.n == 0 || target.n == 0 || str_eq(alias, target))
		return;
	if (c->aliases_n == CODE_ALIASES) {
		risk_sign(c->run, RISK_SIGN_DEEP);
		return;
	}
	c->alias[c->aliases_n].alias = alias;
	c->alias[c->aliases_n++].target = target;
}

static struct str
resolve(struct risk_code *c, struct str name)
{
	struct str rest = name, first = str_cut(&rest, '.');

	for (size_t i = c->aliases_n; i > 0; i--)
		if (str_eq(first, c->alias[i - 1].alias))
			return rest.p == NULL
				       ? c->alias[i - 1].target
				       : join(c, c->alias[i - 1].target, ".", rest);
	return name;
}

/* Dots, arrows and double colons join; all become dots. */
static struct str
read_name(struct risk_code *c)
{
	size_t start = c->used;

	while (c->rest.n > 0) {
		size_t sep = 0;
		if (str_starts(c->rest, STR("::")) || str_starts(c->rest, STR("->")) ||
		    str_starts(c->rest, STR("?.")))
			sep = 2;
		else if (peek(c, 0) == '.')
			sep = 1;
		if (sep > 0 && !is_start_byte(peek(c, sep)))
			break;
		if (sep == 0 && !is_name_byte(peek(c, 0)))
			break;
		c->out[c->used++] = sep > 0 ? '.' : peek(c, 0);
		skip(c, sep > 0 ? sep : 1);
	}
	return str_of(c->out + start, c->used - start);
}

static void
on_import(struct risk_code *c, struct str name)
{
	struct str whole = c->from.n > 0 ? join(c, c->from, ".", name) : name;

	if (str_eq(name, STR("as")))
		return;
	/* `import x as y`: y is x. */
	if (str_eq(c->name, STR("as"))) {
		add_alias(c, name,
			  c->last.first == NULL ? STR("") : c->last.first->text);
		return;
	}
	risk_add(c->run, &c->deed, COND_CODE, join(c, STR("import"), " ", whole));
	if (c->from.n > 0)
		add_alias(c, name, whole);
	struct risk_fact *f = arena_alloc(&c->run->arena, sizeof *f);
	if (f != NULL)
		*f = (struct risk_fact){ whole, NULL };
	c->last = (struct code_strings){ f, f != NULL };
}

/* True: the word belongs to an import. */
static bool
is_importing(struct risk_code *c, struct str name)
{
	if (!code_is(c, "python"))
		return false;
	if (str_eq(name, STR("from")) && c->is_start) {
		c->from = STR("from");
	} else if (str_eq(c->from, STR("from")) && !c->is_import) {
		c->from = name;
	} else if (str_eq(name, STR("import"))) {
		c->is_import = true;
	} else if (c->is_import) {
		on_import(c, name);
	} else {
		return false;
	}
	return true;
}

static void
add_environment(struct risk_code *c, struct str name)
{
	static const char *const starts[] = { "process.env.", "ENV.", "Bun.env." };

	for (size_t i = 0; i < COUNT_OF(starts); i++)
		if (str_starts(name, str_from(starts[i])))
			risk_add(c->run, &c->deed, COND_ENV,
				 str_skip(name, strlen(starts[i])));
}

static void
skip_blanks(struct risk_code *c)
{
	while (peek(c, 0) == ' ' || peek(c, 0) == '\t')
		skip(c, 1);
}

static bool
is_bare_call(struct risk_code *c, struct str name)
{
	char next = peek(c, 0);

	return code_is(c, "perl|ruby|lua|awk|r|julia|tcl") &&
	       risk_is_among(name, "system|exec|spawn|require|load|eval|unlink|open|"
				   "shell_exec|qx|rmdir|do") &&
	       (next == '"' || next == '\'' || next == '`' || next == '%');
}

/* `name = other`: an alias, so that no new name hides an old one. */
static void
add_assigned(struct risk_code *c, struct str name)
{
	if (c->before == '=' && c->name.n > 0 && !str_has(c->name, '.') &&
	    peek(c, 0) != '(')
		add_alias(c, c->name, name);
}

static void
on_name(struct risk_code *c)
{
	bool is_method = c->before == '.';
	struct str name = read_name(c);
	char next = peek(c, 0);

	if ((next == '"' || next == '\'') && name.n <= 2 && code_is(c, "python|c")) {
		bool is_format = str_has(name, 'f') || str_has(name, 'F');
		on_string(c, is_format, str_has(name, 'r') || str_has(name, 'R'));
		return;
	}
	skip_blanks(c);
	if (!is_importing(c, name)) {
		name = resolve(c, name);
		risk_add(c->run, &c->deed, COND_CODE, name);
		add_environment(c, name);
		if (c->aliases_n < CODE_ALIASES)
			add_assigned(c, name);
		if (peek(c, 0) == '(' || is_bare_call(c, name)) {
			risk_add(c->run, &c->deed, COND_CODE,
				 join(c, name, "()", STR("")));
			if (is_method)
				code_method(c, name);
			if (peek(c, 0) == '(') {
				skip(c, 1);
				code_open(c, name);
			} else {
				code_frame(c)->name = name;
			}
		}
	}
	c->name = name;
	c->before = 'a';
}

/* The rest */

static void
end_line(struct risk_code *c)
{
	struct code_frame *f = code_frame(c);

	c->is_import = false;
	c->from = STR("");
	if (c->frames_n == 0 && f->name.n > 0) {
		c->frames_n = 1;
		c->frame[1] = *f;
		code_close(c);
		*f = (struct code_frame){ .name = STR("") };
	}
}

/* Lines of notebooks: `!command`, `%pip install x`, `%%bash`. */
static bool
on_magic(struct risk_code *c)
{
	struct str line = line_of(c->rest), word = line;
	char ch = peek(c, 0);

	if (!code_is(c, "python") || !c->is_start || (ch != '!' && ch != '%'))
		return false;
	if (ch == '!') {
		risk_shell(c->run, str_skip(line, str_starts(line, STR("!!")) ? 2 : 1));
	} else if (str_starts(line, STR("%%"))) {
		word = str_skip(line, 2);
		word = str_cut(&word, ' ');
		struct str body = str_skip(c->rest, line.n);
		if (risk_is_shell(word) || risk_is_among(word, "sx|system|!|script"))
			risk_shell(c->run, body);
		else if (risk_language_of(word) != NULL)
			risk_code(c->run, str_from(risk_language_of(word)->language),
				  body);
		else
			return false; /* %%time and the like: Python goes on */
		line = c->rest;
	} else {
		struct str tail = str_skip(line, 1), first = str_cut(&tail, ' ');
		bool is_run = risk_is_among(first, "sx|system|sc");
		risk_shell(c->run, is_run ? tail : str_skip(line, 1));
	}
	skip(c, line.n);
	return true;
}

static void
on_other(struct risk_code *c, char ch)
{
	if (ch == '\n' || ch == ';') {
		if (ch == ';' || c->frames_n == 0)
			end_line(c);
		c->is_start = true;
		skip(c, 1);
		return;
	}
	skip(c, 1);
	if (ch == ' ' || ch == '\t' || ch == '\r')
		return;
	if (ch == '(')
		code_open(c, STR(""));
	else if (ch == ')')
		code_close(c);
	c->before = ch;
}

static void
read_text(struct risk_code *c)
{
	while (c->rest.n > 0 && risk_spend(c->run, 1)) {
		char ch = c->rest.p[0];
		if (on_magic(c) || skip_comment(c))
			continue;
		if (ch == '"' || ch == '\'' || ch == '`')
			on_string(c, false, false);
		else if (is_start_byte(ch))
			on_name(c);
		else if (ascii_is_digit(ch))
			(void)read_name(c);
		else
			on_other(c, ch);
		if (ch != ' ' && ch != '\t' && ch != '\n' && ch != ';')
			c->is_start = false;
	}
	while (c->frames_n > 0)
		code_close(c);
	end_line(c);
}

static struct str
language_of(struct str s)
{
	static const struct {
		const char *names, *language;
	} known[] = {
		{ "python3|py|python2|ipython|jupyter", "python" },
		{ "javascript|typescript|ts|node|nodejs|jsx|tsx|mjs", "js" },
		{ "golang", "go" },
		{ "rb", "ruby" },
		{ "pl", "perl" },
		{ "c++|cpp", "c" },
	};

	for (size_t i = 0; i < COUNT_OF(known); i++)
		if (risk_is_among(s, known[i].names))
			return str_from(known[i].language);
	return s;
}

void
risk_code(struct risk_run *run, struct str language, struct str text)
{
	if (risk_is_shell(language)) {
		risk_shell(run, text);
		return;
	}
	if (run->depth >= RISK_DEPTH_MAX || !risk_spend(run, text.n)) {
		risk_sign(run, RISK_SIGN_DEEP);
		return;
	}
	struct risk_code *c = arena_alloc(&run->arena, sizeof *c);
	char *out = arena_alloc(&run->arena, text.n + 1);
	if (c == NULL || out == NULL)
		return;
	c->run = run;
	c->out = out;
	c->language = language_of(language);
	c->rest = text;
	c->is_start = true;
	risk_add(run, &c->deed, COND_LANGUAGE, c->language);
	run->depth++;
	read_text(c);
	run->depth--;
	risk_apply(run, &c->deed);
}

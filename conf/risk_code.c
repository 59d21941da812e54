#include "conf/risk_code.h"

#include <string.h>

#include "conf/risk_programs.h"

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

	if ((is_hash && code_peek(c, 0) == '#' && !(c->before == '$')) ||
	    (is_slash && str_starts(c->rest, STR("//"))) ||
	    (code_is(c, "lua|sql|applescript") && str_starts(c->rest, STR("--")))) {
		code_skip(c, line_of(c->rest).n);
		return true;
	}
	if (!is_slash || !str_starts(c->rest, STR("/*")))
		return false;
	code_skip(c, 2);
	while (c->rest.n > 0 && !str_starts(c->rest, STR("*/")))
		code_skip(c, 1);
	code_skip(c, 2);
	return true;
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
		else if (code_peek(c, 0) == '.')
			sep = 1;
		if (sep > 0 && !code_is_start(code_peek(c, sep)))
			break;
		if (sep == 0 && !code_is_name(code_peek(c, 0)))
			break;
		c->out[c->used] = '.';
		if (sep == 0)
			c->out[c->used] = code_peek(c, 0);
		c->used++;
		code_skip(c, sep > 0 ? sep : 1);
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
	while (code_peek(c, 0) == ' ' || code_peek(c, 0) == '\t')
		code_skip(c, 1);
}

static bool
is_bare_call(struct risk_code *c, struct str name)
{
	char next = code_peek(c, 0);

	return code_is(c, "perl|ruby|lua|awk|r|julia|tcl") &&
	       risk_is_among(name, "system|exec|spawn|require|load|eval|unlink|open|"
				   "shell_exec|qx|rmdir|do") &&
	       ((next == 'q' && code_is(c, "perl")) || next == '"' || next == '\'' ||
		next == '`' || next == '%');
}

/* `name = other`: an alias, so that no new name hides an old one. */
static void
add_assigned(struct risk_code *c, struct str name)
{
	if (c->before == '=' && c->name.n > 0 && !str_has(c->name, '.') &&
	    code_peek(c, 0) != '(')
		add_alias(c, c->name, name);
}

static void
on_call(struct risk_code *c, struct str name, bool is_method)
{
	risk_add(c->run, &c->deed, COND_CODE, join(c, name, "()", STR("")));
	if (is_method)
		code_method(c, name);
	if (code_peek(c, 0) != '(') {
		code_frame(c)->name = name;
		return;
	}
	code_skip(c, 1);
	code_open(c, name);
}

/* q(...), qq{...}, qw/.../ and qx|...| of Perl: strings too. */
static bool
on_quoting(struct risk_code *c, struct str name)
{
	static const char open[] = "([{<", close[] = ")]}>";
	char end = code_peek(c, 0);
	size_t n = 1;

	if (!code_is(c, "perl") || !risk_is_among(name, "q|qq|qw|qx") || end == '\0' ||
	    code_is_name(end) || str_has(STR(" \t\n,;=)"), end))
		return false;
	for (size_t i = 0; i < sizeof open - 1; i++)
		if (end == open[i]) {
			end = close[i];
			break;
		}
	while (n < c->rest.n && c->rest.p[n] != end)
		n++;
	if (n == c->rest.n)
		risk_sign(c->run, RISK_SIGN_OPEN);
	struct str s = str_skip(str_head(c->rest, n), 1);
	code_skip(c, n + 1);
	if (str_eq(name, STR("qx")))
		risk_shell(c->run, s);
	code_string(c, s);
	c->before = '"';
	return true;
}

static void
on_name(struct risk_code *c)
{
	bool is_method = c->before == '.';
	struct str name = read_name(c);
	char next = code_peek(c, 0);

	if ((next == '"' || next == '\'') && name.n <= 2 && code_is(c, "python|c")) {
		bool is_format = str_has(name, 'f') || str_has(name, 'F');
		code_read_string(c, is_format,
				 str_has(name, 'r') || str_has(name, 'R'));
		return;
	}
	if (on_quoting(c, name))
		return;
	skip_blanks(c);
	if (!is_importing(c, name)) {
		name = resolve(c, name);
		risk_add(c->run, &c->deed, COND_CODE, name);
		add_environment(c, name);
		if (c->aliases_n < CODE_ALIASES)
			add_assigned(c, name);
		if (code_peek(c, 0) == '(' || is_bare_call(c, name))
			on_call(c, name, is_method);
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
	char ch = code_peek(c, 0);

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
	code_skip(c, line.n);
	return true;
}

static void
on_other(struct risk_code *c, char ch)
{
	if (ch == '\n' || ch == ';') {
		if (ch == ';' || c->frames_n == 0)
			end_line(c);
		c->is_start = true;
		code_skip(c, 1);
		return;
	}
	code_skip(c, 1);
	if (ch == ' ' || ch == '\t' || ch == '\r')
		return;
	/* x["na" + "me"](): who is called is computed. */
	if (ch == '(' && c->before == ']')
		risk_add(c->run, &c->deed, COND_CODE, STR("[]()"));
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
			code_read_string(c, false, false);
		else if (code_is_start(ch))
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

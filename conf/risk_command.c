/*
 * One simple command: its facts, and what it runs in its turn.  Wrappers are looked
 * through, shells and interpreters are given the text behind -c; each level is a deed
 * of its own, so that a rule about sudo and one about rm both see theirs.
 */
#include "conf/risk_private.h"

#include <string.h>

#include "conf/risk_programs.h"

struct command {
	struct risk_run *run;
	struct risk_call *call;
	const struct risk_word *w; /* from the program on */
	size_t n;
	struct str name; /* of the program, without folders */
	struct risk_deed deed;
	bool is_fed; /* its words come from another program: xargs */
};

static void judge(struct command *c);

/* Words */

static struct str
text(const struct command *c, size_t i)
{
	return i < c->n ? c->w[i].text : STR("");
}

static bool
is_option(struct str s)
{
	return s.n > 1 && (s.p[0] == '-' || s.p[0] == '+');
}

/* NAME=, NAME+=: how long NAME is; 0: no assignment. */
static size_t
assigned(struct str s)
{
	size_t n = 0;

	while (n < s.n && (ascii_is_alpha(s.p[n]) || s.p[n] == '_' ||
			   (n > 0 && ascii_is_digit(s.p[n]))))
		n++;
	if (n == s.n || n == 0)
		return 0;
	return s.p[n] == '=' || s.p[n] == '+' || s.p[n] == '[' ? n : 0;
}

static bool
add_assignment(struct command *c, struct str s)
{
	size_t n = assigned(s);

	if (n == 0 || !str_has(str_skip(s, n), '='))
		return false;
	risk_add(c->run, &c->deed, COND_SETS, str_head(s, n));
	return true;
}

/* All words from i on as one text, as eval and ssh read them. */
static void
judge_joined(struct command *c, size_t from)
{
	size_t n = 0, at = 0;

	for (size_t i = from; i < c->n; i++)
		n += c->w[i].text.n + 1;
	char *p = arena_alloc(&c->run->arena, n + 1);
	if (p == NULL || n == 0)
		return;
	for (size_t i = from; i < c->n; i++) {
		struct str s = c->w[i].text;
		if (s.n > 0)
			memcpy(p + at, s.p, s.n);
		at += s.n;
		p[at++] = ' ';
	}
	risk_shell(c->run, str_of(p, at));
}

static void
judge_from(struct command *c, size_t from)
{
	struct risk_call inner = *c->call;
	struct command in = { .run = c->run, .call = &inner, .is_fed = c->is_fed };

	if (from >= c->n)
		return;
	if (c->run->depth >= RISK_DEPTH_MAX) {
		risk_sign(c->run, RISK_SIGN_DEEP);
		return;
	}
	if (c->call->around != NULL)
		in.deed = *c->call->around;
	in.w = c->w + from;
	in.n = c->n - from;
	c->run->depth++;
	judge(&in);
	c->run->depth--;
	c->call->names = inner.names;
	c->call->is_shell_body = inner.is_shell_body;
	c->call->body_language = inner.body_language;
}

/* Facts */

static void
add_words(struct command *c)
{
	bool has_verb = false;

	for (size_t i = 1; i < c->n; i++) {
		const struct risk_word *w = &c->w[i];
		struct str s = w->name.n > 0 ? w->name : w->text;
		risk_add(c->run, &c->deed, COND_ARGS, s);
		risk_add(c->run, &c->deed, COND_ALSO, s);
		if (!has_verb && !is_option(s))
			risk_add(c->run, &c->deed, COND_VERB, s);
		has_verb = has_verb || !is_option(s);
	}
	if (!has_verb)
		risk_add(c->run, &c->deed, COND_VERB, STR(""));
}

static size_t
last_operand(const struct command *c)
{
	for (size_t i = c->n; i > 1; i--)
		if (!is_option(c->w[i - 1].text))
			return i - 1;
	return 0;
}

static bool
has_word(const struct command *c, const char *words)
{
	for (size_t i = 1; i < c->n; i++)
		if (risk_is_among(c->w[i].text, words))
			return true;
	return false;
}

static bool
has_start(const struct command *c, struct str start)
{
	for (size_t i = 1; i < c->n; i++)
		if (str_starts(c->w[i].text, start))
			return true;
	return false;
}

static enum risk_touch
touch_of(const struct command *c, const struct risk_program *p, size_t i)
{
	static const char outputs[] = "-o|-O|--output|--output-document|--dump-header";
	struct str s = text(c, i);
	bool is_net = risk_is_network(c->name);

	if (p == NULL) {
		bool is_edit =
			risk_is_among(c->name, "sed|perl|ruby|sponge") &&
			(has_start(c, STR("-i")) || has_start(c, STR("--in-place")) ||
			 str_eq(c->name, STR("sponge")));
		if (is_edit || (is_net && (str_starts(s, STR("-o")) ||
					   risk_is_among(text(c, i - 1), outputs))))
			return TOUCH_WRITE;
		return str_eq(c->name, STR("find")) && has_word(c, "-delete")
			       ? TOUCH_DELETE
			       : TOUCH_READ;
	}
	if (p->order == ORDER_OF)
		return str_starts(s, STR("of=")) ? TOUCH_WRITE : TOUCH_READ;
	if (p->order != ORDER_NONE &&
	    (i == last_operand(c) || has_start(c, STR("-t")) ||
	     has_start(c, STR("--target"))))
		return TOUCH_WRITE;
	/* A name that goes on to another program is read there: echo X | xargs cat. */
	return p->touch == TOUCH_NAME && c->call->is_piped_out ? TOUCH_READ : p->touch;
}

static void
add_places(struct command *c)
{
	const struct risk_program *p = risk_program_of(c->name);
	bool is_net = risk_is_network(c->name);

	for (size_t i = 1; i < c->n; i++) {
		struct str s = c->w[i].text;
		bool is_number = s.n > 0;
		risk_add_paths(c->run, &c->deed, touch_of(c, p, i), s);
		risk_add_host(c->run, &c->deed, s, is_net);
		for (size_t k = 0; k < s.n; k++)
			is_number = is_number && ascii_is_digit(s.p[k]);
		if (is_net && is_number)
			risk_add(c->run, &c->deed, COND_PORTS, s);
	}
}

static void
add_package(struct command *c, struct str name)
{
	struct str manager = risk_without_version(c->name);
	size_t n = 0;

	while (n < name.n && (n == 0 || !str_has(STR("<>=~!@;["), name.p[n])))
		n++;
	char *p = arena_alloc(&c->run->arena, manager.n + 1 + n);
	if (p == NULL)
		return;
	memcpy(p, manager.p, manager.n);
	p[manager.n] = ':';
	memcpy(p + manager.n + 1, name.p, n);
	risk_add(c->run, &c->deed, COND_INSTALLS,
		 risk_lower(c->run, str_of(p, manager.n + 1 + n)));
}

static void
add_packages(struct command *c)
{
	const char *verbs = risk_manager_verbs(c->name);
	bool is_install = false;

	for (size_t i = 1; verbs != NULL && i < c->n; i++) {
		struct str s = c->w[i].text;
		if (!is_install)
			is_install = risk_is_among(s, verbs);
		else if (s.n > 0 && !is_option(s))
			add_package(c, s);
	}
	/* Nothing named: what a file of the project names. */
	if (is_install && c->deed.fact[COND_INSTALLS] == NULL)
		add_package(c, STR("."));
}

static void
add_variables(struct command *c)
{
	bool is_set = risk_is_among(c->name, "export|declare|typeset|local|readonly|"
					     "set|env");

	for (size_t i = 1; i < c->n; i++) {
		if (is_set)
			(void)add_assignment(c, c->w[i].text);
		else if (str_eq(c->name, STR("printenv")))
			risk_add(c->run, &c->deed, COND_ENV, c->w[i].text);
	}
}

/* What it runs */

static void
run_text(struct command *c, size_t i)
{
	if (i >= c->n)
		return;
	struct str s = c->w[i].text;
	for (size_t k = 0; k + 1 < s.n; k++)
		if (s.p[k] == '{' && s.p[k + 1] == '}') {
			risk_sign(c->run, RISK_SIGN_COMPUTED);
			break;
		}
	risk_shell(c->run, s);
}

/* Reads what it runs: from a program, or from what stands behind "<<". */
static void
run_input(struct command *c, bool is_shell, struct str language)
{
	if (c->call->is_piped_in || c->is_fed)
		risk_sign(c->run, RISK_SIGN_STDIN);
	c->call->is_shell_body = is_shell;
	c->call->body_language = language;
}

static void
run_shell(struct command *c)
{
	bool is_text = false;
	size_t i = 1;

	if (c->is_fed)
		risk_sign(c->run, RISK_SIGN_STDIN);
	for (; i < c->n && is_option(c->w[i].text); i++) {
		struct str s = c->w[i].text;
		if (!str_starts(s, STR("--")))
			is_text = is_text || str_has(s, 'c');
		if (risk_is_among(s, "-o|+o|-O|+O|--rcfile|--init-file"))
			i++;
	}
	struct str s = text(c, i);
	if (is_text)
		run_text(c, i);
	else if (i < c->n && c->w[i].name.n > 0)
		risk_sign(c->run, RISK_SIGN_COMPUTED);
	else if (i >= c->n || has_word(c, "-s") ||
		 risk_is_among(s, "-|/dev/stdin|/dev/fd/0|/proc/self/fd/0"))
		run_input(c, true, STR(""));
}

static bool
is_code_option(const struct risk_language *l, struct str s)
{
	if (l->words[0] != '\0' && risk_is_among(s, l->words))
		return true;
	return s.n > 1 && s.p[0] == '-' && s.p[1] != '-' &&
	       str_has(str_from(l->letters), s.p[s.n - 1]);
}

static void
run_code(struct command *c, struct str language, struct str code)
{
	if (risk_has_hole(code))
		risk_sign(c->run, RISK_SIGN_COMPUTED);
	risk_code(c->run, language, code);
}

static void
run_interpreter(struct command *c, const struct risk_language *l)
{
	struct str language = str_from(l->language);
	bool is_python = str_eq(language, STR("python"));

	if (c->is_fed)
		risk_sign(c->run, RISK_SIGN_STDIN);
	for (size_t i = 1; i < c->n; i++) {
		struct str s = c->w[i].text;
		bool is_attached = is_python && str_starts(s, STR("-c")) && s.n > 2;
		if (is_attached || is_code_option(l, s)) {
			run_code(c, language,
				 is_attached ? str_skip(s, 2) : text(c, i + 1));
			return;
		}
		if (is_python && str_eq(s, STR("-m"))) {
			judge_from(c, i + 1);
			return;
		}
		if (c->w[i].name.n > 0)
			risk_sign(c->run, RISK_SIGN_COMPUTED);
		if (!is_option(s) && !risk_is_among(s, "-|/dev/stdin"))
			return; /* a file */
	}
	if (!has_word(c, "--version|-V|-v|--help|-h"))
		run_input(c, false, language);
}

/* Its options, its variables, its own operands; then the command. */
static size_t
inside(struct command *c, const struct risk_wrap *wrap)
{
	unsigned operands = wrap->operands;

	for (size_t i = 1; i < c->n; i++) {
		struct str s = c->w[i].text;
		if (str_eq(s, STR("--")))
			return i + 1 + operands;
		if (str_starts(s, STR("-S")) && str_eq(c->name, STR("env"))) {
			risk_shell(c->run, s.n > 2 ? str_skip(s, 2) : text(c, i + 1));
			i += s.n == 2;
		} else if (str_starts(s, STR("--split-string="))) {
			risk_shell(c->run, str_skip(s, 15));
		} else if (is_option(s)) {
			i += risk_wrap_has_value(wrap, s);
		} else if (!add_assignment(c, s) && operands-- == 0) {
			return i;
		}
	}
	return c->n;
}

static void
run_each_exec(struct command *c)
{
	for (size_t i = 1; i < c->n; i++)
		if (risk_is_among(c->w[i].text, "-exec|-execdir|-ok|-okdir"))
			judge_from(c, i + 1);
}

/* The word behind an option. */
static void
run_behind(struct command *c, const char *options)
{
	for (size_t i = 1; i + 1 < c->n; i++)
		if (risk_is_among(c->w[i].text, options))
			run_text(c, i + 1);
}

static void
run_alias(struct command *c)
{
	for (size_t i = 1; i < c->n; i++) {
		struct str rest = c->w[i].text;
		(void)str_cut(&rest, '=');
		if (rest.n > 0)
			risk_shell(c->run, rest);
	}
}

static void
run_remote(struct command *c)
{
	size_t i = 1;

	while (i < c->n && is_option(c->w[i].text))
		i += str_has(STR("bcDEeFIiJLlmOopQRSWw"),
			     c->w[i].text.p[c->w[i].text.n - 1])
			     ? 2
			     : 1;
	judge_joined(c, i + 1);
}

static void
run_awk(struct command *c)
{
	for (size_t i = 1; i < c->n; i++) {
		struct str s = c->w[i].text;
		if (risk_is_among(s, "-F|-v|-f"))
			i++;
		else if (!is_option(s)) {
			risk_code(c->run, STR("awk"), s);
			return;
		}
	}
}

static void
run_builtin(struct command *c)
{
	struct str name = c->name;

	if (str_eq(name, STR("eval")))
		judge_joined(c, 1);
	else if (risk_is_among(name, ".|source") && c->n > 1 && c->w[1].name.n > 0)
		risk_sign(c->run, RISK_SIGN_COMPUTED);
	else if (risk_is_among(name, ".|source") &&
		 str_eq(text(c, 1), STR("/dev/stdin")))
		run_input(c, true, STR(""));
	else if (str_eq(name, STR("trap")))
		run_text(c, 1);
	else if (str_eq(name, STR("alias")))
		run_alias(c);
	else if (str_eq(name, STR("find")))
		run_each_exec(c);
	else if (str_eq(name, STR("watch")))
		judge_joined(c, 1);
	else if (str_eq(name, STR("ssh")))
		run_remote(c);
	else if (risk_is_among(name, "su|runuser|script|sg|newgrp"))
		run_behind(c, "-c|--command|-lc");
	else if (risk_is_among(name, "awk|gawk|mawk|nawk"))
		run_awk(c);
}

static void
run_inner(struct command *c)
{
	const struct risk_wrap *wrap = risk_wrap_of(c->name);
	const struct risk_language *l = risk_language_of(c->name);

	if (wrap != NULL) {
		c->is_fed = c->is_fed || risk_is_among(c->name, "xargs|parallel");
		size_t from = inside(c, wrap);
		risk_apply(c->run, &c->deed);
		judge_from(c, from);
		return;
	}
	risk_apply(c->run, &c->deed);
	if (risk_is_shell(c->name))
		run_shell(c);
	else if (l != NULL)
		run_interpreter(c, l);
	else
		run_builtin(c);
}

/* The command itself */

static bool
is_keyword(struct str s)
{
	return risk_is_among(s, "if|then|else|elif|fi|do|done|while|until|{|}|!|time|"
				"coproc|esac");
}

static void
skip_start(struct command *c)
{
	while (c->n > 0) {
		struct str s = c->w[0].text;
		bool is_function = str_eq(s, STR("function"));
		if (!is_keyword(s) && !is_function && !add_assignment(c, s))
			break;
		size_t k = is_function && c->n > 1 ? 2 : 1;
		c->w += k;
		c->n -= k;
	}
}

/* A name that is not the plain text of itself. */
static bool
is_hidden(const struct risk_word *w)
{
	return w->is_odd || risk_has_hole(w->text) ||
	       (str_has(w->text, '{') && w->text.n > 1) || str_has(w->text, '\n');
}

static void
enter(struct command *c)
{
	struct str to = text(c, 1);

	if (!risk_is_among(c->name, "cd|pushd") || c->n < 2 || is_option(to))
		return;
	c->run->folder = risk_has_hole(to) ? STR("") : risk_path(c->run, to);
}

static size_t
weigh(const struct command *c)
{
	size_t n = 64;

	for (size_t i = 0; i < c->n; i++)
		n += c->w[i].text.n + 1;
	return n;
}

static void
judge(struct command *c)
{
	if (!risk_spend(c->run, weigh(c)))
		return;
	skip_start(c);
	if (c->n == 0) {
		risk_apply(c->run, &c->deed);
		return;
	}
	if (is_hidden(&c->w[0]))
		risk_sign(c->run, RISK_SIGN_NAME);
	c->name = risk_base(c->w[0].text);
	risk_add(c->run, &c->deed, COND_COMMAND, c->w[0].text);
	risk_add(c->run, &c->deed, COND_COMMAND, c->name);
	c->deed.fact[COND_PIPED_FROM] = c->call->piped;
	add_words(c);
	add_places(c);
	add_packages(c);
	add_variables(c);
	c->call->names = c->deed.fact[COND_COMMAND];
	run_inner(c);
	enter(c);
}

void
risk_command(struct risk_run *run, struct risk_call *call)
{
	struct command c = { .run = run, .call = call, .w = call->words, .n = call->n };

	call->body_language = STR("");
	if (call->around != NULL)
		c.deed = *call->around;
	judge(&c);
}

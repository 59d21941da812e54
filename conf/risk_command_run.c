/*
 * What a command runs: wrappers are looked through, shells and interpreters are given
 * the text behind -c.
 */
#include <string.h>

#include "conf/risk_command.h"
#include "conf/risk_programs.h"

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
	for (; i < c->n && command_is_option(c->w[i].text); i++) {
		struct str s = c->w[i].text;
		if (!str_starts(s, STR("--")))
			is_text = is_text || str_has(s, 'c');
		if (risk_is_among(s, "-o|+o|-O|+O|--rcfile|--init-file"))
			i++;
	}
	struct str s = command_word(c, i);
	if (is_text)
		run_text(c, i);
	else if (i < c->n && c->w[i].name.n > 0)
		risk_sign(c->run, RISK_SIGN_COMPUTED);
	else if (i >= c->n || command_has_word(c, "-s") ||
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
				 is_attached ? str_skip(s, 2) : command_word(c, i + 1));
			return;
		}
		if (is_python && str_eq(s, STR("-m"))) {
			command_judge_from(c, i + 1);
			return;
		}
		if (c->w[i].name.n > 0)
			risk_sign(c->run, RISK_SIGN_COMPUTED);
		if (risk_is_among(s, "-W|-X|-I|-r|-d|-M|--require|--import|-Q"))
			i++; /* its value */
		else if (!command_is_option(s) && !risk_is_among(s, "-|/dev/stdin"))
			return; /* a file */
	}
	if (!command_has_word(c, "--version|-V|-v|--help|-h"))
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
			risk_shell(c->run,
				   s.n > 2 ? str_skip(s, 2) : command_word(c, i + 1));
			i += s.n == 2;
		} else if (str_starts(s, STR("--split-string="))) {
			risk_shell(c->run, str_skip(s, 15));
		} else if (command_is_option(s)) {
			i += risk_wrap_has_value(wrap, s);
		} else if (!command_add_assignment(c, s) && operands-- == 0) {
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
			command_judge_from(c, i + 1);
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

	while (i < c->n && command_is_option(c->w[i].text))
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
		else if (!command_is_option(s)) {
			risk_code(c->run, STR("awk"), s);
			return;
		}
	}
}

static void
run_builtin(struct command *c)
{
	struct str name = c->name;

	if (risk_is_among(name, "eval|watch"))
		judge_joined(c, 1);
	else if (risk_is_among(name, ".|source") && c->n > 1 && c->w[1].name.n > 0)
		risk_sign(c->run, RISK_SIGN_COMPUTED);
	else if (risk_is_among(name, ".|source") &&
		 str_eq(command_word(c, 1), STR("/dev/stdin")))
		run_input(c, true, STR(""));
	else if (str_eq(name, STR("trap")))
		run_text(c, 1);
	else if (str_eq(name, STR("alias")))
		run_alias(c);
	else if (str_eq(name, STR("find")))
		run_each_exec(c);
	else if (str_eq(name, STR("ssh")))
		run_remote(c);
	else if (risk_is_among(name, "su|runuser|script|sg|newgrp"))
		run_behind(c, "-c|--command|-lc");
	else if (risk_is_among(name, "awk|gawk|mawk|nawk"))
		run_awk(c);
}

void
command_run(struct command *c)
{
	const struct risk_wrap *wrap = risk_wrap_of(c->name);
	const struct risk_language *l = risk_language_of(c->name);

	if (wrap != NULL) {
		c->is_fed = c->is_fed || risk_is_among(c->name, "xargs|parallel");
		size_t from = inside(c, wrap);
		risk_apply(c->run, &c->deed);
		command_judge_from(c, from);
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

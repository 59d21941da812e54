/* The words of a command as facts. */
#include <string.h>

#include "conf/risk_command.h"
#include "conf/risk_programs.h"

struct str
command_word(const struct command *c, size_t i)
{
	return i < c->n ? c->w[i].text : STR("");
}

bool
command_is_option(struct str s)
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

bool
command_add_assignment(struct command *c, struct str s)
{
	size_t n = assigned(s);

	if (n == 0 || !str_has(str_skip(s, n), '='))
		return false;
	risk_add(c->run, &c->deed, COND_SETS, str_head(s, n));
	return true;
}

static void
add_words(struct command *c)
{
	bool has_verb = false;

	for (size_t i = 1; i < c->n; i++) {
		const struct risk_word *w = &c->w[i];
		struct str s = w->name.n > 0 ? w->name : w->text;
		risk_add(c->run, &c->deed, COND_ARGS, s);
		risk_add(c->run, &c->deed, COND_ALSO, s);
		if (!has_verb && !command_is_option(s))
			risk_add(c->run, &c->deed, COND_VERB, s);
		has_verb = has_verb || !command_is_option(s);
	}
	if (!has_verb)
		risk_add(c->run, &c->deed, COND_VERB, STR(""));
}

static size_t
last_operand(const struct command *c)
{
	for (size_t i = c->n; i > 1; i--)
		if (!command_is_option(c->w[i - 1].text))
			return i - 1;
	return 0;
}

bool
command_has_word(const struct command *c, const char *words)
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
	struct str s = command_word(c, i);
	bool is_net = risk_is_network(c->name);

	if (p == NULL) {
		bool is_edit =
			risk_is_among(c->name, "sed|perl|ruby|sponge") &&
			(has_start(c, STR("-i")) || has_start(c, STR("--in-place")) ||
			 str_eq(c->name, STR("sponge")));
		if (is_edit ||
		    (is_net && (str_starts(s, STR("-o")) ||
				risk_is_among(command_word(c, i - 1), outputs))))
			return TOUCH_WRITE;
		return str_eq(c->name, STR("find")) && command_has_word(c, "-delete")
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
		else if (s.n > 0 && !command_is_option(s))
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
			(void)command_add_assignment(c, c->w[i].text);
		else if (str_eq(c->name, STR("printenv")))
			risk_add(c->run, &c->deed, COND_ENV, c->w[i].text);
	}
}

void
command_add_facts(struct command *c)
{
	risk_add(c->run, &c->deed, COND_COMMAND, c->w[0].text);
	risk_add(c->run, &c->deed, COND_COMMAND, c->name);
	c->deed.fact[COND_PIPED_FROM] = c->call->piped;
	add_words(c);
	add_places(c);
	add_packages(c);
	add_variables(c);
}

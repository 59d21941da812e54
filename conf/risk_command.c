/*
 * One simple command: its facts, and what it runs in its turn.  Wrappers are looked
 * through, shells and interpreters are given the text behind -c; each level is a deed
 * of its own, so that a rule about sudo and one about rm both see theirs.
 */
#include "conf/risk_command.h"

#include "conf/risk_programs.h"

static void judge(struct command *c);

void
command_judge_from(struct command *c, size_t from)
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

static bool
is_keyword(struct str s)
{
	return risk_is_among(s, "if|then|else|elif|fi|do|done|while|until|{|}|!|"
				"coproc|esac");
}

static void
skip_start(struct command *c)
{
	while (c->n > 0) {
		struct str s = c->w[0].text;
		bool is_function = str_eq(s, STR("function"));
		if (!is_keyword(s) && !is_function && !command_add_assignment(c, s))
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
	return w->is_odd || risk_has_hole(w->text) || str_starts(w->text, STR("-")) ||
	       (str_has(w->text, '{') && w->text.n > 1) || str_has(w->text, '\n');
}

static void
enter(struct command *c)
{
	struct str to = command_word(c, 1);

	if (!risk_is_among(c->name, "cd|pushd") || c->n < 2 || command_is_option(to))
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
	command_add_facts(c);
	c->call->names = c->deed.fact[COND_COMMAND];
	command_run(c);
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

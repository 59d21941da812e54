/* exec_judge: what runs. */
#include "proxy/base/num.h"
#include "proxy/io/place.h"
#include "proxy/worker/exec_judge_in.h"

enum { ENVS_MAX = 512 };

/* One command; false: not all of its parts are strings. */
static bool
argv_of(struct judge *j, const struct jnode *n, struct risk_question *q)
{
	struct str *argv = arena_alloc(&j->tree, JUDGE_ARGV_MAX * sizeof *argv);

	if (argv == NULL)
		return false;
	q->kind = RISK_ARGV;
	q->argv = argv;
	for (const struct jnode *it = n->first; it != NULL; it = it->next) {
		if (it->kind != JTREE_STRING || q->argv_n == JUDGE_ARGV_MAX)
			return false;
		argv[q->argv_n++] = it->text;
		judge_show(j, it->text, it->next != NULL ? ' ' : '\n');
	}
	if (q->argv_n > 0)
		judge_ask(j, q);
	return true;
}

bool
judge_command(struct judge *j, const struct jnode *n, struct risk_question *q)
{
	*q = (struct risk_question){ .kind = RISK_COMMAND, .text = n->text };
	if (n->kind == JTREE_ARRAY)
		return argv_of(j, n, q);
	if (n->kind != JTREE_STRING)
		return n->kind == JTREE_LITERAL;
	judge_show(j, n->text, '\n');
	judge_ask(j, q);
	return true;
}

/* As `env NAME=VALUE ...` would be: what loads foreign code does so from here, too. */
static enum status
env_one(struct judge *j, const struct jnode *it)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str argv[3] = { STR("env"), STR(""), STR("true") };
	struct risk_question q = { .kind = RISK_ARGV, .argv = argv, .argv_n = 3 };
	enum status st;

	if (it->kind != JTREE_STRING && it->kind != JTREE_LITERAL)
		return ST_BAD_JSON;
	if (it->key.n == 0 || it->key.p[0] == '-' || str_has(it->key, '=')) {
		judge_unreadable(j);
		return ST_OK;
	}
	buf_init(&b, it->key.n + it->text.n + 1);
	buf_put(&b, it->key);
	buf_putc(&b, '=');
	buf_put(&b, it->text);
	st = buf_finish(&b, &argv[1]);
	if (st == ST_OK)
		judge_ask(j, &q);
	return st;
}

/* Only the names are kept. */
static enum status
env_of(struct judge *j, const struct jnode *root)
{
	bool is_mcp = j->route->op == EXEC_OP_MCP_UPSTREAM_ADD;
	struct names *names = arena_alloc(&j->tree, sizeof *names);
	const struct jnode *env;
	enum status st = judge_member(root, is_mcp ? "env" : "envs", &env);

	if (names == NULL)
		return ST_NOMEM;
	if (st != ST_OK || env == NULL || env->kind != JTREE_OBJECT)
		return st;
	for (const struct jnode *it = env->first; it != NULL && st == ST_OK;
	     it = it->next) {
		judge_add_name(names, it->key);
		if (names->n > ENVS_MAX)
			judge_unreadable(j); /* each is looked up by itself */
		else
			st = env_one(j, it);
	}
	judge_note_names(j, "env", names);
	return st;
}

static bool
note_plain(struct judge *j, const char *name, const struct jnode *n)
{
	uint64_t v = 0;

	if (n == NULL || n->kind == JTREE_LITERAL)
		return true;
	if (n->kind == JTREE_STRING)
		exec_note_text(&j->out->note, name, n->text);
	else if (n->kind == JTREE_NUMBER && num_parse_strict(n->text, INT32_MAX, &v))
		exec_note_number(&j->out->note, name, (int64_t)v);
	else
		return false;
	return true;
}

static enum status
plain_members(struct judge *j, const struct jnode *root)
{
	static const char *const names[] = { "cwd", "uid", "gid" };

	for (size_t i = 0; i < COUNT_OF(names); i++) {
		const struct jnode *n;
		enum status st = judge_member(root, names[i], &n);
		if (st == ST_OK && !note_plain(j, names[i], n))
			st = ST_BAD_JSON;
		if (st != ST_OK)
			return st;
	}
	return env_of(j, root);
}

/* Which context it names.  One whose id is too long to ask for is one that nobody knows. */
static enum status
context_of(struct judge *j, const struct jnode *context)
{
	const struct jnode *id = NULL;
	enum status st = judge_member(context, "id", &id);

	if (st != ST_OK || id == NULL || id->kind == JTREE_LITERAL || id->text.n == 0)
		return st;
	if (id->kind != JTREE_STRING)
		return ST_BAD_JSON;
	j->out->has_context = true;
	exec_note_text(&j->out->note, "context", id->text);
	if (id->text.n <= PLACE_CONTEXT_MAX)
		buf_put(&j->out->context, id->text);
	return j->out->context.st;
}

/* Only execd's interpreters read a language, and only of the context: without one, or by two
 * names of languages, they run a command line.  All else that is called code is one. */
static enum status
language_of(struct judge *j, const struct jnode *root, struct str *ret_language)
{
	const struct jnode *context = NULL, *language = NULL;
	enum status st = judge_member(root, "context", &context);

	if (st == ST_OK)
		st = judge_member(context, "language", &language);
	if (st == ST_OK && j->route->op == EXEC_OP_CODE_RUN)
		st = context_of(j, context);
	*ret_language = j->route->class == EXEC_CLASS_CODE && language != NULL
				? language->text
				: STR("");
	return st;
}

static bool
is_command_line(struct str language)
{
	return language.n == 0 || str_ieq(language, STR("command")) ||
	       str_ieq(language, STR("background-command"));
}

static void
ask_as(struct judge *j, struct str language, struct str code)
{
	struct risk_question q = { .kind = RISK_CODE,
				   .text = code,
				   .language = language };

	if (is_command_line(language))
		q.kind = RISK_COMMAND;
	judge_ask(j, &q);
}

/* A context runs what it gets in its own language. */
static void
ask_as_kernel(struct judge *j, struct str claimed, struct str code)
{
	/* What kernels there are for, and execd's names of them. */
	static const char *const languages[] = {
		"bash", "python", "javascript", "java", "go",    "sql",
		"ruby", "perl",   "php",        "r",    "julia", "lua"
	};

	if (!j->out->has_context || j->kernel == NULL)
		return;
	if (j->kernel->n > 0) {
		if (!str_ieq(*j->kernel, claimed))
			ask_as(j, *j->kernel, code);
		exec_note_text(&j->out->note, "runs_as", *j->kernel);
		return;
	}
	exec_note_text(&j->out->note, "runs_as", STR("not known"));
	if (code.n > image_number(j->im, OPT_RISK_TEXT_MAX) / COUNT_OF(languages)) {
		judge_unreadable(j);
		return;
	}
	for (size_t i = 0; i < COUNT_OF(languages); i++)
		if (j->out->answer.level < RISK_HIGH)
			ask_as(j, str_from(languages[i]), code);
}

static enum status
code_of(struct judge *j, const struct jnode *root)
{
	const struct jnode *code = NULL;
	struct str language;
	enum status st = language_of(j, root, &language);

	if (st == ST_OK)
		st = judge_member(root, "code", &code);
	if (st != ST_OK || code == NULL || code->kind == JTREE_LITERAL)
		return st;
	if (code->kind != JTREE_STRING)
		return ST_BAD_JSON;
	exec_note_text(&j->out->note, "language", language);
	exec_note_text(&j->out->note, "code", code->text);
	judge_show(j, code->text, '\n');
	if (j->out->has_context && language.n <= PLACE_LANGUAGE_MAX)
		buf_put(&j->out->claimed, language);
	ask_as(j, language, code->text);
	ask_as_kernel(j, language, code->text);
	return ST_OK;
}

enum status
judge_run(struct judge *j, const struct jnode *root)
{
	static const char *const names[] = { "command", "argv" };

	for (size_t i = 0; i < COUNT_OF(names); i++) {
		const struct jnode *n;
		struct risk_question q;
		enum status st = judge_member(root, names[i], &n);
		if (st != ST_OK)
			return st;
		if (n == NULL)
			continue;
		if (!judge_command(j, n, &q))
			return ST_BAD_JSON;
		exec_note_text(&j->out->note, names[i], q.text);
		if (q.argv_n > 0)
			exec_note_argv(&j->out->note, names[i], q.argv, q.argv_n);
	}
	enum status st = code_of(j, root);
	if (st == ST_OK)
		st = judge_mcp(j, root);
	return st == ST_OK ? plain_members(j, root) : st;
}

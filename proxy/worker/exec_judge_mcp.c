/* exec_judge: MCP servers that execd starts in the sandbox, and what their tools are told. */
#include "proxy/worker/exec_judge_in.h"

/* {command, args}: one command, no shell. */
static enum status
start_of(struct judge *j, const struct jnode *root)
{
	const struct jnode *command, *args = NULL;
	struct str *argv = arena_alloc(&j->tree, JUDGE_ARGV_MAX * sizeof *argv);
	struct risk_question q = { .kind = RISK_ARGV, .argv = argv };
	enum status st = judge_member(root, "command", &command);

	if (st == ST_OK)
		st = judge_member(root, "args", &args);
	if (st != ST_OK || command == NULL || command->kind != JTREE_STRING ||
	    args == NULL)
		return st;
	if (argv == NULL)
		return ST_NOMEM;
	argv[q.argv_n++] = command->text;
	for (const struct jnode *it = args->first; it != NULL; it = it->next) {
		if (it->kind != JTREE_STRING || q.argv_n == JUDGE_ARGV_MAX)
			return ST_BAD_JSON;
		argv[q.argv_n++] = it->text;
		judge_show(j, it->text, it->next != NULL ? ' ' : '\n');
	}
	exec_note_argv(&j->out->note, "args", q.argv, q.argv_n);
	judge_ask(j, &q);
	return ST_OK;
}

static enum status
place_of(struct judge *j, const struct jnode *root)
{
	const struct jnode *url;
	struct risk_question q = { .kind = RISK_NETWORK };
	enum status st = judge_member(root, "url", &url);

	if (st != ST_OK || url == NULL || url->kind != JTREE_STRING)
		return st;
	q.text = url->text;
	judge_show(j, q.text, '\n');
	if (q.text.n > 0)
		judge_ask(j, &q);
	return ST_OK;
}

static bool
is_command_name(struct str key)
{
	static const char *const names[] = { "command", "cmd", "script", "shell" };

	for (size_t i = 0; i < COUNT_OF(names); i++)
		if (str_ieq(key, str_from(names[i])))
			return true;
	return false;
}

/* What a tool does with a text only the tool knows.  Most are no commands, so that one can't
 * be read as a command says nothing of it, unless it is called one; a rule that fits does. */
void
judge_told(struct judge *j, const struct jnode *n)
{
	struct risk_question q = { .kind = RISK_COMMAND, .text = n->text };
	struct risk_answer a;

	judge_show(j, n->text, '\n');
	risk_judge(j->im, &q, &a);
	if (a.rule != RISK_NO_RULE || is_command_name(n->key))
		judge_ask(j, &q);
}

static void
call_of(struct judge *j, const struct jnode *root)
{
	size_t seen = 0;

	for (const struct jnode *it = root; it != NULL; it = jtree_next(it)) {
		if (it->kind != JTREE_STRING)
			continue;
		if (seen++ < JUDGE_TEXTS_MAX)
			judge_told(j, it);
		else
			judge_unreadable(j);
	}
}

enum status
judge_mcp(struct judge *j, const struct jnode *root)
{
	enum status st;

	if (j->route->op == EXEC_OP_MCP_CALL)
		call_of(j, root);
	if (j->route->op != EXEC_OP_MCP_UPSTREAM_ADD)
		return ST_OK;
	st = start_of(j, root);
	return st == ST_OK ? place_of(j, root) : st;
}

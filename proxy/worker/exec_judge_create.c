/* exec_judge: what a create has run before, and besides, what its sandbox is for.  Control reads
 * the rest of it (brain_dress.c), and refuses members of hooks that it doesn't know. */
#include "proxy/worker/exec_judge_in.h"

static bool
is_known(struct str name)
{
	static const char *const known[] = {
#define CREATE_FIELD(name) name,
#include "proxy/http/create_field.def"
#undef CREATE_FIELD
	};

	for (size_t i = 0; i < COUNT_OF(known); i++)
		if (str_eq(name, str_from(known[i])))
			return true;
	return false;
}

static bool
is_argv(const struct jnode *n)
{
	if (n->kind != JTREE_ARRAY || n->first == NULL)
		return false;
	for (const struct jnode *it = n->first; it != NULL; it = it->next)
		if (it->kind != JTREE_STRING)
			return false;
	return true;
}

/* What a newer server would do with a member that nobody knows here may be to run it: each
 * text of it is looked at, and a list of texts as the words of a command. */
static void
unknown_member(struct judge *j, const struct jnode *member)
{
	struct risk_question q;
	const struct jnode *n = member;
	size_t seen = 0;

	while (n != NULL) {
		if (is_argv(n) && !judge_command(j, n, &q))
			judge_unreadable(j);
		if (n->kind == JTREE_STRING && seen++ < JUDGE_TEXTS_MAX)
			judge_told(j, n);
		else if (n->kind == JTREE_STRING)
			judge_unreadable(j);
		if (n == member && n->first == NULL)
			break;
		n = jtree_next(n);
		if (n != NULL && n->parent == member->parent)
			break;
	}
}

static void
unknown_members(struct judge *j, const struct jnode *root)
{
	if (root == NULL || root->kind != JTREE_OBJECT)
		return;
	for (const struct jnode *it = root->first; it != NULL; it = it->next)
		if (!is_known(it->key))
			unknown_member(j, it);
}

static enum status
life_command(struct judge *j, const struct jnode *of)
{
	const struct jnode *n;
	struct risk_question q;
	size_t begun = j->text.len;
	enum status st = judge_member(of, "command", &n);

	if (st != ST_OK || n == NULL)
		return st;
	if (!judge_command(j, n, &q))
		return ST_BAD_JSON;
	struct str copy = arena_copy(&j->tree, judge_shown(j, begun));
	if (copy.p == NULL)
		return ST_NOMEM;
	judge_add_name(&j->commands, copy);
	return ST_OK;
}

enum status
judge_create(struct judge *j, const struct jnode *root)
{
	const struct jnode *life, *start, *periodic = NULL;
	enum status st = judge_member(root, "lifecycle", &life);

	if (st == ST_OK)
		st = judge_member(life, "preStart", &start);
	if (st == ST_OK)
		st = judge_member(life, "periodic", &periodic);
	if (st == ST_OK)
		st = life_command(j, start);
	if (st == ST_OK && periodic != NULL && periodic->kind == JTREE_ARRAY)
		for (const struct jnode *it = periodic->first;
		     st == ST_OK && it != NULL; it = it->next)
			st = life_command(j, it);
	judge_note_names(j, "lifecycle", &j->commands);
	unknown_members(j, root);
	return st;
}

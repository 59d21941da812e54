/* exec_judge: which files, and what happens to them. */
#include "proxy/http/params.h"
#include "proxy/worker/exec_judge_in.h"

enum { PATHS_MAX = 512 }; /* each is looked up by itself; more are too much to read */

static void
path_of(struct judge *j, enum risk_kind kind, struct str path)
{
	struct risk_question q = { .kind = kind, .text = path };

	if (j->looked++ < PATHS_MAX)
		judge_ask(j, &q);
	else
		judge_unreadable(j);
	judge_show(j, path, '\n');
	judge_add_name(&j->paths, path);
}

/* [{src, dest}] */
static enum status
moves_of(struct judge *j, const struct jnode *root)
{
	const struct jnode *src = NULL, *dest = NULL;
	enum status st = root->kind == JTREE_ARRAY ? ST_OK : ST_BAD_JSON;

	for (const struct jnode *it = root->first; st == ST_OK && it != NULL;
	     it = it->next) {
		st = judge_member(it, "src", &src);
		if (st == ST_OK)
			st = judge_member(it, "dest", &dest);
		if (st != ST_OK)
			break;
		if (src == NULL || dest == NULL || src->kind != JTREE_STRING ||
		    dest->kind != JTREE_STRING)
			return ST_BAD_JSON;
		path_of(j, RISK_DELETE, src->text);
		path_of(j, RISK_WRITE, dest->text);
	}
	return st;
}

/* {path: ...} */
static enum status
keys_of(struct judge *j, const struct jnode *root)
{
	if (root->kind != JTREE_OBJECT)
		return ST_BAD_JSON;
	for (const struct jnode *it = root->first; it != NULL; it = it->next)
		path_of(j, RISK_WRITE, it->key);
	return ST_OK;
}

static enum status
paths_of_query(struct judge *j, enum risk_kind kind)
{
	struct str rest = j->route->query, name, value;

	while (params_next(&rest, &name, &value)) {
		CLEANUP(buf_done) struct buf plain = { 0 };
		struct str view;

		if (!params_is(name, STR("path")) || value.n == 0)
			continue;
		buf_init(&plain, SPACE_MAX);
		params_put(&plain, value);
		if (buf_finish(&plain, &view) != ST_OK)
			return ST_URI_TOO_LONG;
		view = arena_copy(&j->tree, view);
		if (view.p == NULL)
			return ST_NOMEM;
		path_of(j, kind, view);
	}
	return ST_OK;
}

enum source { FROM_QUERY, FROM_KEYS, FROM_MOVES };

/* Where the paths of a route stand, and what happens to them; of others: they are read. */
static void
source_of(enum exec_op op, enum source *ret_from, enum risk_kind *ret_kind)
{
	static const struct {
		enum exec_op op;
		enum source from;
		enum risk_kind kind;
	} rows[] = {
		{ EXEC_OP_FILES_MOVE, FROM_MOVES, RISK_WRITE },
		{ EXEC_OP_FILES_PERMISSIONS, FROM_KEYS, RISK_WRITE },
		{ EXEC_OP_FILES_REPLACE, FROM_KEYS, RISK_WRITE },
		{ EXEC_OP_DIRECTORIES_CREATE, FROM_KEYS, RISK_WRITE },
		{ EXEC_OP_FILES_DELETE, FROM_QUERY, RISK_DELETE },
		{ EXEC_OP_DIRECTORIES_DELETE, FROM_QUERY, RISK_DELETE },
	};

	*ret_from = FROM_QUERY;
	*ret_kind = RISK_READ;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		if (rows[i].op != op)
			continue;
		*ret_from = rows[i].from;
		*ret_kind = rows[i].kind;
	}
}

enum status
judge_paths(struct judge *j, const struct jnode *root)
{
	enum source from;
	enum risk_kind kind;
	enum status st = ST_OK;

	source_of(j->route->op, &from, &kind);
	if (from == FROM_QUERY)
		st = paths_of_query(j, kind);
	else if (root != NULL && from == FROM_MOVES)
		st = moves_of(j, root);
	else if (root != NULL)
		st = keys_of(j, root);
	judge_note_names(j, "paths", &j->paths);
	return st;
}

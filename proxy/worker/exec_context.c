/* exec_private: what execd says of contexts for code is told to control, which knows it again
 * when code is to run in one, from whichever worker. */
#include "proxy/base/jtree.h"
#include "proxy/io/ask.h"
#include "proxy/worker/exec_private.h"

enum { LOOKS_MAX = 16, TREE_MAX = 1 << 20, TOLD_MAX = 64 };

static struct str
text_of(const struct jnode *o, const char *name)
{
	const struct jnode *n = NULL;

	if (jtree_get(o, str_from(name), &n) != ST_OK || n == NULL)
		return STR("");
	return n->kind == JTREE_STRING ? n->text : STR("");
}

static void
tell(struct exec *e, struct str id, struct str language)
{
	struct worker *w = e->t->c->w;
	CLEANUP(buf_done) struct buf b = { 0 };

	/* The ticket is of the line that gave it. */
	if (id.n == 0 || id.n > PLACE_CONTEXT_MAX || !e->is_ticket_open ||
	    w->control == NULL || w->control != e->line)
		return;
	buf_init(&b, ask_rule(ASK_CONTEXT)->size);
	buf_put_u64(&b, e->ticket);
	wire_put_str(&b, id);
	wire_put_str(&b, str_head(language, PLACE_LANGUAGE_MAX + 1));
	/* What control doesn't know is read in every language. */
	if (b.st == ST_OK)
		(void)!ask_tell(w->control, ASK_CONTEXT, str_of(b.p, b.len), NULL, 0);
}

/* Made for a language, and said to be of another: then of which is not known. */
static struct str
language_of(struct exec *e, struct arena *a, const struct jnode *o)
{
	struct str said = text_of(o, "language"), wanted = STR("");
	const struct jnode *root = NULL;

	if (e->route.op != EXEC_OP_CONTEXT_CREATE || e->body.len == 0)
		return said;
	if (jtree_read(a, str_of(e->body.p, e->body.len), &root) == ST_OK)
		wanted = text_of(root, "language");
	return str_ieq(wanted, said) ? said : STR("");
}

static void
look(struct exec *e)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	const struct jnode *root = NULL;
	size_t n = 0;

	arena_init(&a, TREE_MAX);
	if (jtree_read(&a, str_of(e->said.p, e->said.len), &root) != ST_OK)
		return; /* not all of it yet */
	e->is_listening = false;
	if (root->kind == JTREE_OBJECT) {
		tell(e, text_of(root, "id"), language_of(e, &a, root));
		return;
	}
	for (const struct jnode *it = root->first; it != NULL && n++ < TOLD_MAX;
	     it = it->next)
		tell(e, text_of(it, "id"), text_of(it, "language"));
}

void
exec_context_begin(struct exec *e)
{
	const struct head *h = e->t->response;

	e->is_listening = exec_tells_contexts(e->route.op) && h->status / 100 == 2 &&
			  head_get(h, TOKEN_CONTENT_ENCODING) == NULL;
}

/* Before these bytes go on: who reads them may name the context at once. */
void
exec_context_put(struct exec *e, struct str piece)
{
	if (!e->is_listening || piece.n == 0)
		return;
	buf_put(&e->said, piece);
	char last = piece.p[piece.n - 1];
	bool is_end = last == '}' || last == ']' || last == '\n';
	if (e->said.st != ST_OK)
		e->is_listening = false;
	else if (is_end && e->looks++ < LOOKS_MAX)
		look(e);
}

enum status
exec_context_judge(struct exec *e)
{
	struct exec_judged *j = &e->judged;
	struct str known = e->placed.language;

	if (!j->has_context)
		return ST_OK;
	if (known.n > 0 && str_ieq(known, str_of(j->claimed.p, j->claimed.len))) {
		exec_note_text(&j->note, "runs_as", known); /* it is as it claims */
		return ST_OK;
	}
	exec_judged_done(j);
	*j = (struct exec_judged){ 0 };
	return exec_judge(e->t->c->w->role.image, &e->route,
			  str_of(e->body.p, e->body.len), &e->placed.language, j);
}

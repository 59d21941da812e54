/* What the brain does for a caller stands in the ledger before anything of it is done; how it
 * ended the worker's row of the same turn tells. */
#include "proxy/control/brain.h"
#include "proxy/io/exec_note.h"

bool
brain_is_told(const struct brain_turn *t)
{
	enum exec_op op = (enum exec_op)t->wish.op;

	return exec_op_changes(op) && op != EXEC_OP_TELEMETRY;
}

static void
put_note(const struct brain_turn *t, struct exec_note *n)
{
	const struct place_wish *w = &t->wish;

	exec_note_begin(n, str_from(exec_op_name((enum exec_op)w->op)));
	if (w->op == EXEC_OP_SANDBOX_CREATE && w->text.n > 0) {
		exec_note_text(n, "command", w->text);
		exec_note_text(n, "level",
			       str_from(risk_level_word((enum risk_level)w->level)));
		exec_note_text(n, "why", w->why);
	}
	exec_note_text(n, "id", w->id);
	exec_note_text(n, "server", t->box.server);
	exec_note_text(n, "tenant", str_from(t->who.tenant));
	exec_note_text(n, "on_behalf_of", str_from(t->who.on_behalf_of));
	exec_note_text(n, "task", brain_said_or_made_for(t->who.task, t->box.task));
	exec_note_text(n, "request", w->request);
}

enum status
brain_row(struct brain_turn *t)
{
	struct role_self *role = &t->brain->control->role;
	struct row row = role_row_begin(role, ROW_EXEC, NULL);
	CLEANUP(exec_note_done) struct exec_note note = { 0 };

	put_note(t, &note);
	if (t->wish.turn != 0)
		row.turn = t->wish.turn;
	row.sandbox = t->box.id;
	row.user = str_from(t->who.user);
	row.agent = str_from(t->who.agent);
	row.session = brain_said_or_made_for(t->who.session, t->box.session);
	row.address = t->wish.peer;
	row.exec = exec_note_end(&note);
	return role_row(role, &row) == ST_OK ? ST_OK : ST_NO_LEDGER;
}
